#!/usr/bin/env bash
# make install, into a folder: everything is there, the example compiles against it and runs, and
# uninstall leaves nothing.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
build=${BUILD:-build} root=$dir/root prefix=/opt/foretoken
# the outer make's flags would follow us: only what was built already is installed
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s install-files BUILD="$build" DESTDIR="$root" PREFIX="$prefix" >"$dir/.out" 2>&1
same "make install-files" $? 0
at=$root$prefix
for f in bin/foretoken include/foretoken.h lib/libforetoken.a lib/libforetoken.so lib/libforetoken.so.0 \
    lib/pkgconfig/foretoken.pc share/bash-completion/completions/foretoken \
    share/zsh/site-functions/_foretoken share/fish/vendor_completions.d/foretoken.fish; do
    [ -s "$at/$f" ]
    ok "$f is there" $?
done
if [ -f models/foretoken-tiny.gguf ]; then
    cmp -s models/foretoken-tiny.gguf "$at/share/foretoken/foretoken-tiny.gguf"
    ok "the model that ships is there" $?
fi
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

# the example, as a stranger would build it; a build with sanitizers needs them here too
san=$(grep -o -e '-fsanitize=[a-z,]*' "$build/flags" | head -n 1)
cc=$(cut -d' ' -f1 "$build/flags")
if command -v pkg-config >/dev/null; then
    flags=$(PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$at/lib/pkgconfig pkg-config --cflags --libs foretoken)
else
    flags="-I$at/include -L$at/lib -lforetoken"
fi
# shellcheck disable=SC2086
"$cc" -Wall -Wextra -Werror $san examples/hello.c $flags -o "$dir/hello" >"$dir/.out" 2>&1
same "the example compiles" "$?:$(head -c 200 "$dir/.out")" "0:"
LD_LIBRARY_PATH=$at/lib "$dir/hello" "$model" >"$dir/.out" 2>&1
same "and runs" $? 0
grep -q '^([0-9]* tokens in' "$dir/.out"
ok "and replies" $?
LD_LIBRARY_PATH=$at/lib "$dir/hello" "$dir/none.gguf" >"$dir/.out" 2>&1
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

make -s uninstall BUILD="$build" DESTDIR="$root" PREFIX="$prefix" >"$dir/.out" 2>&1
same "uninstall leaves no file" "$(find "$root" -type f -o -type l)" ""
finish
