#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each policy (choice of number formats) costs in accuracy: golden cases x policies x kernel sets, as markdown tables on stdout.

    tools/fidelity.py [--only demo,tiny,full] [--full DIR] [--cache DIR] [--threads N] [--policies A,B] [--sets A,B]

In: `gr00t check --json` (GR00T_BIN, default ./gr00t); the cases of data/demo, and of GR00T_SHARED (default ../shared) where that folder is there.
demo and tiny go through every set; the full size (--full: the snapshot; a cache keeps a packed file of 2 to 5 GB for each policy)
through the fastest only. A set that this CPU lacks is left out by name. Exit code 1 when a case is outside its gates (at full size fastest is only reported), or when a
set costs clearly more than the scalar one with the same 16-bit format: formats cost accuracy, instructions must not."""
import argparse, glob, json, os, subprocess, sys, tempfile, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SHARED = os.environ.get("GR00T_SHARED", os.path.join(ROOT, "..", "shared"))
GR00T = os.environ.get("GR00T_BIN", os.path.join(ROOT, "gr00t"))
POLICIES = ["exact", "high", "balanced", "fast", "mixed", "fastest"]
SETS = ["scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "avx512fp16", "avx512bf16", "amx"]
REPORTED = "fastest"  # at full size: what it gives depends on the weights, auto takes it only where its observations pass
NO_SUCH_SET = 7  # exit code: device
# Rounding differs in the last bits of fp32, which moves some values to the next integer: the error is another sample of the same size.
SET_FACTOR, SET_FLOOR = 4.0, 1e-6


def check(snapshot, cases, policy, *more):
    """Report of `gr00t check`, or None when this CPU lacks the set."""
    r = subprocess.run([GR00T, "check", snapshot, *cases, "--policy", policy, "--json", *more], capture_output=True, text=True)
    if r.returncode == NO_SUCH_SET:
        return None
    if r.returncode not in (0, 1):
        sys.exit(f"fidelity: gr00t check --policy {policy}: {r.stderr.strip()}")
    return json.loads(r.stdout)


def name_of(case):
    return os.path.basename(case.rstrip("/"))


def loss(case):
    return 0.0 if case["pcc"] is None else 1.0 - case["pcc"]


def cell(pccs, diffs):
    """Worst of some cases."""
    pccs = [p for p in pccs if p is not None]
    return f"{min(pccs):.6f}, {max(diffs):.1e}" if pccs else f"constant, {max(diffs):.1e}"


def group_table(reports, by_case):
    """A row a policy (the worst of all cases), or a row a case and policy."""
    groups = [g["name"] for g in reports[0]["cases"][0]["groups"]]
    print("| " + " | ".join(["policy"] + ["case"] * by_case + ["actions", "normalised"] + groups + ["gates"]) + " |")
    print("|---" * (4 + by_case + len(groups)) + "|")
    for r in reports:
        for cases in [[c] for c in r["cases"]] if by_case else [r["cases"]]:
            row = [r["policy_step"] or r["policy"]] + [name_of(c["case"]) for c in cases[:1] if by_case]
            row.append(cell([c["pcc"] for c in cases], [c["max_abs"] for c in cases]))
            slices = [c["pcc_slice"] for c in cases if c["pcc_slice"] is not None]
            row.append(f"{min(slices):.6f}" if slices else "constant")
            for i in range(len(groups)):
                row.append(cell([c["groups"][i]["pcc"] for c in cases], [c["groups"][i]["max_abs"] for c in cases]))
            print("| " + " | ".join(row + ["ok" if all(c["ok"] for c in cases) else "**outside**"]) + " |")
    print()


def set_table(reports, policies):
    """reports[set, policy]; the names of sets that cost more than the scalar one."""
    sets = list(dict.fromkeys(s for s, _ in reports))
    print("| policy | " + " | ".join(sets) + " |")
    print("|---" * (1 + len(sets)) + "|")
    odd = []
    for p in policies:
        row = [p]
        for s in sets:
            r, scalar = reports[s, p], reports.get(("scalar", p))
            row.append(cell([c["pcc"] for c in r["cases"]], [c["max_abs"] for c in r["cases"]]))
            worst, base = (max(map(loss, x["cases"])) if x else None for x in (r, scalar))
            if base is not None and r["half"] == scalar["half"] and worst > SET_FACTOR * base + SET_FLOOR:
                odd.append(f"{p} on {s}")
                row[-1] += " **odd**"
        print("| " + " | ".join(row) + " |")
    print()
    return odd


def every_set(title, snapshot, cases, o, *more):
    """Count of (runs outside their gates, runs)."""
    reports, lacking = {}, []
    for s in o.sets:
        for p in o.policies:
            r = check(snapshot, cases, p, "--cpu", s, "--half", o.half, "--cache", "off", *more)
            if r is None:
                lacking.append(s)
                break
            reports[s, p] = r
    if not reports:
        sys.exit(f"fidelity: this CPU has none of {', '.join(o.sets)}")
    best = list(reports)[-1][0]
    print(f"### {title}: {len(cases)} cases, worst of them; {best}, 16-bit format {o.half}\n")
    group_table([reports[best, p] for p in o.policies], False)
    print(f"Actions on every kernel set{', without ' + ', '.join(lacking) if lacking else ''}:\n")
    odd = set_table(reports, o.policies)
    bad = [k for k, r in reports.items() if r["within"] != r["of"]]
    for s, p in bad:
        print(f"outside: {title}, {p} on {s}\n")
    return len(bad) + len(odd), len(reports)


def full_size(o, cases, more):
    reports = []
    for p in o.policies:
        start = time.monotonic()
        r = check(o.full, cases, p, "--threads", o.threads, "--cache", o.cache, *more)
        reports.append(r)
        # A run takes minutes: what is known is said at once.
        print(f"full size, {p}: {r['within']} of {r['of']}, worst {cell([c['pcc'] for c in r['cases']], [c['max_abs'] for c in r['cases']])}, "
              f"{time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    r = reports[0]
    halves = ", ".join(dict.fromkeys(x["half"] for x in reports if x["policy"] != "exact" and x["half"]))
    print(f"### Full size: {len(cases)} cases; {r['isa']}, 16-bit format {halves or 'none'}\n")
    group_table(reports, True)
    judged = [x for x in reports if x["policy"] != REPORTED]
    return sum(x["within"] != x["of"] for x in judged), len(judged)


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(",")
    a.add_argument("--only", type=names, default=["demo", "tiny", "full"])
    a.add_argument("--full", help="full-size snapshot (gr00t synth full)")
    a.add_argument("--cache", default="off", help="of the full size (off)")
    a.add_argument("--threads", default="2")
    a.add_argument("--policies", type=names, default=POLICIES)
    a.add_argument("--sets", type=names, default=SETS)
    a.add_argument("--half", default="bf16p", help="16-bit format of demo and tiny, the same on every set (bf16p)")
    return a.parse_args()


def main():
    o, bad, runs = arguments(), 0, 0
    spec = os.path.join(SHARED, "spec")
    more = ["--tokenizer", os.path.join(spec, "tokenizer")]
    tiny, full = (sorted(glob.glob(os.path.join(spec, d, "*", ""))) for d in ("goldens_tiny", "goldens_full"))
    counts = []
    with tempfile.TemporaryDirectory() as tmp:
        for size, title, cases, rest in (("demo", "Demo", sorted(glob.glob(os.path.join(ROOT, "data", "demo", "golden*"))), []),
                                         ("tiny", "Tiny", tiny, more)):
            if size not in o.only:
                continue
            if not cases:
                print(f"skipped: {size}: its cases are not there (GR00T_SHARED)", file=sys.stderr)
                continue
            snapshot = os.path.join(tmp, size)
            subprocess.run([GR00T, "synth", size, snapshot, "--quiet"], check=True, stdout=subprocess.DEVNULL)
            counts.append(every_set(title, snapshot, cases, o, *rest))
    if "full" in o.only and o.full and full:
        counts.append(full_size(o, full, more))
    elif "full" in o.only:
        print(f"skipped: full: {'its cases are not there (GR00T_SHARED)' if o.full else 'no snapshot (--full DIR)'}", file=sys.stderr)
    for b, n in counts:
        bad, runs = bad + b, runs + n
    print(f"{runs - bad} of {runs} runs within their gates")
    return 1 if bad or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
