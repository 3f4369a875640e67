#!/usr/bin/env bash
# The Vulkan device, where the build found Vulkan and glslang (make VK_TESTS): without a driver one
# clear message; with one, some op tests, under the validation layers where they are installed; the
# embedded model generates the text of the CPU, with and without drafting and split with the CPU; a
# lost device is one message.
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
tmp=$(mktemp -d)
export XDG_CACHE_HOME=$tmp
trap 'rm -rf "$tmp"' EXIT
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

    # Mesa's lavapipe compiles for the name of the CPU; a virtual machine may lack some of its
    # instructions (seen: SVE of a Neoverse V1). Then the name is hidden.
    if [ "$( ("$dir/plain" --dev vulkan argmax >/dev/null 2>&1; echo $?) 2>/dev/null)" -eq 132 ]; then
        printf '%s\n' 'struct text { const char *at; unsigned long n; };' \
            'struct text _ZN4llvm3sys14getHostCPUNameEv(void) { return (struct text){"generic", 7}; }' >"$tmp/name.c"
        "${CC:-cc}" -shared -fPIC "$tmp/name.c" -o "$tmp/name.so"
        export LD_PRELOAD=$tmp/name.so${LD_PRELOAD:+:$LD_PRELOAD}
        rm -rf "$tmp"/mesa*
    fi

    # The layers write what they find to standard output; without them the tests run alone.
    validated() {
        VK_INSTANCE_LAYERS=$layer VK_LAYER_ENABLES=VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT \
            "$dir/$1" --dev vulkan 2>&1
    }
    layer=VK_LAYER_KHRONOS_validation
    VK_INSTANCE_LAYERS=$layer "$dir/foretoken" run --list-devices 2>/dev/null | grep -q '^vulkan' || layer=
    for t in plain delta draw; do
        out=$(validated $t)
        [ $? -eq 0 ] && [ "$(grep -c . <<<"$out")" -eq 1 ]
        ok "ops of $t: $out" $?
    done

    generate() { "$dir/foretoken" run -m "$model" --temp 0 -n 16 -q "$@" "How do I use grep?"; }
    want=$(generate --device cpu)
    out=$(generate --device vulkan 2>&1)
    if grep -q '^LLVM ERROR: Cannot select: .* = fp_extend' <<<"$out"; then # Mesa 22.3 on Arm: f16 to f32
        echo "the driver cannot compile the shaders of a model: $out"
    else
        [ -n "$want" ] && [ "$out" = "$want" ]
        ok "text of the embedded model: $out" $?
        [ "$(generate --device vulkan --draft-max 0)" = "$want" ]
        ok "text without drafting" $?
        [ "$(generate --device vulkan -ngl 2)" = "$want" ]
        ok "text of a model that is split with the CPU" $?
        ls "$XDG_CACHE_HOME"/foretoken/vulkan-*.bin >/dev/null
        ok "the pipeline cache is saved" $?
    fi

    cat >"$tmp/lost.c" <<'END'
#include <vulkan/vulkan.h>
VkResult vkWaitSemaphores(VkDevice d, const VkSemaphoreWaitInfo *i, uint64_t t)
{
    return (void)d, (void)i, (void)t, VK_ERROR_DEVICE_LOST;
}
END
    "${CC:-cc}" -shared -fPIC "$tmp/lost.c" -o "$tmp/lost.so"
    out=$(LD_PRELOAD=$tmp/lost.so${LD_PRELOAD:+:$LD_PRELOAD} generate --device vulkan 2>&1)
    [ $? -eq 1 ] && [ "$(grep -c . <<<"$out")" -eq 1 ] && grep -q 'device vulkan .* failed in .*: the device was lost' <<<"$out"
    ok "a lost device: $out" $?
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
