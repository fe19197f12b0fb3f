# SPDX-License-Identifier: Apache-2.0
"""random_state_actions.py DRIVER [COUNT] [SEED]: random groups, statistics, settings, states and network outputs; the encoded state and
the decoded actions are bit-equal to reference_numpy.encode_state and decode_actions. DRIVER is the program driver_state_actions.
Where the reference's result is not finite the driver must refuse. Prints the number compared; exit code 1 at the first difference."""
import ctypes
import json
import math
import random
import struct
import sys

import oracle

INPUT, DEVICE = 2, 10  # gr_status
HORIZON, WIDTH = 50, 128


class Snapshot:
    """What reference_numpy reads of a snapshot."""

    def __init__(self, proc, stats):
        self.proc, self.stats = proc, stats


def patch_sin_cos(ref, np):
    """Two departures of the product from the reference's formula, both decided: the sign of zero is kept, and from 2^22 on the C
    library computes."""
    libm = ctypes.CDLL("libm.so.6")
    tools = []
    for name in ("sinf", "cosf"):
        f = getattr(libm, name)
        f.restype, f.argtypes = ctypes.c_float, [ctypes.c_float]
        tools.append(f)
    formula = ref.sin_cos_f32

    def sin_cos_f32(x):
        big = np.abs(x) >= 2 ** 22
        s, c = formula(np.where(big, np.float32(0), x))
        s = np.where(x == 0, x, s)
        for i in np.flatnonzero(big):
            s[i], c[i] = (f(float(x[i])) for f in tools)
        return [s, c]

    ref.sin_cos_f32 = sin_cos_f32


def random_value(rng):
    kind = rng.random()
    if kind < 0.05:
        return rng.choice((0.0, -0.0, 1.0, -1.0, math.pi, 0.5))
    if kind < 0.75:
        return rng.uniform(-4, 4)
    return rng.choice((-1, 1)) * 10 ** rng.uniform(-30, 12 if rng.random() < 0.1 else 5)


def random_tables(rng, dim):
    """min, max, mean, std, q01, q99 of one row."""
    t = {k: [] for k in ("min", "max", "mean", "std", "q01", "q99")}
    whole = rng.random() < 0.1  # Python writes 0 and 1 without a point
    for _ in range(dim):
        lo = float(rng.randint(-3, 3)) if whole else rng.choice((0.0, rng.uniform(-4, 4), rng.choice((-1, 1)) * 10 ** rng.uniform(-12, 4)))
        gap = float(rng.randint(0, 3)) if whole else rng.choice((0.0, 1e-9, 1e-8, abs(lo) * 1e-5, rng.uniform(0, 4), 10 ** rng.uniform(-9, 3)))
        hi = lo + gap
        a, b = sorted((lo + gap * rng.random(), lo + gap * rng.random()))
        for key, v in (("min", lo), ("max", hi), ("mean", (lo + hi) / 2), ("std", rng.choice((0.0, gap / 3))), ("q01", a), ("q99", b)):
            t[key].append(int(v) if whole and v == int(v) else v)
    return t


def random_case(rng, base_proc):
    """processor_kwargs, statistics, and the dims of the state groups in order."""
    proc = {k: v for k, v in base_proc.items() if k != "modality_configs"}
    for key in ("use_percentiles", "clip_outliers", "apply_sincos_state_encoding", "use_relative_action"):
        proc[key] = rng.random() < 0.5
    names = ["g%d" % i for i in range(6)]
    state_names = rng.sample(names, rng.randint(1, 6))
    dims = {n: rng.randint(1, 10) for n in names}
    steps = rng.randint(1, HORIZON)
    action_names = rng.sample(names, rng.randint(1, 6))
    stats = {"state": {n: random_tables(rng, dims[n]) for n in state_names}, "action": {}, "relative_action": {}}
    configs = []
    for n in action_names:
        same_width = [s for s in state_names if dims[s] == dims[n]]
        rep = "RELATIVE" if same_width and rng.random() < 0.6 else "ABSOLUTE"
        key = rng.choice(same_width) if rep == "RELATIVE" and (n not in state_names or rng.random() < 0.5) else None
        configs.append({"rep": rep, "type": "NON_EEF", "format": "DEFAULT", "state_key": key})
        stats["action"][n] = random_tables(rng, dims[n])
        if rep == "RELATIVE":
            rows = [random_tables(rng, dims[n]) for _ in range(steps)]
            stats["relative_action"][n] = {k: [r[k] for r in rows] for k in rows[0]}

    def some(of):
        return rng.choice((None, rng.sample(of, rng.randint(0, len(of)))))

    def modality(keys, deltas, sin_cos=None, mean_std=None, action=None):
        return {"delta_indices": deltas, "modality_keys": keys, "sin_cos_embedding_keys": sin_cos, "mean_std_embedding_keys": mean_std,
                "action_configs": action}

    proc["modality_configs"] = {"gr1": {
        "video": modality(["camera"], [0]),
        "state": modality(state_names, [0], some(state_names), some(state_names)),
        "action": modality(action_names, list(range(steps)), None, some(action_names), rng.choice((configs, configs, None))),
        "language": modality(["task"], [0])}}
    return proc, {"gr1": stats}, [(n, dims[n]) for n in state_names]


def compare(driver, n, want, refusal, what, describe):
    """One result of the driver: bit-equal, or refused where `want` is not finite."""
    import numpy as np
    status = driver.get_int()
    if not np.isfinite(want).all():
        if status not in refusal:
            sys.exit("%s: status %d, expected a refusal: the reference is not finite (%s)" % (what, status, describe))
        return 0
    if status != 0:
        sys.exit("%s: status %d, the reference is finite (%s)" % (what, status, describe))
    got = np.frombuffer(driver.get(4 * n), np.float32)
    want = np.ascontiguousarray(want, np.float32).reshape(-1)
    different = np.flatnonzero(got.view(np.uint32) != want.view(np.uint32))
    if len(different):
        i = different[0]
        sys.exit("%s: value %d is %s, the reference has %s (%s)" % (what, i, float(got[i]).hex(), float(want[i]).hex(), describe))
    return n


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    ref = oracle.reference()
    import numpy as np
    patch_sin_cos(ref, np)
    rng = random.Random(seed)
    root = oracle.source_root()
    config = open(root + "/tests/data/config/config_full.json", "rb").read()
    side = json.load(open(root + "/data/snapshot_side_files.json"))
    base_proc = side["processor_config.json"]["processor_kwargs"]
    driver = oracle.Driver(sys.argv[1])
    n_values = n_refused = 0
    for i in range(count):
        proc, stats, groups = random_case(rng, base_proc)
        texts = [config, json.dumps({"processor_kwargs": proc}).encode(), b'{"gr1": 20}', json.dumps(stats).encode()]
        is_f64 = rng.random() < 0.5
        flat = np.array([random_value(rng) for _ in range(sum(d for _, d in groups))])
        flat = flat if is_f64 else flat.astype(np.float32)
        state, at = {}, 0
        for name, dim in groups:
            state[name] = flat[at:at + dim]
            at += dim
        a = np.array([rng.uniform(-1.5, 1.5) for _ in range(HORIZON * WIDTH)], np.float32).reshape(HORIZON, WIDTH)
        if rng.random() < 0.2:
            a *= np.float32(10 ** rng.uniform(-40, 3))
        bad = rng.random()
        if bad < 0.03:
            a[rng.randrange(HORIZON), rng.randrange(WIDTH)] = np.nan
        with np.errstate(all="ignore"):
            snapshot = Snapshot(proc, stats)
            encoded = ref.encode_state(snapshot, state)
            decoded = ref.decode_actions(snapshot, a, state)
        actions = np.concatenate([decoded[g] for g in proc["modality_configs"]["gr1"]["action"]["modality_keys"]], axis=1)
        driver.send(struct.pack("=4I", *map(len, texts)), *texts, struct.pack("=II", is_f64, len(flat)), flat.astype(np.float64).tobytes(),
                    struct.pack("=I", a.size), a.tobytes())
        describe = "case %d, seed %d, %s, settings %s" % (i, seed, flat.dtype, {k: v for k, v in proc.items() if isinstance(v, bool)})
        n = compare(driver, WIDTH, encoded, (INPUT,), "state", describe)
        m = compare(driver, actions.size, actions, (INPUT, DEVICE), "actions", describe)
        n_values += n + m
        n_refused += (n == 0) + (m == 0)
    driver.close()
    print("%d cases, %d values compared with the reference: all bits equal, %d refused as not finite (seed %d)"
          % (count, n_values, n_refused, seed))


if __name__ == "__main__":
    main()
