# fish completion for foretoken: programs, then the options that the program itself lists.
function __foretoken_options
    set -l words (commandline -opc)
    foretoken $words[2] --help 2>/dev/null | awk '/^  -/ { for (i = 1; $i ~ /^-/; i++) print $i }'
end
complete -c foretoken -n __fish_use_subcommand -f -a "(foretoken --help 2>/dev/null | string match -r '^  [a-z]+ ' | string trim)"
complete -c foretoken -n 'not __fish_use_subcommand; and string match -q -- "-*" (commandline -ct)' -a '(__foretoken_options)'
