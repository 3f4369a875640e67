# bash completion for foretoken. The program itself says what it takes, so this never goes stale.
_foretoken()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "--help --version $("$program" --help 2>/dev/null |
            awk '/^  [a-z]/ { print $1 }')" -- "$cur")
        return
    fi
    local help choices
    help=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | grep '^  -')
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(awk '{ for (i = 1; $i ~ /^-/; i++) print $i }' <<<"$help")" -- "$cur")
        return
    fi
    # the word behind an option's names is its choices, when it has a bar
    choices=$(awk -v want="$prev" '{ hit = 0
        for (i = 1; $i ~ /^-/; i++) if ($i == want) hit = 1
        if (hit && $i ~ /\|/) { gsub(/\|/, " ", $i); print $i } }' <<<"$help")
    if [ -n "$choices" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -o filenames -F _foretoken foretoken
