#!/usr/bin/env bash
# Words that this project used to invent or use in a sense of its own, and that readers of llama.cpp
# or vLLM do not know, must not come back: in the documentation, the public header, the manual
# pages, the web page and the help of every program. docs/glossary.md has the terms to use instead.
# Code between backquotes, names of JSON fields and the allowed phrases are left out.
# shellcheck source=tests/cli/plain.bash
. "$(dirname "$0")/plain.bash"

words=(
    'lanes?' 'repl(y|ies|ied|ying)' 'agree(d|s)? to' 'agreed' 'who (drafts|asks)'
    'most drafts' 'drafts? of a round' 'rounds?' 'earns?' '(drafts?|as it|it|many as) pays?'
    '(the|a|long|short|its|their) past' 'pasts' 'cells behind' 'cells apart' 'newest cells'
    'cards?' 'processors?' 'rooms?' 'the house' 'the peer' 'peers' '(the|its|a) roof' 'laws?'
    'turned' 'turning' 'in turns?' '(take|takes|taking|took) turns' 'woven' 'weaves?' 'elders' 'shadows?'
    'gauges?' 'soften(s|ed)?' 'talks?' 'talking' 'reckon(s|ed|ing)?' 'looked into' 'found out'
    'sentence that says' 'rehears(e|es|ed|al)' 'kept steps' 'steps kept' 'as many as must'
    'company' 'stands? behind' 'its say'
)
allowed='Math\.round|card model|model cards?|turned (on|off)|turns? off|round-trip|found outside|round trip|all-round|(rounds?|rounded|rounding) (up|down|to|in|errors?|differently|it)|rounds every|it rounds|llama.cpp rounds|they round'

pattern=$(IFS='|'; echo "${words[*]}")
search() { # name, text on standard input; prints what is found
    sed -e 's/``*[^`]*``*//g' -e 's/"[a-z_]*"://g' -e 's/([a-z0-9/#.-]*\.md[a-z0-9#-]*)//g' -e 's/<[^<>]*>//g' |
        sed -E "s/\b($allowed)\b//Ig" | grep -nEiw -- "($pattern)" | sed "s|^|$1:|" | cut -c1-160
}

pages=$(git ls-files README.md CHANGELOG.md CONTRIBUTING.md 'docs/*.md' 'docs/bench/*.json' 'models/*.md' \
    'bench/*.md' 'tests/*.md' deploy examples include/foretoken.h)
found=$(for f in $pages; do search "$f" <"$f"; done)
same "documentation" "$found" ""
found=$(for f in $(git ls-files man); do sed 's/\\-/-/g' "$f" | search "$f"; done)
same "manual pages" "$found" ""
found=$(for f in $(git ls-files 'web/*.html' 'web/*.js'); do search "$f" <"$f"; done)
same "web page" "$found" ""
programs=$("$ft" --help | sed -n 's/^  \([a-z]\{3,\}\) .*/\1/p')
[ "$(wc -w <<<"$programs")" -gt 8 ]
ok "the programs are known" $?
found=$("$ft" --help | search "--help"; for p in $programs; do "$ft" "$p" --help | search "$p --help"; done)
same "help of the programs" "$found" ""
same "a word is found" "$(echo 'two lanes reply' | search x | wc -l)" 1
same "an ordinary use is not" "$(echo 'it rounds to bytes, turned off, `lane`' | search x)" ""
finish
