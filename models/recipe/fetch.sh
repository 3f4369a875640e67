#!/usr/bin/env bash
# Fetches the texts that the models are trained on.
# usage: fetch.sh FOLDER
set -eu
mkdir -p "$1" && cd "$1"
git clone -q https://github.com/tldr-pages/tldr tldr && git -C tldr checkout -q 08e345f42639f67d99282813247ac670dc6e87cb
git clone -q https://github.com/openai/grade-school-math gsm8k.git && git -C gsm8k.git checkout -q 3101c7d5072418e28b9008a6636bde82a006892c
mkdir -p gsm8k debs tree
cp gsm8k.git/grade_school_math/data/{train,test}.jsonl gsm8k/
# Debian 12; the versions are in README.md
packages="wordnet-base manpages manpages-dev git-doc git-man sqlite3-doc python3.11-doc postgresql-doc-15 debian-handbook
    debian-reference-en developers-reference debian-policy maint-guide dict-foldoc dict-jargon bash-doc coreutils apt-doc nginx-doc
    openssh-client util-linux gnupg-agent vim-doc zsh-doc perl-doc curl libcurl4-doc rsync tar sed grep findutils"
# shellcheck disable=SC2086
(cd debs && apt-get download $packages)
for deb in debs/*.deb; do dpkg-deb -x "$deb" tree; done
