#!/usr/bin/env bash
# What the compiler and the linker can do against memory errors is in the program: Makefile, "hardening".
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
command -v readelf >/dev/null || { echo "0 passed, 0 failed"; exit 0; }
symbols=$(readelf -W --dyn-syms "$ft")
if grep -q '__[at]san_init\|__ubsan_handle' <<<"$symbols$(readelf -Ws "$ft")"; then
    echo "0 passed, 0 failed" # sanitizers find more, and do not go with all of it
    exit 0
fi
head=$(readelf -W -h -l -d "$ft")
grep -q 'Type: *DYN' <<<"$head"
ok "position independent" $?
grep -q 'GNU_RELRO' <<<"$head"
ok "relocations are read-only" $?
grep -q 'BIND_NOW\|FLAGS_1.*NOW' <<<"$head"
ok "and resolved at the start" $?
grep 'GNU_STACK' <<<"$head" | grep -q 'RW ' && ! grep 'GNU_STACK' <<<"$head" | grep -q 'RWE'
ok "the stack is not executable" $?
grep -q '__stack_chk_fail' <<<"$symbols"
ok "stack protector" $?
grep -q '__[a-z]*_chk@' <<<"$(grep -v stack_chk <<<"$symbols")"
ok "checked copies (_FORTIFY_SOURCE)" $?
finish
