#!/usr/bin/env bash
# Installs the Debian packages that are missing, and only those. Works as root and with sudo.
# deps.sh cross: those of make check-cross instead; deps.sh deb: those that dpkg-buildpackage needs.
set -euo pipefail

packages=(pkg-config libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libmicrohttpd-dev
          libcurl4-openssl-dev libedit-dev libjpeg62-turbo-dev libpng-dev libwebp-dev
          libcmocka-dev)

if [ "${1:-}" = cross ]; then
    other=x86-64
    [ "$(uname -m)" = x86_64 ] && other=aarch64
    packages=("gcc-$other-linux-gnu" qemu-user)
fi

if [ "${1:-}" = deb ]; then packages+=(build-essential debhelper); fi

if ! command -v dpkg-query >/dev/null; then
    echo "deps.sh: this is not a Debian system; install these yourself: ${packages[*]}" >&2
    echo "deps.sh: or unpack them somewhere and build with make DEPS=DIR" >&2
    exit 1
fi

missing=()
for p in "${packages[@]}"; do
    status=$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "deps.sh: missing packages and neither root nor sudo to install them: ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

echo "deps.sh: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "deps.sh: apt-get could not install: ${missing[*]}" >&2
    exit 1
fi
