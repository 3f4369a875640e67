#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those. Works as root and with sudo.
# deps.sh cross: those of make check-cross instead; deps.sh deb: those that dpkg-buildpackage needs.
set -euo pipefail

packages=(pkg-config libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libmicrohttpd-dev
          libcurl4-openssl-dev libedit-dev libjpeg62-turbo-dev libpng-dev libwebp-dev
          libcmocka-dev)

# the web page uses these where they are found; it works without them
optional=(libjs-markdown-it node-dompurify libjs-highlight.js libjs-katex fonts-katex libjs-pdf)

if [ "${1:-}" = cross ]; then
    other=x86-64 libc=amd64
    if [ "$(uname -m)" = x86_64 ]; then other=aarch64 libc=arm64; fi
    packages=("gcc-$other-linux-gnu" "libc6-dev-$libc-cross" qemu-user)
    optional=()
fi

if [ "${1:-}" = deb ]; then packages+=(build-essential debhelper); fi

if ! command -v dpkg-query >/dev/null; then
    echo "deps.sh: this is not a Debian system; install these yourself: ${packages[*]}" >&2
    echo "deps.sh: or unpack them somewhere and build with make DEPS=DIR" >&2
    exit 1
fi

installed() {
    [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null || true)" = "install ok installed" ]
}
missing=() wanted=()
for p in "${packages[@]}"; do installed "$p" || missing+=("$p"); done
for p in "${optional[@]}"; do installed "$p" || wanted+=("$p"); done
[ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
    if [ ${#missing[@]} -eq 0 ]; then # optional packages do not prompt for a password
        sudo -n true 2>/dev/null || exit 0
    elif ! command -v sudo >/dev/null; then
        echo "deps.sh: missing packages and neither root nor sudo to install them: ${missing[*]}" >&2
        exit 1
    fi
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    echo "deps.sh: installing $*"
    "${as_root[@]}" apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1
}
if [ ${#missing[@]} -gt 0 ] && ! { "${as_root[@]}" apt-get update >"$log" 2>&1 && install "${missing[@]}"; }; then
    tail -n 5 "$log" >&2
    echo "deps.sh: apt-get could not install: ${missing[*]}" >&2
    exit 1
fi
# one by one: a release that lacks one of them may have the others
for p in "${wanted[@]}"; do
    apt-cache show "$p" >/dev/null 2>&1 || continue
    install "$p" || echo "deps.sh: going on without $p"
done
