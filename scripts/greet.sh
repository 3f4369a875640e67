#!/usr/bin/env bash
# Run by `make run` after the build. On a terminal it starts a chat with a first question to the embedded
# model; otherwise it prints the response to that question.
set -u
bin=$1
question="Who are you?"
"$bin" --version | head -n 1
if [ -t 0 ] && [ -t 1 ]; then
    exec "$bin" chat "$question"
fi
echo "> $question"
exec "$bin" run --show-timings --seed 1 "$question"
