#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian 12 packages that building gr00t needs; with --test also what the tests need, with --dev also
# the developer tools. Asks for nothing; run again, it says "nothing to do".
set -eu

build="gcc libc6-dev make pkg-config meson ninja-build
  libpng-dev libjpeg62-turbo-dev libutf8proc-dev libssl-dev libjansson-dev
  libmicrohttpd-dev libcurl4-openssl-dev"
test="libcmocka-dev binutils python3 python3-numpy python3-pil python3-yaml python3-jsonschema curl openssl"
dev="git clang clang-tidy clang-format cppcheck valgrind gcovr libclang-rt-14-dev scdoc ccache"

usage() {
    cat <<EOF
usage: ./setup.sh [--test] [--dev] [--print]
  (nothing)  packages to build and run gr00t
  --test     and those of the tests (make test)
  --dev      and the developer tools (sanitizers, fuzzing, format, lint, coverage, man pages)
  --print    only say what is missing
EOF
}

wanted=$build
print_only=no
for arg in "$@"; do
    case $arg in
    --test) wanted="$wanted $test" ;;
    --dev) wanted="$wanted $test $dev" ;;
    --print) print_only=yes ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
done

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
    echo "setup.sh: this is not a Debian-like system (no apt-get). Install the equivalents of:" >&2
    echo $wanted >&2
    exit 1
fi

os=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}") || os=unknown
[ "$os" = "debian 12" ] || echo "setup.sh: note: the package names are those of Debian 12, this is $os"

missing=
for package in $wanted; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || case " $missing " in *" $package "*) ;; *) missing="$missing $package" ;; esac
done

if [ -z "$missing" ]; then
    echo "setup.sh: all packages are installed, nothing to do"
    exit 0
fi
echo "setup.sh: missing:$missing"
[ "$print_only" = no ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup.sh: not root and no sudo. As root: apt-get update && apt-get install -y --no-install-recommends$missing" >&2
        exit 1
    fi
    sudo="sudo"
fi

# Without the chatter of apt and dpkg; what they print on stderr is shown.
run_apt() {
    code=0
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null >/dev/null || code=$?
    if [ "$code" -ne 0 ]; then
        echo "setup.sh: apt-get $1 failed with exit code $code" >&2
        exit "$code"
    fi
}

echo "setup.sh: apt-get update"
run_apt update
echo "setup.sh: apt-get install --no-install-recommends$missing"
run_apt install -y --no-install-recommends $missing
echo "setup.sh: done"
