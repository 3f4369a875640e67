# bash completion for foretoken. The program prints its own options (--help-list: names, value, group,
# description, separated by tabs), so this file does not list any.
_foretoken()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "--help --version $("$program" --help 2>/dev/null |
            awk '/^  [a-z]/ { print $1 }')" -- "$cur")
        return
    fi
    local list choices
    list=$("$program" "${COMP_WORDS[1]}" --help-list 2>/dev/null)
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(cut -f 1 <<<"$list")" -- "$cur")
        return
    fi
    if [ "${COMP_WORDS[1]}" = rm ]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$program" list --json 2>/dev/null |
            grep -o '"name":"[^"]*"' | cut -d '"' -f 4)" -- "$cur")
        return
    fi
    # the value of an option that has choices: "on|off"
    choices=$(awk -F '\t' -v want="$prev" '$2 ~ /\|/ {
        n = split($1, name, " ")
        for (i = 1; i <= n; i++) if (name[i] == want) { gsub(/\|/, " ", $2); print $2 } }' <<<"$list")
    if [ -n "$choices" ]; then
        mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -o filenames -F _foretoken foretoken
