#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian 12 packages that building gr00t needs; with --blackhole also the compiler of the Blackhole device's kernels, with --test also
# what the tests need, with --dev also the developer tools, with --interop the tools of others that packages are tried with. Asks for nothing; run again, it says "nothing to do".
set -eu

build="gcc libc6-dev make pkg-config meson ninja-build
  libpng-dev libjpeg62-turbo-dev libutf8proc-dev libssl-dev libjansson-dev
  libmicrohttpd-dev libcurl4-openssl-dev libyaml-dev libarchive-dev"
blackhole="gcc-riscv64-unknown-elf"
test="$blackhole libcmocka-dev binutils dpkg-dev python3 python3-numpy python3-pil python3-yaml python3-jsonschema curl openssl"
dev="git clang clang-tidy clang-format cppcheck valgrind gcovr libclang-rt-14-dev scdoc ccache"
interop="skopeo umoci jq docker-registry runc podman containerd docker.io iproute2 python3-venv"
# Python clients, each in an environment of its own: folder below build/interop, then what pip installs. tt 1.2.1 does not start with a newer typer.
clients="hf-0.36.2 huggingface_hub==0.36.2
hf-2.4.0 huggingface_hub==2.4.0
tt-1.2.1 tenstorrent==1.2.1 typer==0.27.3"

usage() {
    cat <<EOF
usage: ./setup.sh [--blackhole] [--test] [--dev] [--interop] [--print]
  (nothing)    packages to build and run gr00t on the CPU
  --blackhole  and the compiler of the kernels for a Tenstorrent Blackhole card
  --test       and those of the tests (make test)
  --dev        and the developer tools (sanitizers, fuzzing, format, lint, coverage, man pages)
  --interop    and those of make interop: image tools, container engines, and Python clients in build/interop
  --print      only say what is missing
EOF
}

wanted=$build
print_only=no with_clients=no
for arg in "$@"; do
    case $arg in
    --blackhole) wanted="$wanted $blackhole" ;;
    --test) wanted="$wanted $test" ;;
    --dev) wanted="$wanted $test $dev" ;;
    --interop) wanted="$wanted $test $interop" with_clients=yes ;;
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

# What is there already is left as it is.
install_clients() {
    [ $with_clients = yes ] || return 0
    cd "$(dirname "$0")"
    echo "$clients" | while read -r name needs; do
        if [ -f "build/interop/$name/done" ]; then
            continue
        fi
        echo "setup.sh: build/interop/$name: $needs"
        [ $print_only = no ] || continue
        rm -rf "build/interop/$name"
        /usr/bin/python3 -m venv "build/interop/$name"
        "build/interop/$name/bin/pip" -q --disable-pip-version-check install $needs </dev/null
        touch "build/interop/$name/done"
    done
}

missing=
for package in $wanted; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || case " $missing " in *" $package "*) ;; *) missing="$missing $package" ;; esac
done

if [ -z "$missing" ]; then
    echo "setup.sh: all packages are installed, nothing to do"
    install_clients
    exit 0
fi
echo "setup.sh: missing:$missing"
if [ "$print_only" = yes ]; then
    install_clients
    exit 0
fi

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
install_clients
echo "setup.sh: done"
