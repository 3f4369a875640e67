#!/usr/bin/env bash
# The Makefile's variables: flags are added, missing libraries are reported, help names real targets.
# Only the file with the flags is made, nothing is compiled.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
unset MAKEFLAGS MFLAGS MAKELEVEL DEPS
flags() { # make variables...: what make prints; the flags are in $dir/b/flags
    make -s BUILD="$dir/b" "$@" "$dir/b/flags" 2>"$dir/.err"
}
if command -v pkg-config >/dev/null; then
    flags WERROR= CFLAGS=-DADDED_C CPPFLAGS=-DADDED_CPP LDFLAGS=-Wl,-O1 >/dev/null
    for f in -std=c11 -Isrc -DADDED_C -DADDED_CPP -Wl,-O1; do
        grep -q -e " $f " "$dir/b/flags"
        ok "the flags have $f" $?
    done
    grep -q -e -Werror "$dir/b/flags"
    ok "warnings are no errors" $((!$?))
    flags WERROR=1 >/dev/null
    grep -q -e ' -Werror ' "$dir/b/flags"
    ok "unless WERROR=1" $?
    same "a build without a library says so" "$(flags WITHOUT=libcurl | grep -c 'building without .*libcurl (no downloads)')" 1
    same "once" "$(flags WITHOUT=libcurl)" ""
    grep -q -e FT_HAVE_CURL "$dir/b/flags"
    ok "and does not use it" $((!$?))
fi
out=$(flags PKG_CONFIG=false)
same "required libraries that are missing" "$?:$(grep -c '^foretoken needs jansson .*not found by false' <<<"$out")" "2:1"
out=$(flags DEPS="$dir/none")
same "and in a folder" "$?:$(grep -c '^foretoken needs jansson .*no headers in' <<<"$out")" "2:1"

for t in $(make -s help | sed -n '/^Targets/,/^$/s/^  make \([a-z].*\)/\1/p' | sed 's/  .*//'); do
    grep -qE "^$t:" Makefile
    ok "make help names the target $t" $?
done
same "the Debian package has the same version" "$(sed -n '1s/.*(\(.*\)-.*/\1/p' debian/changelog)" "$(cat VERSION)"
finish
