#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Packages with the tools of others, one script of tests/interop/ a row, and a report in docs/acceptance/interop-DATE.md.
# In: build/src/gr00t; what ./setup.sh --interop installs. Out: a line per row with its figures, the report, exit code 1 when a row failed.
# A row whose tool is absent says "skipped: why".
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null

usage() {
    cat <<EOF
usage: tools/interop.sh [--only ROW[,ROW...]] [--dir DIR] [--no-report]
  rows: package hub_clients images engine tt_cli smoke
  --dir DIR   folder of the Python environments (build/interop); logs go to DIR/logs
EOF
}

rows=package,hub_clients,images,engine,tt_cli,smoke work=build/interop report=yes
while [ $# -gt 0 ]; do
    case $1 in
    --only) rows=${2:?}; shift ;;
    --dir) work=${2:?}; shift ;;
    --no-report) report=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done

python=${PYTHON:-/usr/bin/python3}
logs=$work/logs
table=() details=() passed=0 failed=0 skipped=0
mkdir -p "$logs" || exit 1
export GR00T_BIN=${GR00T_BIN:-$PWD/build/src/gr00t}
INTEROP_DIR=$(realpath "$work")
export INTEROP_DIR

# row NAME TITLE COMMAND...: the command's last line, its figures and its code make the row. 77: skipped.
row() {
    local name=$1 title=$2 log=$logs/$1.log start code took last verdict
    shift 2
    start=$(date +%s.%N)
    "$@" >"$log" 2>&1
    code=$?
    took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.0f", b - a }')
    last=$(tail -n 1 "$log")
    case $code in
    0) verdict=ok passed=$((passed + 1)) ;;
    77) verdict=skipped skipped=$((skipped + 1)) ;;
    *) verdict=FAILED failed=$((failed + 1)) ;;
    esac
    [ $code -eq 77 ] || last="$last, $took s"
    printf '%-8s %-34s %s\n' $verdict "$title" "$last"
    sed -n 's/^figure: /         /p' "$log"
    if [ $code -ne 0 ] && [ $code -ne 77 ]; then
        grep -A3 -E '^(not ok|Traceback|gr00t: |[A-Za-z]*Error)' "$log" | cut -c1-300 | head -n 20 | sed 's/^/         /'
        echo "         see $log"
    fi
    table+=("| $title | ${last//|//} | $verdict |")
    while read -r line; do
        details+=("* $title: $line")
    done < <(sed -n -e 's/^figure: //p' -e '/^skipped: [a-z_]*: /p' "$log")
}

version() { command -v "$1" >/dev/null && "$@" 2>/dev/null | head -n 1 | sed 's/ commit:.*//; s/^.*distribution /docker-registry /'; }

row_package() {
    rm -rf "$work/package"
    row package "package" "$python" tests/interop/interop.py "$work/package"
    [ ! -d "$work"/package/gr00t* ] || INTEROP_PACKAGE=$(realpath "$work"/package/gr00t*)
    export INTEROP_PACKAGE
}
row_hub_clients() { row hub_clients "the Hub's Python client" "$python" tests/interop/hub_clients.py; }
row_images() { row images "skopeo, umoci, registry, runc" "$python" tests/interop/images.py; }
row_engine() { row engine "podman, dockerd, containerd" "$python" tests/interop/engine.py; }
row_tt_cli() { row tt_cli "the vendor's tt" "$python" tests/interop/tt_cli.py; }
row_smoke() { row smoke "serve, smoke, bench, stop" tests/interop/smoke.sh; }

for name in ${rows//,/ }; do
    declare -F "row_$name" >/dev/null || { echo "interop: unknown row $name" >&2; usage >&2; exit 2; }
done
[ -x "$GR00T_BIN" ] || { echo "interop: $GR00T_BIN is missing: run make first" >&2; exit 2; }
for name in ${rows//,/ }; do
    "row_$name"
done

if [ $report = yes ]; then
    file=docs/acceptance/interop-$(date +%F).md
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo "none yet")
    [ -z "$(git status --porcelain -- src include tests tools 2>/dev/null)" ] || commit="$commit, with uncommitted changes"
    {
        echo "# Interoperation, $(date +%F)"
        echo
        echo "| | |"
        echo "|---|---|"
        echo "| commit | $commit |"
        echo "| machine | $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, $(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo) |"
        echo "| system | $(. /etc/os-release && echo "$PRETTY_NAME") |"
        for tool in skopeo umoci docker-registry runc podman dockerd; do
            line=$(version $tool --version)
            [ -z "$line" ] || echo "| $tool | $line |"
        done
        echo "| command | \`tools/interop.sh --only $rows\` |"
        echo
        echo "| row | result | verdict |"
        echo "|---|---|---|"
        printf '%s\n' "${table[@]}"
        echo
        echo "$passed passed, $failed failed, $skipped skipped."
        if [ ${#details[@]} -gt 0 ]; then
            printf '\n## Figures\n\n'
            printf '%s\n' "${details[@]}"
        fi
    } | sed "s|$PWD/||g" >"$file" # the report names no folder of a machine
    echo "report: $file"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
