#!/usr/bin/env bash
# What `make run` does once everything is built: a first question and its answer with the model that
# ships with foretoken, then a chat when there is a terminal to chat on.
set -u
bin=$1
question="Who are you?"
"$bin" --version | head -n 1
if [ -t 0 ] && [ -t 1 ]; then
    exec "$bin" chat "$question"
fi
echo "> $question"
exec "$bin" run --show-timings --seed 1 "$question"
