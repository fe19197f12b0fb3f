#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The long checks, one row each, and a report in docs/acceptance/DATE.md with machine and commit.
# In: ./gr00t in build/, the case lists in GR00T_SHARED (default ../shared). Out: a line per row, the report, exit code 1 when a row failed.
# A row whose tool or data is absent says "skipped: why". The full-size rows need about 7 GB of disk and 12 GB of memory;
# fidelity keeps the packed weights of six policies, some 20 GB more, so that a second run takes minutes.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
exec </dev/null

usage() {
    cat <<EOF
usage: tools/acceptance.sh [--only ROW[,ROW...]] [--seconds N] [--threads N] [--dir DIR] [--no-report]
  rows: tests tiny synth goldens fidelity random fuzz bench service
  --seconds N   time of each fuzz target (60); those that read a client's bytes get ten times as much
  --threads N   threads of goldens, fidelity and bench (2)
  --dir DIR     folder for snapshots and logs (build/acceptance); a full-size snapshot found there is used again
EOF
}

rows=tests,tiny,synth,goldens,fidelity,random,fuzz,bench,service seconds=60 threads=2 work=build/acceptance report=yes
while [ $# -gt 0 ]; do
    case $1 in
    --only) rows=${2:?}; shift ;;
    --seconds) seconds=${2:?}; shift ;;
    --threads) threads=${2:?}; shift ;;
    --dir) work=${2:?}; shift ;;
    --no-report) report=no ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done

shared=${GR00T_SHARED:-../shared}
python=${PYTHON:-/usr/bin/python3}
gr00t=./gr00t
full=$work/full tiny=$work/tiny
table=() passed=0 failed=0 skipped=0
mkdir -p "$work" || exit 1

# result ROW VERDICT FIGURE: VERDICT is ok, FAILED or skipped.
result() {
    case $2 in
    ok) passed=$((passed + 1)) ;;
    skipped) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
    printf '%-8s %-28s %s\n' "$2" "$1" "$3"
    table+=("| $1 | $3 | $2 |")
}

# judge ROW CODE FIGURE
judge() { result "$1" "$([ "$2" -eq 0 ] && echo ok || echo FAILED)" "$3"; }

# run LOG COMMAND...: output to the log; sets `took` (seconds) and returns the command's code.
run() {
    local log=$work/$1.log start code
    shift
    start=$(date +%s.%N)
    "$@" >"$log" 2>&1
    code=$?
    took=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }')
    return $code
}
last() { tail -n 1 "$work/$1.log" | tr '|' '/'; }
have_shared() { [ -d "$shared/spec" ] || { result "$1" skipped "$shared/spec is not there"; return 1; }; }
need_full() {
    [ -f "$full/model.safetensors.index.json" ] && return 0
    run synth_full_again "$gr00t" synth full "$full" || { result "$1" FAILED "no full-size snapshot: $(last synth_full_again)"; return 1; }
}
same_hash() { [ "$(sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1)" = "$2" ]; }

row_tests() {
    run tests "$python" tools/run_tests.py build
    judge "all tests" $? "$(last tests), $took s"
}

# Hashes of the uniform family, seed 1600, as the specification lists them.
row_tiny() {
    run synth_tiny "$gr00t" synth tiny "$tiny" || { result "synth tiny" FAILED "$(last synth_tiny)"; return; }
    same_hash "$tiny/model-00001-of-00002.safetensors" 97cdcc3087d002391cef16d0d5d8b3f6fea94b1f9d214669e05cfc2e26d5c380 &&
        same_hash "$tiny/model-00002-of-00002.safetensors" e344fb7d33b36010d6e164f1fb507af35c85104fb0db73ef3d62c95ea3046440
    judge "synth tiny" $? "SHA-256 of both files as specified, $took s"
}

row_synth() {
    rm -rf "$full"
    run synth_full "$gr00t" synth full "$full" || { result "synth full" FAILED "$(last synth_full)"; return; }
    local seconds_full=$took
    same_hash "$full/model-00001-of-00002.safetensors" 070c8c4b89c321090d43739f551aa9254e2826fb5437a523b6a9c051758ba9d9 &&
        same_hash "$full/model-00002-of-00002.safetensors" 01dc932020b37af217b10771d632e9b6817fe13de71a8b2ccd8ebbf5660fc9b7
    judge "synth full, SHA-256" $? "both files as specified"
    awk -v t="$seconds_full" 'BEGIN { exit !(t < 30) }'
    judge "synth full, under 30 s" $? "$seconds_full s"
}

row_goldens() {
    have_shared "goldens" || return
    export GR00T_TOKENIZER_DIR=$shared/spec/tokenizer
    [ -d "$tiny" ] || run synth_tiny "$gr00t" synth tiny "$tiny"
    for set in scalar avx2 avx512; do
        run "check_tiny_$set" "$gr00t" check "$tiny" "$shared"/spec/goldens_tiny/*/ --cpu "$set"
        local code=$?
        if [ $code -eq 7 ]; then
            result "goldens tiny, $set" skipped "this CPU has no $set"
        else
            judge "goldens tiny, $set" $code "$(last "check_tiny_$set"), $took s"
        fi
    done
    need_full "goldens full" || return
    run check_full "$gr00t" check "$full" "$shared"/spec/goldens_full/*/ --threads "$threads"
    judge "goldens full" $? "$(last check_full), $took s"
    unset GR00T_TOKENIZER_DIR
}

# Every policy on every golden case; on each kernel set where the case is small.
row_fidelity() {
    export GR00T_BIN=$PWD/build/src/gr00t
    rm -f "$work"/fidelity_*.log
    run fidelity_small "$python" tools/fidelity.py --only demo,tiny
    judge "accuracy, demo and tiny" $? "$(last fidelity_small), $took s"
    if have_shared "accuracy, full size" && need_full "accuracy, full size"; then
        run fidelity_full "$python" tools/fidelity.py --only full --full "$full" --cache "$work/cache" --threads "$threads"
        judge "accuracy, full size" $? "$(last fidelity_full), $took s"
    fi
    unset GR00T_BIN
}

row_random() {
    have_shared "random inputs" || return
    "$python" -c 'import numpy' 2>/dev/null || { result "random inputs" skipped "numpy is not installed (./setup.sh --test)"; return; }
    export GR00T_SHARED=$shared GR00T_SOURCE_ROOT=$PWD
    # script, driver, cases, seed; the seed of the day gives other inputs than the normal tests
    local row script driver count seed=$(date +%Y%m%d)
    while read -r row script driver count; do
        [ -x "build/tests/$driver" ] || { result "random $row" skipped "build/tests/$driver is not built (./setup.sh --test)"; continue; }
        run "$script" "$python" "tests/golden/$script.py" "build/tests/$driver" "$count" "$seed"
        judge "random $row" $? "$(grep compared "$work/$script.log" | paste -sd ';'), $took s"
    done <<EOF
pictures random_images driver_image 2000
picture-files random_decode driver_image 2000
noise random_noise driver_noise 5000
state-actions random_state_actions driver_state_actions 5000
tokenizer random_tokenizer driver_tokenizer 5000
EOF
}

row_fuzz() {
    command -v clang >/dev/null || { result fuzz skipped "clang is not installed (./setup.sh --dev)"; return; }
    if [ ! -f build-fuzz/build.ninja ]; then
        CC=clang run fuzz_setup meson setup -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false \
            -Dbuildtype=debugoptimized -Ddefault_library=static -Dman=disabled build-fuzz ||
            { result fuzz FAILED "meson setup: $(last fuzz_setup)"; return; }
    fi
    run fuzz_build ninja -C build-fuzz || { result fuzz FAILED "build: $(last fuzz_build)"; return; }
    local target name names=()
    for target in build-fuzz/tests/fuzz_*; do
        [ -f "$target" ] && [ -x "$target" ] || continue
        names+=("${target##*/fuzz_}")
    done
    # As many at once as there are processors.
    for name in "${names[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
        fuzz_one "$name" &
    done
    wait
    for name in "${names[@]}"; do
        local code took
        read -r code took <"$work/fuzz_$name.result"
        judge "fuzz $name" "$code" "$(awk '/number_of_executed_units/ { print $2 }' "$work/fuzz_$name.log") runs, $took s$(
            [ "$code" -eq 0 ] || echo ", see $work/fuzz_$name.log")"
    done
}

# One target; exit code and seconds to its result file.
fuzz_one() {
    local name=$1 time=$seconds corpus=$work/corpus/$1
    case $name in base64 | jpeg | json | png | request) time=$((10 * seconds)) ;; esac
    mkdir -p "$corpus" "$work/crashes"
    # detect_leaks needs ptrace, which containers may refuse; the sanitizer build of the normal tests looks for leaks too.
    run "fuzz_$name" "build-fuzz/tests/fuzz_$name" -max_total_time="$time" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
        -print_final_stats=1 -artifact_prefix="$work/crashes/$name-" "$corpus" "tests/fuzz/corpus/$name"
    echo "$? $took" >"$work/fuzz_$name.result"
}

row_bench() {
    need_full "bench" || return
    [ ! -d "$shared/spec/tokenizer" ] || export GR00T_TOKENIZER_DIR=$shared/spec/tokenizer
    run bench "$gr00t" bench engine --model "$full" --threads "$threads" --runs 5 --json "$work/bench.json"
    judge "bench engine, full size" $? "below, $took s"
    unset GR00T_TOKENIZER_DIR
}

# The service under crowds, for long, and killed (tests/http/soak.py; each log has its table).
row_service() {
    local row name code
    export GR00T_BIN=$PWD/build/src/gr00t GR00T_SOURCE_ROOT=$PWD
    while read -r row name; do
        run "service_$row" "$python" tests/http/soak.py "$row"
        code=$?
        if [ $code -eq 77 ]; then
            result "$name" skipped "$(last "service_$row")"
        else
            judge "$name" $code "$(last "service_$row"), $took s"
        fi
    done <<EOF
overhead service, overhead
crowd service, crowd of clients
predicts service, 10,000 predicts
mixed service, bad requests
kill9 service, kill -9 at boot
idle-gap service, silence
schemathesis service, schemathesis
EOF
    unset GR00T_BIN GR00T_SOURCE_ROOT
}

start_date=$(date +%F)
for row in ${rows//,/ }; do
    declare -F "row_$row" >/dev/null || { echo "acceptance: unknown row $row" >&2; usage >&2; exit 2; }
done
[ -x $gr00t ] || [ "$rows" = fuzz ] || { echo "acceptance: ./gr00t is missing: run make first" >&2; exit 2; }
for row in ${rows//,/ }; do
    "row_$row"
done

if [ $report = yes ]; then
    file=docs/acceptance/$start_date.md
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo "none yet")
    [ -z "$(git status --porcelain -- src include tests tools 2>/dev/null)" ] || commit="$commit, with uncommitted changes"
    {
        echo "# Acceptance, $start_date"
        echo
        echo "| | |"
        echo "|---|---|"
        echo "| commit | $commit |"
        echo "| machine | $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, $(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo) |"
        echo "| system | $(. /etc/os-release && echo "$PRETTY_NAME"), $(gcc --version | head -n 1) |"
        echo "| command | \`tools/acceptance.sh --only $rows --seconds $seconds --threads $threads\` |"
        echo
        echo "| row | figure | verdict |"
        echo "|---|---|---|"
        printf '%s\n' "${table[@]}"
        echo
        echo "$passed passed, $failed failed, $skipped skipped."
        if [[ ,$rows, == *,fidelity,* ]]; then
            printf '\n## Accuracy of every policy\n\nPCC and max|d| against the fp32 reference.\n\n'
            cat "$work"/fidelity_{small,full}.log 2>/dev/null | grep -E '^(\||#|Actions |outside|$)'
        fi
        if [ -s "$work/bench.log" ] && [[ ,$rows, == *,bench,* ]]; then
            printf '\n## bench engine\n\n```\n'
            sed "s|$work/||g" "$work/bench.log" # the report names no folder of a machine
            printf '```\n'
        fi
    } >"$file"
    echo "report: $file"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
