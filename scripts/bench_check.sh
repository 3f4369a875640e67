#!/usr/bin/env bash
# make bench-check: repeats the measurements of all records of this kind of machine and fails if a
# speed is more than 5 % lower. A record is the output of `foretoken bench --json`, also with --spec.
# usage: scripts/bench_check.sh [FOLDER [PROGRAM]]
set -u
folder=${1:-docs/bench} program=${2:-build/foretoken}
compared=0 slower=0
for record in "$folder"/*.json; do
    grep -q '^  "machine": {' "$record" || continue # a table made by hand
    command=$(sed -n 's/^  "command": "\(.*\)",*$/\1/p' "$record")
    [[ $command == *" bench "* ]] || continue
    read -ra words <<<"${command#* bench }"
    echo "== $record"
    echo "   $program bench ${words[*]}"
    "$program" bench "${words[@]}" --baseline "$record" >/dev/null
    case $? in
    0) compared=$((compared + 1)) ;;
    2) ;; # another machine
    *) compared=$((compared + 1)) slower=$((slower + 1)) ;;
    esac
done
echo "$compared records compared, $slower with a lower speed"
if [ $compared -eq 0 ]; then
    cat >&2 <<END
No record in $folder is of this kind of machine, so nothing was compared. Write one on a quiet
machine, and commit it; the next run compares with it:
    $program bench -p 512 -n 128 -r 5 --json > $folder/NN-NAME.json
    $program bench --spec -n 96 -r 3 --json > $folder/NN-NAME-spec.json
A record is of this kind of machine if its processor, instruction sets, device and threads are:
END
    "$program" bench -p 0 -n 1 -r 1 --json 2>/dev/null | sed -n '/^  "machine"/,/^  }/p' >&2
    exit 2
fi
exit $((slower > 0))
