#!/usr/bin/env bash
# make install, into a folder: everything is there, the example compiles against it and runs, and
# uninstall leaves nothing.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
build=${BUILD:-build} root=$dir/root prefix=/opt/foretoken libdir=/opt/foretoken/lib/multiarch
version=$(cat VERSION)
# the outer make's flags would follow us: only what was built already is installed
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s install-files BUILD="$build" DESTDIR="$root" PREFIX="$prefix" LIBDIR="$libdir" >"$dir/.out" 2>&1
same "make install-files" $? 0
at=$root$prefix
for f in bin/foretoken include/foretoken.h lib/multiarch/libforetoken.a lib/multiarch/libforetoken.so \
    lib/multiarch/libforetoken.so.0 "lib/multiarch/libforetoken.so.$version" \
    lib/multiarch/pkgconfig/foretoken.pc lib/systemd/system/foretoken.service share/bash-completion/completions/foretoken \
    share/zsh/site-functions/_foretoken share/fish/vendor_completions.d/foretoken.fish; do
    [ -s "$at/$f" ]
    ok "$f is there" $?
done
cmp -s models/foretoken-tiny.gguf "$at/share/foretoken/foretoken-tiny.gguf"
ok "the embedded model is there" $?
(cd / && "$at/bin/foretoken" bench -m "$model" --spec --class prose --n-prompts 1 -n 2 -r 1 -q --spec-type ngram-simple) \
    >"$dir/.out" 2>&1
ok "bench --spec finds its prompts" $?
grep -q "^ExecStart=$prefix/bin/foretoken serve" "$at/lib/systemd/system/foretoken.service"
ok "the systemd unit names the installed program" $?
same "the program has the version of VERSION" "$("$ft" --version | awk 'NR == 1 { print $2 }')" "$version"
for p in "" $("$ft" --help | awk '/^  [a-z]/ { print "-" $1 }'); do
    grep -q '^\.SH NAME' "$at/share/man/man1/foretoken$p.1"
    ok "foretoken$p has a manual page" $?
done
missing=
sed -n 's/\\-/-/g; s/^\.B -/ -/p' "$at/share/man/man1/foretoken-run.1" | tr '\n' ',' >"$dir/names"
for o in $("$ft" run --help-list | cut -f 1); do
    grep -q -- " $o[, ]" "$dir/names" || missing="$missing $o"
done
same "the manual page of run has every option" "$missing" ""

# the example, as a user would build it; a build with sanitizers needs them here too
san=$(grep -o -e '-fsanitize=[a-z,]*' "$build/flags" | head -n 1)
cc=${CC:-cc} pc=$at/lib/multiarch/pkgconfig
if command -v pkg-config >/dev/null; then
    flags=$(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$pc pkg-config --cflags --libs foretoken)
    same "pkg-config knows the version" "$(PKG_CONFIG_PATH=$pc pkg-config --modversion foretoken)" "$version"
else
    flags="-I$at/include -L$root$libdir -lforetoken"
fi
grep -q '@' "$pc/foretoken.pc"
ok "every variable of foretoken.pc is filled in" $((!$?))
# shellcheck disable=SC2086
$cc -Wall -Wextra -Werror $san examples/hello.c $flags -o "$dir/hello" >"$dir/.out" 2>&1
same "the example compiles" "$?:$(head -c 200 "$dir/.out")" "0:"
LD_LIBRARY_PATH=$root$libdir "$dir/hello" "$model" >"$dir/.out" 2>&1
same "and runs" $? 0
grep -q '^([0-9]* tokens in' "$dir/.out"
ok "and replies" $?
if command -v pkg-config >/dev/null; then
    flags=$(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$pc pkg-config --static --libs foretoken)
    # shellcheck disable=SC2086
    $cc $san -Iinclude examples/hello.c ${flags/-lforetoken/-l:libforetoken.a} -o "$dir/static" >"$dir/.out" 2>&1
    same "the example links the static library" "$?:$(head -c 200 "$dir/.out")" "0:"
fi
LD_LIBRARY_PATH=$root$libdir "$dir/hello" "$dir/none.gguf" >"$dir/.out" 2>&1
same "or says what is wrong" "$?:$(grep -c 'No such file' "$dir/.out")" "1:1"

# completion
complete_words() { # words...: what bash would offer for the last one
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _foretoken; printf "%s\n" "${COMPREPLY[@]}"' \
        - completions/foretoken.bash "$@" | tr '\n' ' '
}
same "programs complete" "$(complete_words "$ft" perp)" "perplexity "
same "options complete" "$(complete_words "$ft" run --xtc-p)" "--xtc-probability "
same "choices complete" "$(complete_words "$ft" run --color o)" "on off "
same "names are whole" "$(complete_words "$ft" run --spec-draft-cpu-range-)" "--spec-draft-cpu-range-batch "

make -s uninstall BUILD="$build" DESTDIR="$root" PREFIX="$prefix" LIBDIR="$libdir" >"$dir/.out" 2>&1
same "uninstall leaves no file" "$(find "$root" -type f -o -type l)" ""
finish
