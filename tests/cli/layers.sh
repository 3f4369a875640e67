#!/usr/bin/env bash
# scripts/layers.sh finds what it is there to find: a small tree with one fault at a time.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"
tree=$dir/tree
fresh() {
    rm -rf "$tree"
    mkdir -p "$tree"/include "$tree"/src/{base,dev,engine,cli}
    cp include/foretoken.h "$tree/include/"
    cp src/base/status.h "$tree/src/base/"
    printf '#include "base/status.h"\ntypedef struct ft_tensor {\n    int n;\n} ft_tensor;\n' >"$tree/src/dev/tensor.h"
    printf '#include "dev/tensor.h"\n' >"$tree/src/engine/engine.h"
    printf '#include "foretoken.h"\n' >"$tree/src/cli/main.c"
}
finds() { # what pattern: layers.sh fails with exactly one line, which matches
    local out rc
    out=$(scripts/layers.sh "$tree") && rc=0 || rc=$?
    same "$1" "$rc:$(wc -l <<<"$out"):$(grep -c -- "$2" <<<"$out")" "1:1:1"
}
fresh
same "a correct tree passes" "$(scripts/layers.sh "$tree"):$?" ":0"
echo '#include "engine/engine.h"' >>"$tree/src/dev/tensor.h"
finds "an include that points up" 'dev/tensor.h:[0-9]*: dev may not include engine/'
fresh
echo '#include "foretoken.h"' >>"$tree/src/engine/engine.h"
finds "the public header in a lower module" 'engine may not include foretoken.h'
fresh
echo '#include "../engine/engine.h"' >>"$tree/src/base/status.h"
finds "a relative include" 'base may not include engine/'
fresh
: >"$tree/src/ft_llm.h"
echo '#include "ft_llm.h"' >>"$tree/src/cli/main.c"
finds "an include without a folder" 'cli may not include api/'
fresh
echo '#include "dev/none.h"' >>"$tree/src/engine/engine.h"
finds "a file that is not there" '"dev/none.h" is no file'
fresh
mkdir "$tree/src/more" && echo '#include "base/status.h"' >"$tree/src/more/a.c"
finds "a module that is not in the table" 'src/more/ has no row'
fresh
printf 'typedef enum ft_tensor { A } ft_tensor;\n' >"$tree/src/cli/a.h"
finds "a type defined twice" 'type ft_tensor is defined more than once: src/cli/a.h src/dev/tensor.h'
fresh
printf 'typedef int (*ft_tensor)(void);\n' >"$tree/src/cli/a.h"
finds "a function type of the same name" 'type ft_tensor is defined more than once'
fresh
echo '    fprintf(stderr, "x");' >"$tree/src/engine/a.c"
finds "a module that prints" 'engine/a.c:1: only cli/ and serve/ print'
fresh
printf 'typedef struct ft_tensor ft_tensor;\n' >"$tree/src/cli/a.h"
same "an opaque declaration is no definition" "$(scripts/layers.sh "$tree"):$?" ":0"
sed -i 's/FT_EIO = -5/FT_EIO = -50/' "$tree/src/base/status.h"
finds "status codes that differ" 'differ'
finish
