# Shared by the tests of programs that need a model: plain.bash, and model, a tiny one with random
# weights.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "${BASH_SOURCE[0]}")/plain.bash"
model=$dir/micro.gguf
"$ft" synth micro q8_0 "$model" -q || exit 1
