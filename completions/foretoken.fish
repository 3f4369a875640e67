# fish completion for foretoken: programs, then the options that the program itself lists
# (--help-list: names, value, group, description, separated by tabs).
function __foretoken_options
    set -l words (commandline -opc)
    foretoken $words[2] --help-list 2>/dev/null | awk -F '\t' '{
        n = split($1, name, " "); for (i = 1; i <= n; i++) print name[i] "\t" $4 }'
end
function __foretoken_choices
    set -l words (commandline -opc)
    foretoken $words[2] --help-list 2>/dev/null | awk -F '\t' -v want="$words[-1]" '$2 ~ /\|/ {
        n = split($1, name, " "); m = split($2, choice, "|")
        for (i = 1; i <= n; i++) if (name[i] == want) for (k = 1; k <= m; k++) print choice[k] }'
end
complete -c foretoken -n __fish_use_subcommand -f -a "(foretoken --help 2>/dev/null | string match -r '^  [a-z]+ ' | string trim)"
complete -c foretoken -n 'not __fish_use_subcommand; and string match -q -- "-*" (commandline -ct)' -a '(__foretoken_options)'
complete -c foretoken -n 'not __fish_use_subcommand; and not string match -q -- "-*" (commandline -ct)' -a '(__foretoken_choices)'
complete -c foretoken -n '__fish_seen_subcommand_from rm' -f -a "(foretoken list --json 2>/dev/null | string match -ra '\"name\":\"[^\"]*\"' | cut -d '\"' -f 4)"
