#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A package's whole life through its wire manifest, in four commands: serve, smoke, bench http, stop.
#
#   tests/interop/smoke.sh [TARGET [OPTIONS of serve...]]
#
# Without TARGET: the package of tt-model.yaml, built here (or INTEROP_PACKAGE), with the demo snapshot for weights. GR00T_BIN: the program
# [build/src/gr00t]. INTEROP_BENCH_N: requests [20]. Exit code: that of the first command that fails; what was started is stopped in any case.
set -euo pipefail
cd "$(dirname "$0")/../.." || exit 1
gr00t=$(realpath -m "${GR00T_BIN:-build/src/gr00t}")
[ -x "$gr00t" ] || { echo "skipped: $gr00t is not built (make)"; exit 77; }

tmp=$(mktemp -d)
target=
finish() {
    local code=$?
    [ -z "$target" ] || "$gr00t" stop "$target" --grace-s 10 >/dev/null 2>&1 || true
    rm -rf "$tmp"
    exit $code
}
trap finish EXIT

if [ $# -gt 0 ]; then
    manifest=$1
    shift
else
    export HOME=$tmp/home # the state of a user's own services is left alone
    mkdir "$HOME"
    package=${INTEROP_PACKAGE:-}
    if [ -z "$package" ]; then
        "$gr00t" package --out "$tmp/build" >"$tmp/package.log"
        package=$(ls -d "$tmp"/build/*/)
    fi
    "$gr00t" synth demo "$tmp/demo" >/dev/null
    manifest=${package%/}/tt_kernel_manifest.json
    set -- --no-weights --env "GR00T_WEIGHTS_DIR=$tmp/demo"
fi

fail() {
    echo "FAILED: $1"
    exit 1
}

target=$manifest
"$gr00t" serve "$manifest" "$@" | tee "$tmp/serve.log"
url=$(sed -n 's/^.*endpoint  *\(http[^ ]*\).*/\1/p' "$tmp/serve.log")
[ -n "$url" ] || fail "serve named no endpoint"
"$gr00t" smoke --url "$url" | tee "$tmp/smoke.log"
grep -q "^PASS" "$tmp/smoke.log" || fail "smoke did not pass"
"$gr00t" bench http --url "$url" -n "${INTEROP_BENCH_N:-20}" --json >"$tmp/bench.json"
"$gr00t" stop "$manifest" | tee "$tmp/stop.log"
grep -q "clean shutdown" "$tmp/stop.log" || fail "no clean shutdown"
target=
grep -q '"ok": '"${INTEROP_BENCH_N:-20}" "$tmp/bench.json" || fail "not every predict was answered"
wall=$(sed -n 's/.*"wall": {"p50": \([0-9.]*\).*/\1/p' "$tmp/bench.json")
echo "figure: $(sed -n 's/.*\(PCC(actions)=[0-9.]*\).*/\1/p' "$tmp/smoke.log"), ${INTEROP_BENCH_N:-20} predicts over HTTP, p50 $wall ms"
echo "1 passed, 0 failed"
