#!/usr/bin/env bash
# Kernels for older CPUs than this one: a part of the product tests for each instruction set that a
# newer one replaces here (FT_CPU).
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
sets=$("$ft" --version | sed -n 's/^instruction sets: //p')
test -n "$sets"
ok "--version names the instruction sets" $?
for name in c $sets; do
    [ "$name" != "${sets##* }" ] || continue
    works "products with FT_CPU=$name" \
        env FT_CPU="$name" "${BUILD:-build}/tests/ops/linear" --dev cpu --part 1/16
done
finish
