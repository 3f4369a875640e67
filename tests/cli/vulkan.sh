#!/usr/bin/env bash
# The Vulkan device, where the build found Vulkan and glslang (make VK_TESTS): without a driver one
# clear message; with one, some op tests, and the embedded model generates the text of the CPU.
set -u
dir=${BUILD:-build}/vk model=models/foretoken-tiny.gguf
passed=0 failed=0
ok() { # name, status
    if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "failed: $1"
    fi
}
if [ ! -x "$dir/foretoken" ]; then
    echo "0 passed, 0 failed"
    exit 0
fi
XDG_CACHE_HOME=$(mktemp -d)
export XDG_CACHE_HOME
trap 'rm -rf "$XDG_CACHE_HOME"' EXIT
out=$(VK_DRIVER_FILES=/none VK_ICD_FILENAMES=/none "$dir/foretoken" run -m "$model" --device vulkan -n 4 hi 2>&1)
[ $? -eq 1 ] && [ "$(grep -c . <<<"$out")" -eq 1 ] && grep -q 'no Vulkan device: ' <<<"$out"
ok "without a driver: $out" $?
devices=$("$dir/foretoken" run --list-devices | grep '^vulkan')
if [ -n "$devices" ]; then
    grep -Evq '^vulkan(:[0-9]+)?: .+, [0-9.]+ GiB(, [0-9.]+ GiB free)?, driver .+, Vulkan 1\.[0-9]+' <<<"$devices"
    [ $? -eq 1 ]
    ok "a line of each device: $devices" $?
    "$dir/foretoken" run -m "$model" --device vulkan:31 -n 4 hi 2>&1 | grep -q 'device "vulkan:31", this machine has'
    ok "a device that is not there" $?
    for t in plain delta; do
        out=$("$dir/$t" --dev vulkan 2>&1)
        ok "ops of $t: $out" $?
    done
    generate() { "$dir/foretoken" run -m "$model" --temp 0 -n 16 -q --device "$1" "How do I use grep?"; }
    want=$(generate cpu)
    [ -n "$want" ] && [ "$(generate vulkan)" = "$want" ]
    ok "text of the embedded model" $?
    ls "$XDG_CACHE_HOME"/foretoken/vulkan-*.bin >/dev/null
    ok "the pipeline cache is saved" $?
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
