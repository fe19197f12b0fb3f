#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The Blackhole device on the vendor's functional simulator: the test suite, `gr00t device test`, and with --full SNAPSHOT the published size.
# In: a build folder; TTSIM_LIB or /usr/local/lib/libttsim.so. Out: the whole log, also in docs/acceptance/blackhole-DATE.md, and as the last line
# "N passed, N failed". Without a simulator one line says so, and the exit code is 0: there is nothing to report.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null

usage() {
    cat <<EOF
usage: tools/blackhole.sh [--full SNAPSHOT] [--no-report] BUILD
  --full SNAPSHOT  also the published size, on a synthetic snapshot of seed 1600: blocks on the simulator, the whole on the interpreter (an hour)
EOF
}

full='' report=yes build=''
while [ $# -gt 0 ]; do
    case $1 in
    --full) full=$(realpath "${2:?}"); shift ;;
    --no-report) report=no ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) build=$1 ;;
    esac
    shift
done
[ -n "$build" ] || { usage >&2; exit 2; }
export TTSIM_LIB=${TTSIM_LIB:-/usr/local/lib/libttsim.so}
if [ ! -e "$TTSIM_LIB" ]; then
    echo "skipped: no simulator: TTSIM_LIB is not set and there is no /usr/local/lib/libttsim.so (docs/DEVICES.md)"
    exit 0
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0

# part TITLE COMMAND...: its output to the log; lines "ok" and "not ok" count, a part without any counts as one.
part() {
    local title=$1 start=$SECONDS out code good bad
    shift
    out=$(mktemp)
    "$@" >"$out" 2>&1
    code=$?
    good=$(grep -c '^ok ' "$out")
    bad=$(grep -c '^not ok ' "$out")
    [ $((good + bad)) -gt 0 ] || good=$([ $code -eq 0 ] && echo 1 || echo 0)
    [ $code -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    passed=$((passed + good)) failed=$((failed + bad))
    {
        printf '\n### %s: exit code %d, %d s\n\n```\n' "$title" $code $((SECONDS - start))
        grep -v '^TAP version\|^1\.\.[0-9]*$' "$out"
        printf '```\n'
    } | tee -a "$log"
    rm -f "$out"
}

program() { (cd "$build" && CMOCKA_MESSAGE_OUTPUT=TAP GR00T_SOURCE_ROOT=$PWD GR00T_SHARED=${GR00T_SHARED:-$root/../shared} GR00T_BIN=$PWD/src/gr00t "$@"); }
root=$PWD
export GR00T_BH_LONG=1 # 20 predicts where the tests of a change make do with 3
start=$SECONDS
for test in "$build"/tests/test_bh_*; do
    case ${test##*/} in
    test_bh_wide | test_bh_backbone) continue ;; # the published size, below
    esac
    [ -f "$test" ] && [ -x "$test" ] || continue
    part "${test##*/}" program "./tests/${test##*/}"
done
part "gr00t device test" "$build/src/gr00t" device test --sim "$TTSIM_LIB"
suite=$((SECONDS - start))
if [ -n "$full" ]; then
    part "published size, whole predict on the CPU interpreter" program env GR00T_BH_FULL="$full" ./tests/test_bh_backbone mixed
    part "published size, 256 rows, whole predict on the CPU interpreter" program env GR00T_BH_FULL="$full" ./tests/test_bh_backbone long
    part "published size, action head on the CPU interpreter" program env GR00T_BH_FULL="$full" ./tests/test_bh_wide
    part "published size, two blocks on the simulator" program env GR00T_BH_FULL="$full" ./tests/test_bh_wide simulator
fi

if [ $report = yes ]; then
    file=docs/acceptance/blackhole-$(date +%F).md
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo "none yet")
    [ -z "$(git status --porcelain -- src include tests tools 2>/dev/null)" ] || commit="$commit, with uncommitted changes"
    {
        echo "# Blackhole on the simulator, $(date +%F)"
        echo
        echo "| | |"
        echo "|---|---|"
        echo "| commit | $commit |"
        echo "| machine | $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs |"
        echo "| simulator | $("$build/src/gr00t" device --sim "$TTSIM_LIB" --json 2>/dev/null | grep -o 'ttsim [0-9.]*' | head -n 1) |"
        echo "| suite | $suite s |"
        echo "| result | $passed passed, $failed failed |"
        cat "$log"
    } | sed "s|$PWD/||g; s|$TTSIM_LIB|libttsim.so|g; s|/tmp/[^ ]*|TMP|g" >"$file" # the report names no folder of a machine
    echo "report: $file"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
