#!/usr/bin/env bash
# The Python package in bindings/python, if python3 is there: its tests and its examples.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
build=${BUILD:-build}
# a library with sanitizers cannot be loaded into an ordinary Python
if ! command -v python3 >/dev/null || ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
    grep -q -e '-fsanitize' "$build/flags"; then
    echo "(python3 is missing or older than 3.9, or the build has sanitizers: not tested)"
    finish
    exit
fi
export PYTHONPATH=bindings/python PYTHONDONTWRITEBYTECODE=1 FORETOKEN_TEST_MODEL=$model
FORETOKEN_LIB=$(realpath "$build/libforetoken.so")
export FORETOKEN_LIB
timeout 300 python3 bindings/python/tests/test_foretoken.py >"$dir/out" 2>&1
same "the tests" "$?:$(grep -E '^(FAIL|ERROR|[A-Za-z.]*Error):' "$dir/out" | head -n 5)" "0:"
same "all of them ran" "$(grep -cE '^Ran 1[3-9] tests' "$dir/out")" 1
for example in tools embed logprobs; do
    timeout 100 python3 "bindings/python/examples/$example.py" "$model" >"$dir/out" 2>&1
    same "examples/$example.py" "$?:$(($(wc -l <"$dir/out") > 0))" "0:1"
done
printf 'hello\nagain\n' | timeout 200 python3 bindings/python/examples/chat.py "$model" >"$dir/out" 2>&1
same "examples/chat.py" $? 0
FORETOKEN_LIB=/none python3 -c 'import foretoken' 2>&1 | grep -q 'none'
ok "a library that is not there" $?
finish
