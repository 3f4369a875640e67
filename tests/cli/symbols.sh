#!/usr/bin/env bash
# The shared library exports the functions of foretoken.h and nothing else, and the header is
# complete in itself, for C and for C++.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
build=${BUILD:-build} so=${BUILD:-build}/libforetoken.so cc=${CC:-cc} header=include/foretoken.h

# declarations outside of structs, without comments: a name before the first bracket
declared=$($cc -E -P -x c "$header" | tr '\n' ' ' | sed 's/;/;\n/g' |
    sed -nE 's/^([^({]*[ *])?(ft_[a-z0-9_]+)\(.*/\2/p' | sort -u)
exported=$(nm -D --defined-only "$so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
[ "$(wc -l <<<"$declared")" -ge 40 ]
ok "the header declares functions" $?
same "exported but not in the header" "$(comm -13 <(echo "$declared") <(echo "$exported"))" ""
same "in the header but not exported" "$(comm -23 <(echo "$declared") <(echo "$exported"))" ""
same "all symbols have one version" "$(nm -D --with-symbol-versions --defined-only "$so" | sed -n 's/.*@//p' | sort -u)" "FORETOKEN_0"
same "the soname" "$(objdump -p "$so" | awk '$1 == "SONAME" { print $2 }')" "libforetoken.so.0"

printf '#include <foretoken.h>\nint main(void) { ft_err err; err.code = FT_OK; return ft_version() == 0 || err.code; }\n' >"$dir/a.c"
cp "$dir/a.c" "$dir/a.cpp"
same "the header compiles as C11" "$($cc -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only "$dir/a.c" 2>&1)" ""
san=$(grep -o -e '-fsanitize=[a-z,]*' "$build/flags" | head -n 1)
cxx=${CXX:-c++}
if command -v "$cxx" >/dev/null; then
    # shellcheck disable=SC2086
    same "and as C++, and links" "$("$cxx" -std=c++11 -pedantic -Wall -Wextra -Werror $san -Iinclude "$dir/a.cpp" -L"$build" -lforetoken -o "$dir/a" 2>&1)" ""
    LD_LIBRARY_PATH=$build "$dir/a"
    ok "and runs" $?
fi
finish
