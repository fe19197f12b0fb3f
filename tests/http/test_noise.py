#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Same input, same output: seeds, explicit noise, threads, clients at once.

In and out as serving.py says.
"""
import json

import serving as s
from serving import base, data, shared, test

s.Shared.args = ("--threads", 2, "--queue", 64)


def file(name):
    return shared().file("json", name)


@test("RNG-01", "the noise depends on the request only")
def request_only():
    want = s.base_actions()
    for seed in (7, 0, 1, 2**63 - 1):
        other = shared().post(base(seed=seed))
        assert other.actions() != want, f"seed {seed} gives the actions of seed 42"
        assert file("base.json").actions() == want
    serial = {seed: shared().post(base(seed=seed)).actions() for seed in (1, 2, 3, 4)}
    got = s.in_threads([lambda seed=seed: shared().post(base(seed=seed)).actions() for seed in serial])
    assert got == list(serial.values())


@test("RNG-01 HT-13", "eight clients with eight seeds get what they get alone, 20 rounds")
def clients():
    seeds = range(100, 108)
    serial = {seed: shared().post(base(seed=seed)) for seed in seeds}

    def client(seed):
        for k in range(20):
            r = shared().post(base(seed=seed))
            assert r.steady() == serial[seed].steady(), f"seed {seed}, round {k}: {r}"
            assert r.json()["seed"] == seed
    s.in_threads([lambda seed=seed: client(seed) for seed in seeds])


@test("RNG-02", "1, 2, 3 and 7 threads give the same bytes")
def threads():
    want = None
    for n in (1, 2, 3, 7):
        with s.serve("--threads", n) as server:
            got = server.post(base(return_normalized=True)).steady()
        want = want or got
        assert got == want, f"{n} threads give other bytes than 1"


@test("RNG-04", "no digit of a seed is lost")
def seeds():
    assert file("seed_1e15.json").is_(200).json()["seed"] == 10**15
    assert shared().post(data("json", "base.json").replace(b'"seed": 42', b'"seed": 1e15').replace(b'"seed":42', b'"seed":1e15')).is_(200).json()["seed"] == 10**15
    r = file("seed_2pow53_plus1.json").is_(200)
    assert r.json()["seed"] == 2**53 + 1, str(r)
    assert r.actions() == shared().post(base(seed=1)).actions(), "2^53+1 is seed 1 in its low 32 bits"
    assert shared().post(base(seed=2**53)).actions() == shared().post(base(seed=0)).actions()
    assert shared().post(base(seed=4294967338)).actions() == s.base_actions(), "4294967338 has the low 32 bits of 42"
    r = shared().post(base(seed=2**63 - 1)).is_(200)
    assert r.json()["seed"] == 2**63 - 1, str(r)
    for bad in (b"-1", b"1.5", b"9223372036854775808", b"18446744073709551615", b"18446744073709551616", b"1e16", b"1e300", b"-0.5", b'"42"', b"true", b"[42]",
                b"4" * 400):
        shared().post(json.dumps(base()).encode().replace(b'"seed": 42', b'"seed": ' + bad)).error(422, field="seed" if len(bad) < 20 else None)
    for name in ("seed_negative.json", "seed_2pow64.json"):
        file(name).error(422)
    for good in (b"42.0", b"4.2e1", b"-0"):
        r = shared().post(json.dumps(base()).encode().replace(b'"seed": 42', b'"seed": ' + good)).is_((200, 422))
        assert r.status == 422 or r.json()["seed"] in (42, 0), str(r)


@test("RNG-05", "explicit noise takes effect and excludes a seed")
def explicit():
    a, b = file("noise_zeros_50x128.json").is_(200), file("noise_zeros_50x128.json").is_(200)
    assert a.steady() == b.steady()
    doc = a.json()
    assert doc["noise_source"] == "request" and doc["seed"] is None, str(a)
    assert a.actions() != s.base_actions()
    file("noise_16x128.json").error(400, "50", "128", field="noise")
    file("seed_and_noise.json").error(400, "seed", "noise")


@test("RNG-06", "odd forms of noise are refused with their place, legal ones give numbers")
def odd():
    one = file("noise_1x50x128.json").is_(200)
    flat = json.loads(data("json", "noise_1x50x128.json"))
    flat["noise"] = flat["noise"][0]
    assert shared().post(flat).steady() == one.steady(), "[50,128] and [1,50,128] differ"
    file("noise_null_inside.json").error((400, 422), field="noise[")
    file("noise_ragged.json").error((400, 422), field="noise[")
    file("noise_empty.json").error((400, 422), field="noise")
    r = file("noise_1e38.json").is_((200, 400, 500))
    r.json()
    r = file("noise_null_with_seed.json")
    assert r.actions() == s.base_actions() and r.json()["noise_source"] == "seed", str(r)
    rows = json.loads(data("json", "noise_zeros_50x128.json"))["noise"]
    doc = base(seed=None)
    for bad in ([rows, rows], [[rows]], rows + [rows[0]], [r[:127] for r in rows], 0, "0", {}, [None] * 50, [[]] * 50):
        shared().post(dict(doc, noise=bad)).error((400, 422), field="noise")
    for word in (b"1e39", b"-1e300", b"NaN"):
        body = json.dumps(dict(doc, noise=rows)).encode().replace(b"0.0", word, 1) if b"0.0, 0.0" in json.dumps(rows).encode() else None
        assert body
        where = body.index(word)
        shared().post(json.dumps(doc).encode()[:-1] + b', "noise": ' + json.dumps(rows).encode().replace(b"0.0", word, 1) + b"}").error((400, 422))
        assert where > 0


if __name__ == "__main__":
    s.main()
