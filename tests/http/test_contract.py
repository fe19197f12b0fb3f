#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The contract of the routes: fields, types, order, aliases, defaults, limits, statuses, error bodies, numbers.

In and out as serving.py says.
"""
import json
import re
import struct

import serving as s
from serving import base, data, encode, shared, state_with, test

s.Shared.args = ("--threads", 2)


def refused(status, body, *parts, field=None):
    return shared().post(body).error(status, *parts, field=field)


def same(body):
    """This body gives the base request's actions."""
    got = shared().post(body)
    assert got.actions() == s.base_actions(), f"other actions than base.json: {got}"
    return got.json()


def file(name):
    return data("json", name)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


# ---- GET routes ----


@test("", "health has the contract's three fields")
def health():
    r = shared().get("/health").is_(200)
    assert r.json() == {"status": "ok", "model": "GR00T-N1.6-3B-cpu", "device": "cpu:0"}, str(r)
    assert r.headers["content-type"].startswith("application/json"), str(r)


@test("", "ready is 200 with a JSON body")
def ready():
    shared().get("/ready").is_(200).json()


@test("", "v1/models is an OpenAI list with the model")
def models():
    r = shared().get("/v1/models").is_(200)
    doc = r.json()
    assert doc["object"] == "list" and len(doc["data"]) == 1 and isinstance(doc["data"][0]["id"], str), str(r)
    assert doc["data"][0].get("object") == "model", str(r)


@test("ST-10", "info carries every fact of the contract")
def info():
    r = shared().get("/info").is_(200)
    doc = r.json()
    for key in ("model", "version", "task", "hardware", "stage", "weights", "source", "inputs", "outputs", "noise", "limits", "device_facts",
                "warmup_latency_ms", "warmup_fidelity_vs_golden", "license"):
        assert key in doc, f"no {key} in /info: {r}"
    assert doc["model"] == "GR00T-N1.6-3B-cpu" and doc["version"] == "n16", str(r)
    stage = doc["stage"]
    assert stage["served"] == "cpu-" + stage["policy"], f"stage: {stage}"
    assert stage["policy_step"] and stage["policy_asked"], f"stage: {stage}"
    assert len(stage["fidelity"]) == (0 if stage["policy"] == "exact" else 5), f"stage: {stage}"
    assert all(f["pass"] for f in stage["fidelity"] if f["gate"]) or stage["policy_asked"] != "auto", f"what auto serves passes its gate: {stage}"
    assert doc["noise"]["default_seed"] == 42, f"noise: {doc['noise']}"
    assert s.DEMO in json.dumps(doc["weights"]), f"weights: {doc['weights']}"
    assert "pcc" in json.dumps(doc["warmup_fidelity_vs_golden"]).lower() and "source" in json.dumps(doc["warmup_fidelity_vs_golden"]), str(r)
    text = json.dumps(doc)
    for word in ("rad", s.CAMERA, "absolute", "relative"):
        assert word in text, f"{word} is not in /info"


@test("ST-06 ST-01 ST-05", "info lists joints, units, relative or absolute and recorded ranges of each group")
def info_joints():
    doc = shared().get("/info").is_(200).json()
    for part in ("inputs", "outputs"):
        for group, width in s.GROUPS.items():
            lists = lists_below(doc[part], group)
            joints = [v for v in lists if len(v) == width and all(isinstance(j, str) for j in v)]
            numbers = [v for v in lists if len(v) == width and all(isinstance(j, (int, float)) for j in v)]
            steps = [v for v in lists if len(v) == 16 and all(isinstance(row, list) and len(row) == width for row in v)]
            assert joints or part == "outputs", f"no list of {width} joint names for {part} {group}: {lists}"
            assert len(numbers) >= 2 or len(steps) >= 2, f"no min and max of {width} for {part} {group}: {lists}"
    text = json.dumps(doc["outputs"])
    for word in ("rad", "absolute", "relative"):
        assert word in text, f"{word} is not in outputs: {text[:2000]}"
    assert re.search(r"rate|period|step_ms|hz", text.lower()), f"no action rate in outputs: {text[:2000]}"


def lists_below(node, group):
    """All lists in the entry of this group, wherever it stands."""
    def collect(x):
        if isinstance(x, dict):
            return [y for v in x.values() for y in collect(v)]
        if isinstance(x, list):
            return [x] + [y for v in x if isinstance(v, dict) for y in collect(v)]
        return []
    if isinstance(node, dict):
        if group in (node.get("key"), node.get("name"), node.get("group")):
            return collect(node)
        return [y for k, v in node.items() for y in (collect(v) if k == group else lists_below(v, group))]
    return [y for v in node for y in lists_below(v, group)] if isinstance(node, list) else []


@test("", "demo is ready to post and its actions are the expected ones")
def demo():
    doc = shared().get("/demo").is_(200).json()
    assert set(doc) == {"request", "expected"}, list(doc)
    want = doc["expected"]
    assert want["gates"] == {"pcc_actions_min": 0.999, "max_abs_repeat": 0.0}, want["gates"]
    assert want["source"] in ("shipped", "computed"), want["source"]
    assert len(want["action_pred_normalized"]) == 50 and len(want["action_pred_normalized"][0]) == 128
    got = [shared().post(doc["request"]) for _ in range(2)]
    assert got[0].steady() == got[1].steady(), f"{got[0]}\n{got[1]}"
    for group, width in s.GROUPS.items():
        a, b = got[0].json()["actions"][group], want["actions"][group]
        assert len(a) == len(b) == 16 and all(len(row) == width for row in a)
        worst = max(abs(x - y) for p, q in zip(a, b) for x, y in zip(p, q))
        assert worst < 1e-3, f"{group}: {worst} from the expected actions"


@test("", "metrics are Prometheus text and count requests")
def metrics():
    r = shared().get("/metrics").is_(200)
    assert r.headers["content-type"].startswith("text/plain"), str(r)
    for line in r.body.decode().splitlines():
        assert re.match(r'^(# (HELP|TYPE) \S+ .+|[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_]\w*="(\\.|[^"\\])*",?)*\})? [-+0-9.eE]+(nan|inf|Inf|NaN)?)$', line), line
    before = shared().metric(r'gr00t_requests_total.*"/predict".*"200"')
    shared().file("json", "base.json").is_(200)
    assert shared().metric(r'gr00t_requests_total.*"/predict".*"200"') == before + 1
    text = r.body.decode()
    for word in ("queue", "_bucket", "resident_memory_bytes", "build_info"):
        assert word in text, f"{word} is not in the metrics:\n{text[:3000]}"


# ---- the reply of a predict ----


@test("ST-10 RNG-03", "the reply has the contract's fields, types and order")
def reply_fields():
    r = shared().file("json", "base.json").is_(200)
    doc = r.json()
    want = ["actions", "action_horizon", "action_keys", "action_dims", "normalized", "embodiment", "embodiment_id", "version", "model", "layout", "images",
            "seq_len", "prompt_tokens", "state_dtype", "noise_source", "seed", "timing_ms"]
    assert list(doc) == want, f"fields {list(doc)}, expected {want}"
    assert list(doc["actions"]) == list(s.GROUPS) == doc["action_keys"], str(r)
    for group, width in s.GROUPS.items():
        rows = doc["actions"][group]
        assert len(rows) == 16 and all(len(row) == width and all(type(v) in (int, float) for v in row) for row in rows), group
    assert doc["action_horizon"] == 16 and doc["action_dims"] == s.GROUPS and doc["normalized"] is False, str(r)
    assert (doc["embodiment"], doc["version"], doc["model"], doc["layout"]) == ("gr1", "n16", "GR00T-N1.6-3B-cpu", "gr1"), str(r)
    assert doc["images"] == {s.CAMERA: {"frames": 1, "received_hw": [256, 256]}}, str(r)
    assert doc["state_dtype"] == "float32" and doc["noise_source"] == "seed" and doc["seed"] == 42, str(r)
    assert type(doc["seq_len"]) is int and type(doc["prompt_tokens"]) is int and type(doc["embodiment_id"]) is int, str(r)
    assert r.headers["content-type"].startswith("application/json"), str(r)


@test("RNG-03", "without a seed the reply says 42 and the actions are the same")
def default_seed():
    doc = same(base(seed=None))
    assert doc["seed"] == 42 and doc["noise_source"] == "seed"
    assert same(dict(base(), seed=None))["seed"] == 42, "null counts as not given"


@test("LC-06", "the parts of timing_ms add up to the total and the wall time is near")
def timing():
    most, far = 0.05 * (2 if s.SANITIZED else 1), 30 * s.SLACK
    walls, gaps = [], []
    while not walls or len(walls) < 100 and (min(gaps) >= most or min(walls) >= far):  # any one request may meet a busy machine
        r = shared().file("json", "base.json").is_(200)
        t = r.json()["timing_ms"]
        for key in ("decode", "encode", "device", "decode_actions", "total"):
            assert t[key] >= 0, str(r)
        parts = sum(t[k] for k in ("decode", "encode", "device", "decode_actions")) + t.get("queue", 0)
        assert parts <= t["total"] + 0.004, f"the parts overlap: {r}"  # six figures, each rounded to 0.001
        assert r.ms >= t["total"] - 0.001, f"longer than the client has waited: {r}"
        gaps.append(1 - parts / t["total"])
        walls.append(r.ms - t["total"] - 3 * shared().get("/health").ms)  # what a connection and its two ways cost at this moment
    assert min(gaps) < most, f"the parts lack {min(gaps) * 100:.1f} % of the total at best"
    assert min(walls) < far, f"the client waits {min(walls):.1f} ms longer than total and thrice a look at health say, at best (ten times the figure is 30)"


@test("ST-05", "return_normalized adds two fields and changes no action")
def return_normalized():
    r = shared().post(base(return_normalized=True))
    doc = r.json()
    assert r.actions() == s.base_actions(), str(r)
    assert len(doc["action_pred_normalized"]) == 50 and {len(x) for x in doc["action_pred_normalized"]} == {128}
    assert len(doc["action_pred_valid_hd"]) == 16 and {len(x) for x in doc["action_pred_valid_hd"]} == {29}
    assert [row[:29] for row in doc["action_pred_normalized"][:16]] == doc["action_pred_valid_hd"]
    assert doc["normalized"] is False
    assert "action_pred_normalized" not in shared().post(base(return_normalized=False)).json()


@test("JS-08", "numbers are the shortest that parse back to the same float32")
def shortest():
    r = shared().post(base(return_normalized=True)).is_(200)
    cut = r.body[:r.body.index(b'"timing_ms"')] if r.body.index(b'"timing_ms"') > r.body.index(b'"actions"') else r.body
    tokens = re.findall(rb"-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d+[eE][-+]?\d+", cut)
    assert len(tokens) > 400, f"{len(tokens)} numbers"
    for t in tokens:
        t = t.decode()
        x = f32(float(t))
        digits = len(re.sub(r"^0+", "", re.sub(r"[eE].*$", "", t).replace("-", "").replace(".", "")).rstrip("0")) or 1
        best = next(p for p in range(1, 10) if f32(float(f"{x:.{p}g}")) == x)
        assert digits <= best, f"{t} has {digits} digits, {best} suffice"


@test("", "the service and the command line give equal actions")
def cli_equal():
    r = shared().file("json", "base.json").is_(200).json()
    c = s.predict_cli(None)
    for doc in (r, c):
        del doc["timing_ms"]
        doc.pop("layout", None)
    assert r == c, f"{r}\n{c}"


# ---- forms that are allowed ----


@test("PR-07", "instruction, language and prompt work alone, two at once are refused")
def aliases():
    text = base()["instruction"]
    same(file("alias_prompt.json"))
    same(dict(base(instruction=None), language=text))
    refused(422, file("alias_both.json"), "instruction", "prompt")
    refused(422, base(language=text), "instruction", "language")
    refused(422, base(instruction=None, language=text, prompt=text), "language", "prompt")
    refused(422, file("prompt_as_list.json"), field="instruction")
    refused(422, base(instruction=None), "instruction", field="instruction")
    refused(422, base(instruction=None, prompt=7), field="prompt")


@test("ST-07", "names decide, the order of keys does not")
def key_order():
    same(file("state_keys_reordered.json"))
    doc = base()
    same(dict(reversed(list(doc.items()))))
    for name in ("state_prefixed_keys.json", "state_full_gr1_44.json"):
        refused(400, file(name), *s.GROUPS, field="state")
    for name in ("wrong_camera_key.json", "two_cameras.json"):
        refused(400, file(name), s.CAMERA, field="images")
    refused(400, dict(base(), images={}), s.CAMERA, field="images")
    state = base()["state"]
    del state["waist"]
    refused(400, base(state=state), "waist", field="state")


@test("ST-08", "a state is [D] or [[D]], nothing else")
def state_forms():
    same(file("state_nested_row.json"))
    for name, status in (("state_two_rows.json", (400, 422)), ("state_flat_29.json", 422), ("state_short_arm.json", 400)):
        refused(status, file(name), field="state")
    refused(400, file("state_short_arm.json"), "6", "7", field="state.left_arm")
    refused(400, base(state=state_with("waist", [0, 0, 0, 0])), "4", "3", field="state.waist")
    refused(400, base(state=state_with("waist", [])), field="state.waist")
    for bad in ([[[0, 0, 0]]], [[0, 0, 0], 0], [0, [0], 0], "0 0 0", {"0": 0}, None, True, [0, 0, True], [0, 0, None], [0, 0, "0"], [0, 0, {}]):
        refused((400, 422), base(state=state_with("waist", bad)), field="state.waist")
    same(base(state=state_with("waist", [0, 0, 0])))
    same(base(state=state_with("waist", [-0.0, 0.0, 0e5])))
    same(base(images={s.CAMERA: [base()["images"][s.CAMERA]]}))
    same(file("frame_list_1.json"))
    refused(400, file("frame_list_2.json"), field="images")
    refused((400, 422), base(images={s.CAMERA: []}), field="images")
    refused(422, base(images={s.CAMERA: [7]}), field="images")


@test("ST-01", "a raised joint raises its relative group's actions as on the command line")
def relative():
    noise = json.loads(data("json", "noise_zeros_50x128.json"))["noise"]
    lifted = state_with("left_arm", [0.124] + base()["state"]["left_arm"][1:])
    a = shared().post(base(seed=None, noise=noise)).is_(200).json()
    b = shared().post(base(seed=None, noise=noise, state=lifted)).is_(200).json()
    assert a["actions"] != b["actions"]
    s_cli = s.predict_cli(None, state=lifted)
    r = shared().post(base(state=lifted)).is_(200).json()
    assert r["actions"] == s_cli["actions"]
    near = sorted(abs(row[0] - 0.124) for row in b["actions"]["left_arm"])
    assert near[0] < 3.2, "left_arm[0] is nowhere near the state it is relative to"


@test("ST-09", "numbers that are not finite in float32 are refused with group and index")
def not_finite():
    refused((400, 422), file("state_nan_literal.json"))
    refused((400, 422), file("state_1e999.json"))
    refused(400, file("state_float32_overflow.json"), field="state.left_arm[3]")
    refused(422, file("state_null.json"), field="state.left_arm[3]")
    refused(422, file("state_string_number.json"), field="state.left_arm[3]")
    for word in (b"Infinity", b"-Infinity", b"nan", b"1.", b".5", b"01", b"+1", b"0x10", b"1e", b"--1"):
        refused((400, 422), file("base.json").replace(b"-2.074", word))
    for word in (b"3.4028236e38", b"-1e39"):
        refused(400, file("base.json").replace(b"-2.074", word), field="state.left_arm[3]")
    shared().post(file("base.json").replace(b"-2.074", b"3.4028234e38")).is_((200, 500))  # the largest float32: legal, whatever comes of it
    shared().post(file("base.json").replace(b"-2.074", b"1e-400")).is_((200, 400))


@test("ST-06", "a hand in another order is served and counted as out of range")
def thumb_first():
    before = shared().metric("out_of_range")
    shared().file("json", "hand_thumb_first.json").is_(200)
    assert shared().metric("out_of_range") > before, "the metric did not move"
    shared().wait_log(r"warn .*state\.\w+_hand\[\d\].*range", 5)


@test("ST-11", "an embodiment that is not served is refused and the served one listed")
def embodiment():
    same(base(embodiment="gr1"))
    same(dict(base(), embodiment=None))
    refused(400, file("embodiment_case.json"), "gr1", field="embodiment")
    refused(400, file("embodiment_other.json"), "gr1", field="embodiment")
    refused(400, base(embodiment=""), "gr1", field="embodiment")
    refused(422, base(embodiment=20), field="embodiment")


@test("", "state_dtype float32 or float64, default float32")
def state_dtype():
    assert same(base(state_dtype="float32"))["state_dtype"] == "float32"
    r = shared().post(base(state_dtype="float64")).is_(200)
    assert r.json()["state_dtype"] == "float64", str(r)
    refused((400, 422), base(state_dtype="float16"), field="state_dtype")
    refused(422, base(state_dtype=32), field="state_dtype")


# ---- JSON ----


@test("JS-01", "a hundred thousand brackets are refused at once")
def nesting():
    for body in (b"[" * 100000 + b"]" * 100000, b'{"a":' * 50000, b'{"images":' + b"[" * 3000 + b"]" * 3000 + b"}"):
        r = refused((400, 422), body)
        assert r.ms < 1000 * s.SLACK, f"{r.ms:.0f} ms"


@test("JS-02", "bad UTF-8 in a request never reaches the reply")
def bad_utf8():
    refused((400, 422), file("invalid_utf8_instruction.json"))
    for bad in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x00", b"\x1b[31m"):
        refused((400, 422), b'{"' + bad + b'": 1}')
        refused((400, 422), b'{"images": {"' + bad + b'": "x"}}')
        refused((400, 422), file("base.json").replace(b'"instruction"', b'"instruction' + bad + b'"'))
    refused((400, 422), file("base.json").replace(b"pick the", rb"pick \ud800 the"))
    refused((400, 422), file("base.json").replace(b'"left_arm"', rb'"left\ud800arm"'))
    for name in (rb"\u0000", rb"\u001b[31m", rb"a\"b\\c\n", rb"\u2028", rb"\ud83c\udf50", b"x" * 5000, "ä".encode() * 300):
        refused((400, 422), b'{"' + name + b'": 1}')
        refused((400, 422), file("base.json").replace(b'"left_arm"', b'"' + name + b'"'))
        refused((400, 422), file("base.json").replace(s.CAMERA.encode(), name))
        refused((400, 422), base(embodiment=json.loads(b'"' + name + b'"')))
        refused((400, 422), base(state_dtype=json.loads(b'"' + name + b'"')))


@test("JS-03", "a typing slip is 422 with its place")
def slips():
    refused(422, file("colon_after_brace.json"))
    r = refused(422, file("colon_after_brace.json"))
    assert re.search(r"\d", r.json()["error"]["message"]), f"no position: {r}"
    refused(422, file("empty_body.json"))
    refused(422, b"   \n")


@test("JS-04", "one byte order mark: accepted or refused with a clear text")
def bom():
    r = shared().file("json", "bom.json")
    if r.status == 200:
        assert r.actions() == s.base_actions()
    else:
        r.error(422, "byte order mark")


@test("JS-05", "unknown fields and strings for booleans are 422 and named")
def unknown():
    refused(422, file("unknown_field.json"), "temperature", field="temperature")
    refused(422, base(return_normalized="true"), field="return_normalized")
    for bad in (1, 0, "yes", [], {}):
        refused(422, base(return_normalized=bad), field="return_normalized")
    refused(422, dict(base(), Instruction="x"), "Instruction")
    refused(422, dict(base(), options={"seed": 1}), "options")


@test("JS-06", "a key twice is 422")
def twice():
    for body in (file("dup_key_seed.json"), file("base.json").replace(b'"waist"', b'"left_arm"'), b'{"seed": 1, "see\\u0064": 2}'):
        r = refused(422, body, "twice")
        assert r.json()["error"]["code"] == "duplicate_key", str(r)


@test("JS-09", "what is not one JSON object is refused")
def not_json():
    for name in ("trailing_data.json", "trailing_comma.json", "comment.json", "single_quotes.json", "utf16le.json", "array_top.json"):
        refused((400, 422), file(name))
    for body in (b"null", b"true", b'"x"', b"7", b"[]", b"{}", b"{", b"}", b'{"a"}', b"{a: 1}", b"\x00", b"PK\x03\x04", b'{"a": 1}{"b": 2}', b'{"a": "\n"}'):
        refused(422, body)


@test("", "every field of a wrong type is 422 and named")
def wrong_types():
    for field in ("images", "state", "instruction", "embodiment", "seed", "noise", "state_dtype", "return_normalized"):
        for bad in (True, 7.5, "zzz", [], [[]], {}, {"a": 1}):
            legal = (field == "return_normalized" and bad is True) or (field in ("instruction", "embodiment", "state_dtype") and bad == "zzz")
            doc = dict(base(), **{field: bad})
            if field == "noise":
                del doc["seed"]
            if not legal:
                refused((400, 422), doc, field=field)
    for field in ("images", "state", "instruction"):
        refused(422, base(**{field: None}), field, field=field)
        refused(422, dict(base(), **{field: None}), field=field)  # null is no value for these
        # a missing field in FastAPI's words
        detail = shared().post(base(**{field: None})).json()["detail"]
        assert any(d["loc"] == ["body", field] for d in detail), detail


@test("", "an error body has code, message, field and FastAPI's detail")
def error_shape():
    r = shared().post(base(seed=-1)).error(422, field="seed")
    assert r.json()["detail"][0]["loc"] == ["body", "seed"], str(r)
    r = shared().post(base(embodiment="x")).error(400, field="embodiment")
    assert r.json()["detail"] == r.json()["error"]["message"] or r.json()["error"]["message"] in r.json()["detail"], str(r)
    r = shared().post(base(state=state_with("left_arm", [0, 0, "x", 0, 0, 0, 0]))).error(422, field="state.left_arm[2]")
    assert r.json()["detail"][0]["loc"][:3] == ["body", "state", "left_arm"], str(r)


@test("", "large and odd but legal bodies")
def legal_bodies():
    same(b" " * 100000 + file("base.json") + b"\r\n\t " * 1000)
    same(file("base.json").replace(b'"seed"', rb'"\u0073eed"'))
    same(json.dumps(base(), indent=4).encode())
    refused(422, base(x="y" * 3000000))
    refused((400, 422), base(images={s.CAMERA: "A" * 8000000}))
    refused((400, 422), b"[" + b"1," * 1000000 + b"1]")
    refused((400, 422), encode({f"k{i}": i for i in range(200000)}))


@test("LC-03", "limits of the service are in info")
def limits():
    text = json.dumps(shared().get("/info").json()["limits"])
    for number in ("64", "4096", "2000", str(96 << 20)):
        assert number in text, f"{number} is not in limits: {text}"


if __name__ == "__main__":
    s.main()
