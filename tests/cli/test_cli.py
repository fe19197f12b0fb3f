#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of the command line, on a demo snapshot made by the program itself.

In: GR00T_BIN, the program; GR00T_EXAMPLE (optional), the compiled examples/predict.c; GR00T_SHARED (optional) with the long
golden lists. Out: TAP lines, then "N passed, N failed". Nothing but the standard library is used.
"""
import hashlib
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import xml.dom.minidom
import zlib

sys.dont_write_bytecode = True
from tap import Skip, after_cpu_s, contains, equal, run_tests, test  # noqa: E402

BIN = os.path.abspath(os.environ.get("GR00T_BIN", "./gr00t"))
EXAMPLE = os.environ.get("GR00T_EXAMPLE", "")
SHARED = os.environ.get("GR00T_SHARED", "")
INSTRUCTION = "pick the pear from the counter and place it in the plate"
CAMERA = "ego_view_bg_crop_pad_res256_freq20"
GROUPS = {"left_arm": 7, "right_arm": 7, "left_hand": 6, "right_hand": 6, "waist": 3}


class Run:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def gr00t(*args, env=None, stdout=subprocess.PIPE, before=None, program=None, cwd=None):
    """Runs the program in a clean environment."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GR00T_", "HF_", "HUGGINGFACE_", "XDG_"))}
    for name in os.environ:  # sanitizer builds and coverage
        if name.endswith("_OPTIONS") or name.startswith("GCOV"):
            clean[name] = os.environ[name]
    clean["HOME"] = os.path.join(TMP, "home")
    clean["GR00T_POLICY"] = "exact"  # what goldens are compared with; tests of other number formats name them
    clean.update(env or {})
    p = subprocess.run([program or BIN, *args], env=clean, stdout=stdout, stderr=subprocess.PIPE, preexec_fn=before, timeout=240, cwd=cwd)
    return Run(p.returncode, (p.stdout or b"").decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace"))


def done(run, what=""):
    assert run.code == 0, f"{what} exit {run.code}: {run.err}"
    return run


def fails(run, code, *parts):
    """One line on stderr, this exit code, these parts in it."""
    assert run.code == code, f"exit {run.code}, expected {code}: {run.err} {run.out[-300:]}"
    lines = [x for x in run.err.splitlines() if x]
    assert len(lines) == 1 and lines[0].startswith("gr00t: "), f"not one line: {run.err!r}"
    contains(run.err, *parts)
    return run


def png(width, height, color_type=2, depth=8):
    """A picture with a gradient, written by hand."""
    samples = {0: 1, 2: 3}[color_type] * depth // 8
    rows = b"".join(b"\0" + bytes((x * 3 + y * 7 + s * 50) % 256 for x in range(width) for s in range(samples)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


def npy(shape, value=b"\0\0\x80\x3f", descr="<f4"):
    count = 1
    for n in shape:
        count *= n
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + value * count


def write(name, data):
    path = os.path.join(TMP, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def state(**changes):
    s = {g: [0.01 * i for i in range(n)] for g, n in GROUPS.items()}
    s.update(changes)
    return {k: v for k, v in s.items() if v is not None}


def snapshot(name, **edits):
    """A copy of the demo snapshot with some files changed: file=function(bytes) or None for "leave out"; others are links.
    Keys use "__" for "." and "_" as it is."""
    path = os.path.join(TMP, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    edits = {k.replace("__", "."): v for k, v in edits.items()}
    for f in os.listdir(DEMO):
        if f in edits and edits[f] is None:
            continue
        source = os.path.join(DEMO, f)
        if f in edits:
            with open(source, "rb") as src:
                write(os.path.join(name, f), edits[f](src.read()))
        else:
            os.symlink(source, os.path.join(path, f))
    return path


def predict_args(model=None, image=None, state_file=None, instruction=INSTRUCTION):
    return ["predict", "--model", model or DEMO, "--image", image or FRAME, "--state", state_file or STATE, "--instruction", instruction]


def predict(*more, **kw):
    run_kw = {k: kw.pop(k) for k in list(kw) if k in ("env", "stdout", "before")}
    return gr00t(*predict_args(**kw), *more, **run_kw)


def listing(folder):
    return sorted(os.path.join(d, f) for d, _, files in os.walk(folder) for f in files)


# ---- what works ----


@test
def help_and_version():
    contains(done(gr00t("--help")).out, "predict", "inspect", "synth", "check", "tokenize", "bench engine", "verify", "--log-format")
    contains(done(gr00t("--version")).out, "gr00t 0.")
    for verb in (["predict"], ["inspect"], ["synth"], ["check"], ["tokenize"], ["bench", "engine"], ["verify"]):
        a, b = done(gr00t(*verb, "--help")).out, done(gr00t("help", *verb)).out
        equal(a, b)
        contains(a, "Usage: gr00t " + " ".join(verb), "--quiet")
    contains(done(gr00t("bench", "--help")).out, "bench engine")
    equal(done(gr00t("predict", "-h")).out, done(gr00t("predict", "--help")).out)


@test
def predict_prints_a_table_and_timings():
    out = done(predict()).out
    contains(out, "gr1: 16 steps x 29 joints", "seed 42", *GROUPS, "total ", "denoise ")
    rows = [x.split() for x in out.splitlines() if x.strip()[:2] == "15"]
    equal(sum(len(r) - 1 for r in rows), 29, "numbers of step 15")


@test
def predict_json_has_all_fields():
    r = json.loads(done(predict("--json")).out)
    equal(sorted(r), sorted(["actions", "action_horizon", "action_keys", "action_dims", "normalized", "embodiment", "embodiment_id",
                             "version", "model", "images", "seq_len", "prompt_tokens", "state_dtype", "noise_source", "seed",
                             "timing_ms"]))
    equal(r["action_keys"], list(GROUPS))
    equal(r["action_dims"], GROUPS)
    for g, n in GROUPS.items():
        equal([len(row) for row in r["actions"][g]], [n] * 16)
        for row in r["actions"][g]:
            for v in row:
                assert isinstance(v, float) and abs(v) < 100 and len(repr(v)) <= 14, v  # the shortest form of a float32
    equal((r["action_horizon"], r["normalized"], r["embodiment"], r["version"], r["model"]), (16, False, "gr1", "n16", "GR00T-N1.6-3B-cpu"))
    equal(r["images"], {CAMERA: {"frames": 1, "received_hw": [256, 256]}})
    equal((r["state_dtype"], r["noise_source"], r["seed"]), ("float32", "seed", 42))
    equal(sorted(r["timing_ms"]), ["decode", "decode_actions", "device", "encode", "total"])


def actions(run):
    return json.loads(done(run).out)["actions"]


@test
def same_input_same_bits():
    a = actions(predict("--json"))
    equal(actions(predict("--json", "--threads", "1")), a)
    equal(actions(predict("--json", "--threads", "3", "--seed", "42")), a)
    assert actions(predict("--json", "--seed", "43")) != a
    assert actions(predict("--json", instruction="wave")) != a
    white = "  \n" + INSTRUCTION + "\t "
    equal(actions(predict("--json", instruction=white)), a)


@test
def state_files_of_every_accepted_shape():
    s = json.load(open(STATE))
    groups = s.get("state", s)
    a = actions(predict("--json"))
    shapes = [dict(reversed(list(groups.items()))), {k: [v] for k, v in groups.items()}, {"state": groups, "instruction": "x"}]
    for i, shape in enumerate(shapes):
        equal(actions(predict("--json", state_file=write("shape.json", json.dumps(shape)))), a, f"shape {i}")
    b = json.loads(done(predict("--json", "--state-dtype", "float64")).out)
    equal(b["state_dtype"], "float64")


@test
def noise_file_replaces_the_seed():
    two, three = write("n2.npy", npy([50, 128])), write("n3.npy", npy([1, 50, 128]))
    r = json.loads(done(predict("--json", "--noise", two)).out)
    equal((r["noise_source"], r["seed"]), ("request", None))
    equal(actions(predict("--json", "--noise", three)), r["actions"])
    f8 = write("n8.npy", npy([50, 128], struct.pack("<d", 1.0), "<f8"))
    equal(actions(predict("--json", "--noise", f8)), r["actions"])


@test
def image_by_camera_name():
    a = actions(predict("--json"))
    equal(actions(predict("--json", image=CAMERA + "=" + FRAME)), a)
    with open(FRAME, "rb") as f:
        odd = write("a=b.png", f.read())
    equal(actions(predict("--json", image=odd)), a)
    r = json.loads(done(predict("--json", image=write("wide.png", png(200, 100)))).out)
    equal(r["images"][CAMERA]["received_hw"], [100, 200])


def edit_json(change):
    def edit(data):
        doc = json.loads(data)
        change(doc)
        return json.dumps(doc)
    return edit


def video(doc, **changes):
    node = doc
    for key in ("processor_kwargs", "modality_configs", "gr1", "video"):
        node = node[key]
    node.update(changes)


@test
def a_letterbox_that_the_snapshot_does_not_want_is_a_warning():
    def wants(value):
        return edit_json(lambda d: d["processor_kwargs"].update(letter_box_transform=value))
    equal(done(predict(model=snapshot("boxed", processor_config__json=wants(True)))).err, "")
    run = done(predict("--json", model=snapshot("unboxed", processor_config__json=wants(False))))
    equal(run.err.count("\n"), 1, run.err)
    contains(run.err, "gr00t: warning: processor_config.json: processor_kwargs.letter_box_transform is not true, but frames that are not square are padded")
    equal(actions(run), actions(predict("--json")))
    fails(predict(model=snapshot("odd-box", processor_config__json=wants("no"))), 4, "processor_kwargs.letter_box_transform")


@test
def several_cameras_and_frames_are_matched_by_name_and_time():
    two = snapshot("two", processor_config__json=edit_json(lambda d: video(d, modality_keys=["left_eye", "right_eye"])))
    a, b = write("left.png", png(100, 80)), write("right.png", png(80, 100))
    with_both = predict_args(model=two, image="left_eye=" + a) + ["--json", "--image", "right_eye=" + b]
    r = json.loads(done(gr00t(*with_both)).out)
    equal(r["images"], {"left_eye": {"frames": 1, "received_hw": [80, 100]}, "right_eye": {"frames": 1, "received_hw": [100, 80]}})
    swapped = predict_args(model=two, image="right_eye=" + b) + ["--json", "--image", "left_eye=" + a]
    equal(actions(gr00t(*swapped)), r["actions"])
    other = predict_args(model=two, image="right_eye=" + a) + ["--json", "--image", "left_eye=" + b]
    assert actions(gr00t(*other)) != r["actions"]
    fails(predict(model=two, image="left_eye=" + a), 3, "right_eye has no picture")
    fails(predict(model=two, image=a), 3, "left_eye, right_eye")
    fails(gr00t(*with_both, "--image", "left_eye=" + a), 3, "left_eye has more than 1 picture")

    twice = snapshot("twice", processor_config__json=edit_json(lambda d: video(d, delta_indices=[-1, 0])))
    r = json.loads(done(gr00t(*predict_args(model=twice, image=a), "--image", b, "--json")).out)
    equal(r["images"][CAMERA]["frames"], 2)
    assert actions(gr00t(*predict_args(model=twice, image=b), "--image", a, "--json")) != r["actions"]
    fails(predict(model=twice, image=a), 3, "no picture 2 of 2")


@test
def plot_is_wellformed_and_deterministic():
    svg, again = os.path.join(TMP, "a.svg"), os.path.join(TMP, "b.svg")
    out = done(predict("--plot", svg, "--golden", GOLDEN)).out
    contains(out, "against golden: PCC ")
    done(predict("--plot", again, "--golden", GOLDEN))
    with open(svg, "rb") as f, open(again, "rb") as g:
        data = f.read()
        equal(data == g.read(), True, "bytes")
    doc = xml.dom.minidom.parseString(data)
    texts = [t.firstChild.data for t in doc.getElementsByTagName("text") if t.firstChild]
    for g, n in GROUPS.items():
        for i in range(n):
            equal(texts.count(f"{g}[{i}]"), 2)
    equal(len(doc.getElementsByTagName("g")), 29)


@test
def out_writes_the_json():
    path = os.path.join(TMP, "chunk.json")
    a = actions(predict("--json", "--out", path))
    equal(json.load(open(path))["actions"], a)


@test
def check_passes_on_the_demo_golden():
    run = done(gr00t("check", DEMO, GOLDEN))
    equal(run.out.splitlines()[-1], "1 of 1 cases within bounds")
    run = done(gr00t("check", DEMO, GOLDEN, GOLDEN + "/"))
    contains(run.out, "2 of 2 cases within bounds", "PCC", "max|d|", "vit.out", "velocity.step3", "input_ids")
    equal(len(done(gr00t("check", DEMO, GOLDEN, "--quiet")).out.splitlines()), 2)
    for cpu in ("scalar", "avx2"):
        run = gr00t("check", DEMO, GOLDEN, "--cpu", cpu)
        if run.code == 7:
            continue  # this CPU has no AVX2
        contains(done(run).out, "1 of 1 cases within bounds")
    r = json.loads(done(gr00t("check", DEMO, GOLDEN, "--json")).out)
    equal((r["within"], r["of"], r["cases"][0]["ok"]), (1, 1, True))
    assert all(a["ok"] and a["arrived"] for a in r["cases"][0]["arrays"]) and len(r["cases"][0]["arrays"]) > 20


def golden_copy(name, **edits):
    path = os.path.join(TMP, name)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(GOLDEN, path)
    for f, edit in edits.items():
        f = f.replace("__", ".")
        with open(os.path.join(path, f), "rb") as src:
            data = edit(src.read())
        write(os.path.join(name, f), data)
    return path


def flip_last_float(data):
    """The last float32 of a safetensors file, made larger."""
    return data[:-1] + bytes([data[-1] ^ 0x40])


def rename_tap(data):
    return data.replace(b'"vit.out"', b'"vit.ou2"')


@test
def check_fails_on_a_changed_tap_or_action_or_a_missing_tap():
    bad = golden_copy("g1", taps_fp32__safetensors=flip_last_float)
    run = fails(gr00t("check", DEMO, GOLDEN, bad), 1, "1 of 2 cases outside")
    equal(run.out.splitlines()[-1], "1 of 2 cases within bounds")
    contains(run.out, "FAILED g1")
    run = fails(gr00t("check", DEMO, golden_copy("g2", taps_fp32__safetensors=rename_tap)), 1)
    contains(run.out, "vit.ou2 never arrived")

    def shift(data):
        e = json.loads(data)
        e["actions_fp32"]["waist"][3][1] += 2e-4
        return json.dumps(e)

    contains(fails(gr00t("check", DEMO, golden_copy("g3", expected__json=shift)), 1).out, "worst actions")
    run = fails(gr00t("check", DEMO, golden_copy("g4", inputs__safetensors=flip_last_float)), 1)
    contains(run.out, "FAILED")

    def longer(data):
        e = json.loads(data)
        e["seq_len"] += 1
        return json.dumps(e)

    contains(fails(gr00t("check", DEMO, golden_copy("g5", expected__json=longer)), 1).out, "expected ")


@test
def check_judges_other_policies_by_their_actions():
    run = done(gr00t("check", DEMO, GOLDEN, "--policy", "fast", "--half", "f16"))
    equal(run.out.splitlines()[-1], "1 of 1 cases within bounds")
    contains(run.out, "actions PCC 0.999", "slice PCC 0.999", *GROUPS, "all groups", "normalised", "not judged")
    r = json.loads(done(gr00t("check", DEMO, GOLDEN, "--policy", "fast", "--half", "f16", "--json")).out)
    equal((r["policy"], r["policy_step"], r["half"], r["bounds"]["pcc"]), ("fast", "fast", "f16", 0.999))
    case = r["cases"][0]
    equal([(g["name"], g["dim"]) for g in case["groups"]], list(GROUPS.items()))
    assert all(g["ok"] and g["pcc"] > 0.99 and g["max_abs"] > 1e-4 and g["range"] > 0 for g in case["groups"])
    assert case["pcc"] > 0.999 and case["pcc_slice"] > 0.999
    arrays = {a["name"]: a for a in case["arrays"]}
    equal([n for n, a in arrays.items() if a["judged"]], ["input_ids", "noise", "state", "actions"])
    assert arrays["vit.out"]["ok"] and arrays["vit.out"]["rel_max"] > 1e-4, "a tap that exact arithmetic would not be allowed"


@test
def check_of_another_policy_fails_on_actions_inputs_and_missing_taps():
    fast = ["--policy", "fast", "--half", "f16"]
    fails(gr00t("check", DEMO, golden_copy("p1", inputs__safetensors=flip_last_float), *fast), 1)  # an input
    run = fails(gr00t("check", DEMO, golden_copy("p2", taps_fp32__safetensors=rename_tap), *fast), 1)
    contains(run.out, "vit.ou2 never arrived")

    def waist(data):
        e = json.loads(data)
        for i, row in enumerate(e["actions_fp32"]["waist"]):  # invisible in the PCC of all 29 joints, not in the group's own
            row[0] += 0.18 if i % 2 else -0.18
        return json.dumps(e)

    run = fails(gr00t("check", DEMO, golden_copy("p3", expected__json=waist), *fast, "--json"), 1)
    case = json.loads(run.out)["cases"][0]
    equal([g["name"] for g in case["groups"] if not g["ok"]], ["waist"])
    assert case["pcc"] > 0.999, case["pcc"]
    run = fails(gr00t("check", DEMO, golden_copy("p4", taps_fp32__safetensors=lambda d: d.replace(b'"action_pred"', b'"action_prex"')), *fast), 3)
    contains(run.err, "action_pred", "50 x 128")


@test
def check_of_exact_shows_the_groups_and_judges_the_taps():
    r = json.loads(done(gr00t("check", DEMO, GOLDEN, "--json")).out)
    equal((r["policy"], r["bounds"]["rel_max"]), ("exact", 1e-4))
    assert all(g["ok"] and g["max_abs"] < 1e-4 for g in r["cases"][0]["groups"]) and all(a["judged"] for a in r["cases"][0]["arrays"])


@test
def check_refuses_a_damaged_case():
    fails(gr00t("check", DEMO, os.path.join(TMP, "nowhere")), 3, "obs.json")
    fails(gr00t("check", DEMO, golden_copy("g6", taps_fp32__safetensors=lambda d: d[:100])), 3)
    fails(gr00t("check", DEMO, golden_copy("g7", obs__json=lambda d: d[:-20])), 3, "obs.json")
    for key in ("instruction", "state", "seed"):
        fails(gr00t("check", DEMO, golden_copy("g8", obs__json=edit_json(lambda d: d.pop(key)))), 3, "obs.json", key)
    fails(gr00t("check", DEMO, golden_copy("g8", expected__json=lambda d: b"{}")), 3, "actions_fp32")


@test
def check_takes_a_case_that_leaves_out_what_has_a_default():
    done(gr00t("check", DEMO, golden_copy("g9", obs__json=edit_json(lambda d: d.pop("image")))))
    done(gr00t("check", DEMO, golden_copy("g9", expected__json=edit_json(lambda d: [d.pop("seq_len"), d.pop("n_text")]))))


@test
def inspect_describes_the_snapshot():
    out = done(gr00t("inspect", DEMO)).out
    contains(out, "Gr00tN1d6", "gr1", CAMERA, "left_arm", "relative", "BF16", "vision", "connector", "language", "action head", "unused",
             "crop_fraction 0.95")
    r = json.loads(done(gr00t("inspect", DEMO, "--json")).out)
    for key in ("model_type", "embodiment", "embodiments", "settings", "ignored_keys", "tensors", "shards", "tensor_bytes", "dtypes",
                "parts", "unused_tensors", "tokenizer", "files", "formats"):
        assert key in r, key
    equal(sum(p["tensors"] for p in r["parts"].values()), r["tensors"])
    equal(sum(p["bytes"] for p in r["parts"].values()), r["tensor_bytes"])
    equal(r["parts"]["unused"]["tensors"], len(r["unused_tensors"]))
    equal([g["dim"] for g in r["embodiment"]["state"]], list(GROUPS.values()))
    equal([g["relative"] for g in r["embodiment"]["action"]], [True] * 4 + [False])

    def extra(data):
        c = json.loads(data)
        c["my_own_key"] = 1
        return json.dumps(c)

    r = json.loads(done(gr00t("inspect", snapshot("extra", config__json=extra), "--json")).out)
    contains(" ".join(r["ignored_keys"]), "my_own_key")


@test
def inspect_says_how_to_get_number_formats():
    nowhere = os.path.join(TMP, "empty_cache")
    contains(done(gr00t("inspect", DEMO, "--cache", nowhere)).out, "not chosen yet", nowhere)
    contains(done(gr00t("inspect", DEMO, "--cache", "off")).out, "no cache folder")
    equal(json.loads(done(gr00t("inspect", DEMO, "--cache", nowhere, "--json")).out)["formats"], None)
    assert not os.path.exists(nowhere), "inspect writes nothing"


@test
def number_formats_are_checked_by_name_everywhere():
    for run in (predict, lambda *a, **k: gr00t("inspect", DEMO, *a, **k), lambda *a, **k: gr00t("check", DEMO, GOLDEN, *a, **k)):
        fails(run("--policy", "fp4"), 2, "--policy", "fp4", "auto, exact, high, balanced, fast, mixed or fastest")
        fails(run("--half", "fp16"), 2, "--half", "fp16", "f16, bf16p or i16")
    fails(predict(env={"GR00T_POLICY": "quick"}), 2, "GR00T_POLICY", "quick")
    fails(predict(env={"GR00T_HALF": "8"}), 2, "GR00T_HALF")
    for name in ("auto", "mixed_dit", "exact", "high", "balanced", "fast", "mixed", "fastest"):
        done(predict("--policy", name))
    done(predict("--no-prefix-cache", "--remeasure", "--half", "i16"))


@test
def the_cache_folder_is_used_unless_it_is_off():
    folder = os.path.join(TMP, "predict_cache")
    first = done(predict("--policy", "exact", "--cache", folder, "--json")).out
    kept = os.listdir(folder)
    assert any(name.startswith("packed-") for name in kept), kept
    again = done(predict("--policy", "exact", "--json", env={"GR00T_CACHE": folder})).out
    equal(json.loads(again)["actions"], json.loads(first)["actions"])
    equal(sorted(os.listdir(folder)), sorted(kept))
    fails(predict("--cache", "on"), 2, "--cache", "a folder or off")
    file = os.path.join(TMP, "cache_that_is_a_file")
    open(file, "w").close()
    contains(done(predict("--policy", "mixed", "--cache", file)).err, file, "cannot create folder")
    bare = os.path.join(TMP, "no_cache_home")
    os.mkdir(bare)
    done(predict("--cache", "off", env={"HOME": bare}))
    done(predict(env={"HOME": bare, "GR00T_CACHE": "OFF"}))
    equal(os.listdir(bare), [])


@test
def tokenize_shows_ids_and_pieces():
    r = json.loads(done(gr00t("tokenize", DEMO, "Pick up the CUP!", "--json")).out)
    equal(r["text"], "pick up the cup")
    equal(len(r["ids"]), r["seq_len"])
    equal(len(r["pieces"]), r["seq_len"])
    contains("".join(r["pieces"]), "pick up the cup", "<|im_end|>", "<IMG_CONTEXT>" * 81)
    empty = json.loads(done(gr00t("tokenize", DEMO, "_", "--json")).out)
    equal(r["n_text"] - empty["n_text"], r["seq_len"] - empty["seq_len"])
    raw = json.loads(done(gr00t("tokenize", os.path.join(DEMO, "tokenizer"), "Pick up <|im_end|>", "--raw", "--json")).out)
    equal("".join(raw["pieces"]), "Pick up <|im_end|>")
    contains(done(gr00t("tokenize", DEMO, "go")).out, "n_text", "x 81")


@test
def bench_engine_reports():
    path = os.path.join(TMP, "bench.json")
    out = done(gr00t("bench", "engine", "--model", DEMO, "--policy", "exact", "--threads", "1", "--runs", "2", "--json", path)).out
    contains(out, "vision", "llm", "adapter", "denoise", "total", "Gop/s", "of peak", "of bound", "bound by", "instruction", "possible", "GB/s",
             "memory read by 1 thread", "against fp32", "prefix cache on", "load ", "peak memory")
    r = json.load(open(path))
    for key in ("total_ms", "stages", "peaks", "share_of_peak", "share_of_bound", "pcc_actions", "worst_group", "load_ms", "first_chunk_ms",
                "peak_rss_bytes", "isa", "threads", "policy", "prefix_cache", "prefix_rows", "memory_gbytes_per_s", "cpu", "other_cpus", "runs", "seq_len"):
        assert key in r, key
    assert 0 < r["total_ms"]["min"] <= r["total_ms"]["p50"] <= r["total_ms"]["max"] and 0 < r["share_of_peak"] < 1
    equal((r["policy"], r["pcc_actions"], r["worst_group"]), ("exact", 1, None))
    parts = [r["stages"][k] for k in ("vision", "llm", "adapter", "denoise")]
    for key in ("gflop", "mbytes", "peak_ms", "memory_ms"):
        assert abs(sum(p[key] for p in parts) - r["stages"]["total"][key]) < 0.01, key
    for p in parts:  # each to three decimals
        assert p["share_of_bound"] >= max(p["share_of_peak"], p["share_of_memory"]) - 0.002, p
    for name, peak in r["peaks"].items():
        assert peak["gops"]["p50"] > 0 and peak["instruction"], name
    done(gr00t("bench", "engine", "--model", DEMO, "--policy", "exact", "--runs", "1", "--image", FRAME, "--state", STATE, "--instruction", "wave"))


@test
def bench_engine_measures_with_and_without_the_prefix_cache():
    rows = {}
    for flags in ([], ["--no-prefix-cache"]):
        path = os.path.join(TMP, "prefix.json")
        done(gr00t("bench", "engine", "--model", DEMO, "--policy", "exact", "--threads", "1", "--runs", "1", "--json", path, *flags))
        r = json.load(open(path))
        rows[r["prefix_cache"]] = (r["prefix_rows"], r["stages"]["llm"]["gflop"])
    equal(rows["off"][0], 0)
    assert 0 < rows["on"][0] < 116 and rows["on"][1] < rows["off"][1], rows


@test
def bench_engine_wants_a_model_or_makes_one():
    fails(gr00t("bench", "engine"), 2, "--model DIR or --synthetic")
    fails(gr00t("bench", "engine", "--model", DEMO, "--synthetic"), 2, "--model DIR or --synthetic")
    nowhere = os.path.join(TMP, "no-such-folder")
    fails(gr00t("bench", "engine", "--synthetic", env={"TMPDIR": nowhere}), 3, nowhere, "TMPDIR")


def sums(folder):
    lines = []
    for path in listing(folder):
        if os.path.basename(path) == "SHA256SUMS":
            continue
        with open(path, "rb") as f:
            lines.append(f"{hashlib.sha256(f.read()).hexdigest()}  {os.path.relpath(path, folder)}\n")
    return "".join(lines)


@test
def verify_finds_one_flipped_byte():
    folder = os.path.join(TMP, "verify")
    shutil.copytree(DEMO, folder)
    os.remove(os.path.join(folder, "SHA256SUMS"))
    fails(gr00t("verify", folder), 1)  # nobody knows a checksum
    write("verify/SHA256SUMS", sums(folder))
    contains(done(gr00t("verify", folder)).out, " 0 mismatched")
    r = json.loads(done(gr00t("verify", folder, "--json")).out)
    equal((r["mismatch"], r["missing"]), (0, 0))
    victim = sorted(f for f in os.listdir(folder) if f.endswith(".safetensors"))[0]
    with open(os.path.join(folder, victim), "r+b") as f:
        f.seek(-1000, 2)
        byte = f.read(1)
        f.seek(-1000, 2)
        f.write(bytes([byte[0] ^ 1]))
    fails(gr00t("verify", folder, "--quiet"), 1, victim)
    contains(gr00t("verify", folder, "--sums", os.path.join(folder, "SHA256SUMS")).out, "mismatch", "expected ", "found ")
    os.remove(os.path.join(folder, "statistics.json"))
    contains(gr00t("verify", folder).out, "missing")
    fails(gr00t("verify", folder, "--sums", os.path.join(TMP, "no-sums")), 3)


@test
def synth_is_deterministic():
    done(gr00t("synth", "demo", os.path.join(TMP, "again"), "--threads", "1"))
    equal(sums(os.path.join(TMP, "again")), sums(DEMO))
    done(gr00t("synth", "demo", os.path.join(TMP, "again"), "--seed", "7"))
    assert sums(os.path.join(TMP, "again")) != sums(DEMO)
    run = done(gr00t("synth", "tiny", os.path.join(TMP, "tiny"), "--weights", "gaussian", "--quiet"))
    equal((run.out, run.err), ("", ""))
    equal([f for f in listing(os.path.join(TMP, "tiny")) if ".tmp-" in f], [])


@test
def synth_writes_checksums_that_verify_reads():
    folder = os.path.join(TMP, "summed")
    for seed in ("1600", "7"):  # the second one replaces the first: no golden, other weights
        done(gr00t("synth", "demo", folder, "--seed", seed))
        contains(done(gr00t("verify", folder)).out, " 0 mismatched, 0 missing, 0 without checksum (sums file)")
        with open(os.path.join(folder, "SHA256SUMS")) as f:
            equal(sorted(f), sorted(sums(folder).splitlines(keepends=True)))


@test
def synth_leaves_foreign_folders_alone():
    for i, name in enumerate(("notes.txt", "model-00001-of-00002.safetensors", "src")):
        folder = os.path.join(TMP, f"foreign{i}")
        os.makedirs(os.path.join(folder, name))
        fails(gr00t("synth", "demo", folder), 2, name, "empty or new folder")
        equal(os.listdir(folder), [name])
    folder = os.path.join(TMP, "prepared")  # tiny and full get a tokenizer from their user
    os.makedirs(os.path.join(folder, "tokenizer"))
    write("prepared/tokenizer/vocab.json", "{}")
    done(gr00t("synth", "tiny", folder))
    done(gr00t("synth", "tiny", folder))
    equal(open(os.path.join(folder, "tokenizer", "vocab.json")).read(), "{}")


@test
def a_golden_of_another_observation_is_told():
    equal(done(predict("--golden", GOLDEN)).err, "")
    other = write("other.png", png(256, 256))
    for more, kw, part in ((("--seed", "43"), {}, "the seed"), ((), {"instruction": "pick the pear"}, "the instruction"),
                           (("--noise", write("ones.npy", npy((50, 128)))), {}, "the noise"), ((), {"image": other}, "the picture"),
                           ((), {"state_file": write("zeros.json", json.dumps({g: [0] * n for g, n in GROUPS.items()}))}, "the state")):
        contains(done(predict("--golden", GOLDEN, *more, **kw)).err, f"warning: --golden {GOLDEN}: {part} of this observation is not that of the case")


@test
def the_example_runs():
    if not EXAMPLE:
        raise Skip("GR00T_EXAMPLE is not set")
    run = gr00t(DEMO, FRAME, INSTRUCTION, program=EXAMPLE)
    done(run)
    a = actions(predict("--json", "--policy", "auto"))  # the library's default
    rows = [[v for g in GROUPS for v in a[g][s]] for s in range(16)]
    got = [[float(v) for v in line.split()] for line in run.out.splitlines()]
    equal([len(r) for r in got], [29] * 16)
    assert all(abs(x - y) < 1e-5 for r, q in zip(got, rows) for x, y in zip(r, q))
    equal(gr00t(DEMO, STATE, INSTRUCTION, program=EXAMPLE).code, 1)


@test
def long_golden_list():
    cases = os.path.join(SHARED, "spec", "goldens_tiny")
    if not SHARED or not os.path.isdir(cases):
        raise Skip("GR00T_SHARED has no spec/goldens_tiny")
    tiny = os.path.join(TMP, "tiny1600")
    done(gr00t("synth", "tiny", tiny))
    folders = [os.path.join(cases, d) for d in sorted(os.listdir(cases)) if os.path.isdir(os.path.join(cases, d))]
    run = done(gr00t("check", tiny, *folders, "--tokenizer", os.path.join(SHARED, "spec", "tokenizer")))
    equal(run.out.splitlines()[-1], f"{len(folders)} of {len(folders)} cases within bounds")


# ---- settings ----


@test
def variables_are_used_after_flags():
    fails(predict(env={"GR00T_EMBODIMENT": "nobody"}), 3, "nobody", "gr1")
    done(predict("--embodiment", "gr1", env={"GR00T_EMBODIMENT": "nobody"}))
    fails(predict(env={"GR00T_THREADS": "many"}), 2, "GR00T_THREADS")
    fails(predict(env={"GR00T_THREADS": "0"}), 2, "GR00T_THREADS")
    contains(done(predict(env={"GR00T_THREADS": "1"})).out, "1 thread,")
    contains(done(predict(env={"GR00T_CPU": "scalar"})).out, "scalar")
    fails(predict(env={"GR00T_DEVICE": "toaster"}), 2, "toaster", "cpu")
    fails(predict(env={"GR00T_POLICY": "wild"}), 2, "wild", "exact")
    done(predict(env={"GR00T_DEVICE": "", "GR00T_POLICY": ""}))


@test
def misspelt_variables_are_named():
    env = {"GR00T_THREDS": "1"}
    for run in (predict(env=env), gr00t("inspect", DEMO, env=env), gr00t("check", DEMO, GOLDEN, env=env), gr00t("tokenize", DEMO, "pick", env=env),
                gr00t("synth", "demo", os.path.join(TMP, "misspelt"), env=env), gr00t("bench", "engine", "--model", DEMO, "--runs", "1", env=env)):
        equal(done(run).err.count("warning: variable GR00T_THREDS is unknown and changes nothing, did you mean GR00T_THREADS?"), 1, run.err)


@test
def the_tokenizer_is_found_in_order():
    bare = snapshot("bare", tokenizer=None)
    tok = os.path.join(DEMO, "tokenizer")
    fails(predict(model=bare), 4, "--tokenizer", "GR00T_TOKENIZER_DIR", os.path.join(bare, "tokenizer"), "models--Qwen--Qwen3-1.7B")
    done(predict("--tokenizer", tok, model=bare))
    done(predict(model=bare, env={"GR00T_TOKENIZER_DIR": tok}))
    fails(predict(env={"GR00T_TOKENIZER_DIR": TMP}), 4, "GR00T_TOKENIZER_DIR", TMP)
    fails(predict("--tokenizer", TMP), 4, "--tokenizer", TMP)
    single = os.path.join(TMP, "single")
    os.makedirs(single)
    with open(os.path.join(tok, "vocab.json")) as v, open(os.path.join(tok, "merges.txt")) as m, open(os.path.join(tok, "added_tokens.json")) as a:
        write("single/tokenizer.json", json.dumps({
            "added_tokens": [{"content": k, "id": i} for k, i in json.load(a).items()], "normalizer": {"type": "NFC"},
            "model": {"type": "BPE", "vocab": json.load(v), "merges": [x for x in m.read().splitlines() if not x.startswith("#version")]}}))
    equal(actions(predict("--json", "--tokenizer", single, model=bare)), actions(predict("--json")))
    model = os.path.join(TMP, "hub", "models--Qwen--Qwen3-1.7B")
    os.makedirs(os.path.join(model, "refs"))
    os.makedirs(os.path.join(model, "snapshots"))
    os.symlink(tok, os.path.join(model, "snapshots", "abc123"))
    write("hub/models--Qwen--Qwen3-1.7B/refs/main", "abc123\n")
    hub = os.path.join(TMP, "hub")
    for env in ({"HF_HUB_CACHE": hub}, {"HUGGINGFACE_HUB_CACHE": hub}, {"HF_HOME": TMP}):
        done(predict(model=bare, env=env), str(env))
    fails(predict(model=bare, env={"HF_HUB_CACHE": TMP, "HF_HOME": TMP}), 4)  # the first that is set counts
    os.makedirs(os.path.join(TMP, "xdg", "huggingface"))
    os.symlink(hub, os.path.join(TMP, "xdg", "huggingface", "hub"))
    done(predict(model=bare, env={"XDG_CACHE_HOME": os.path.join(TMP, "xdg")}))


@test
def names_that_no_repository_has_are_usage_mistakes_before_the_cache_is_looked_at():
    env = {"HF_HUB_CACHE": os.path.join(TMP, "no-such-hub")}
    cases = [(("org/name", "--revision", r), 2, "is no commit, branch or tag name") for r in ("main/", "a//b", "../x", "r" * 200)]
    cases += [((name,), 4, f"{name}: no such folder") for name in ("a--b/c", "org/na..me")]  # no repositories, so folders
    cases += [(("org/name",), 4, "org/name @ main is not in the Hub cache")]
    for args, code, says in cases:
        run = gr00t("serve", "--hf-model", *args, env=env)
        equal(run.code, code, f"{args}: {run.err}")
        contains(run.err, says)


@test
def json_log_lines_parse():
    run = predict("--log-format", "json", state_file=os.path.join(TMP, "nowhere.json"))
    e = json.loads(run.err)
    equal((e["level"], e["command"], e["exit"], run.code), ("error", "predict", 3, 3))
    contains(e["msg"], "nowhere.json")
    e = json.loads(gr00t("--log-format=json", "predict", "--sed").err)
    contains(e["msg"], "did you mean --seed")


# ---- usage ----


@test
def usage_mistakes_exit_2():
    for args, part in (([], "no command"), (["predikt"], "did you mean predict?"), (["predict"], "--model DIR is missing"),
                       (["predict", "--sed", "1"], "did you mean --seed?"), (["predict", "--seed"], "needs a value"),
                       (["predict", "word"], "unexpected word"), (["inspect"], "missing DIR"), (["inspect", "a", "b"], "unexpected word"),
                       (["synth", "huge", "x"], "expected demo, tiny or full"), (["synth", "demo"], "missing"),
                       (["synth", "demo", "x", "--weights", "gausian"], "did you mean gaussian?"), (["check", DEMO], "missing"),
                       (["tokenize", DEMO], "missing"), (["bench"], "second word"), (["bench", "engin"], "did you mean bench engine?"),
                       (["--log-format", "xml", "inspect", DEMO], "text, json"), (["help", "nothing"], "unknown command"),
                       (["bench", "engine", "--model", DEMO, "--runs", "0"], "--runs is 0")):
        fails(gr00t(*args), 2, part)
    fails(predict("--seed", "1", "--noise", FRAME), 2, "--seed and --noise")
    for seed in ("-1", "9223372036854775808", "1.5", "x"):
        fails(predict("--seed", seed), 2, "--seed")
    fails(predict("--threads", "0"), 2, "--threads")
    contains(done(predict("--threads", "40")).err, "40 threads on")
    most = max(64, 8 * len(os.sched_getaffinity(0)))
    fails(predict("--threads", str(most + 1)), 2, "--threads", str(most), "this process may use")
    fails(predict("--cpu", "sse9"), 2, "sse9", "avx2")
    equal(os.path.exists(os.path.join(TMP, "x")), False)


# ---- bad input: 3 ----


@test
def bad_state_exits_3():
    for i, (text, parts) in enumerate([
        (json.dumps(state(waist=None)), ["waist", "missing", "left_arm (7)"]),
        (json.dumps(state(left_arm=[0] * 6)), ["state.left_arm has 6 values, expected 7"]),
        (json.dumps(state(left_arm=[[0] * 7, [0] * 7])), ["state.left_arm has 2 rows"]),
        (json.dumps(state(tail=[0])), ["tail", "left_arm (7), right_arm (7), left_hand (6), right_hand (6), waist (3)"]),
        (json.dumps(state(waist=[0, "1", 0])), ["state.waist[1] is", "string"]),
        (json.dumps(state(waist=[0, None, 0])), ["state.waist[1] is", "null"]),
        (json.dumps(state(waist=[0, True, 0])), ["state.waist[1] is"]),
        (json.dumps(state(waist=7)), ["state.waist is"]),
        (json.dumps(state(waist=[0, 0, 1e39])), ["waist", "2"]),
        (json.dumps(state(waist=[0, 0, float("nan")])), ["json"]),
        (json.dumps(state()).replace("0.01", "1e999"), ["json"]),
        (json.dumps([0] * 29), ["expected an object"]),
        (json.dumps({"state": [0] * 29}), ["expected an object"]),
        ("{}", ["missing"]),
        ("", []),
        ("{", []),
        (json.dumps(state())[:-1] + ',"waist":[0,0,0]}', ["waist"]),
    ]):
        fails(predict(state_file=write(f"s{i}.json", text)), 3, *parts)
    fails(predict(state_file=os.path.join(TMP, "nowhere.json")), 3, "nowhere.json", "no such file")


@test
def bad_image_exits_3():
    whole = png(128, 96)
    for name, data, parts in (("small.png", png(63, 64), ["63"]), ("wide.png", png(4097, 64), ["4097"]), ("gif.png", b"GIF89a" + b"\0" * 50, []),
                              ("cut.png", whole[:-40], []), ("sum.png", whole[:60] + bytes([whole[60] ^ 1]) + whole[61:], []),
                              ("empty.png", b"", []), ("jpeg.jpg", b"\xff\xd8\xff\xe0" + b"\0" * 30, []), ("grey16.png", png(64, 64, 0, 16), ["16"]),
                              ("text.png", b"not a picture", [])):
        fails(predict(image=write(name, data)), 3, name, *parts)
    fails(predict(image=os.path.join(TMP, "nowhere.png")), 3, "nowhere.png", "no such file")
    fails(predict(image="side_view=" + FRAME), 3, "side_view", CAMERA)
    fails(predict("--image", FRAME), 3, CAMERA, "more than 1 picture")


@test
def bad_instruction_exits_3():
    for text in ("", "   ", "\t\n", "!?", "a" * 2001, "é" * 2001):
        fails(predict(instruction=text), 3)
    fails(predict(instruction=b"pick \xff up".decode("utf-8", "surrogateescape")), 3, "UTF-8")
    fails(gr00t("tokenize", DEMO, b"\xc3".decode("utf-8", "surrogateescape")), 3)
    done(predict(instruction="a" * 2000))


@test
def bad_noise_exits_3():
    nan = npy([50, 128], b"\0\0\xc0\x7f")
    for name, data, part in (("n1.npy", npy([16, 29]), "[50, 128]"), ("n4.npy", npy([2, 50, 128]), "[50, 128]"), ("n5.npy", nan, "not finite"),
                             ("n6.npy", npy([50, 128])[:-1], "n6.npy"), ("n7.npy", npy([50, 128], b"\1\0\0\0", "<i4"), "n7.npy"),
                             ("n9.npy", b"no", "n9.npy")):
        fails(predict("--noise", write(name, data)), 3, part)
    fails(predict("--noise", os.path.join(TMP, "nowhere.npy")), 3, "nowhere.npy")


@test
def unknown_embodiment_lists_the_known_ones():
    fails(predict("--embodiment", "gr2"), 3, "gr2", "gr1")
    fails(gr00t("inspect", DEMO, "--embodiment", "GR1"), 3, "GR1", "gr1")


# ---- bad snapshot: 4 ----


def edit_header(change):
    """Changes the JSON header of a safetensors file."""
    def edit(data):
        n = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + n])
        change(header)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + data[8 + n:]
    return edit


def first_tensor(header):
    return header[sorted(k for k in header if k != "__metadata__")[0]]


SHARD = "model-00001-of-00003__safetensors"
INDEX = "model__safetensors__index__json"


@test
def damaged_shards_exit_4():
    shard, index = SHARD.replace("__", "."), INDEX.replace("__", ".")

    def halve(h):
        first_tensor(h)["shape"][0] //= 2

    def far(h):
        first_tensor(h)["data_offsets"][1] += 1 << 40

    def overlap(h):
        names = sorted((k for k in h if k != "__metadata__"), key=lambda k: h[k]["data_offsets"])
        h[names[1]]["data_offsets"][0] -= 2

    def reshape(h):
        t = next(v for k, v in h.items() if k != "__metadata__" and len(v["shape"]) == 2)
        t["shape"].reverse()
        t["shape"] = [t["shape"][0] * t["shape"][1], 1]

    def retype(h):
        first_tensor(h)["dtype"] = "I16"

    for i, (edits, parts) in enumerate([
        ({SHARD: None}, [shard]),
        ({SHARD: lambda d: d[:len(d) // 2]}, [shard]),
        ({SHARD: lambda d: d + b"\0\0"}, [shard]),
        ({SHARD: lambda d: b""}, [shard]),
        ({SHARD: lambda d: struct.pack("<Q", 1 << 62) + d[8:]}, [shard]),
        ({SHARD: lambda d: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"}, [shard]),
        ({SHARD: edit_header(halve)}, [shard]),
        ({SHARD: edit_header(far)}, [shard]),
        ({SHARD: edit_header(overlap)}, [shard]),
        ({SHARD: edit_header(reshape)}, ["shape", "expected"]),
        ({SHARD: edit_header(retype)}, ["I16"]),
        ({INDEX: edit_json(lambda d: d["weight_map"].update(ghost="model-00009-of-00003.safetensors"))}, ["model-00009-of-00003"]),
        ({INDEX: edit_json(lambda d: d["weight_map"].popitem())}, []),
        ({INDEX: edit_json(lambda d: d["metadata"].update(total_size=1))}, ["total_size"]),
        ({INDEX: lambda d: d[:-9]}, [index]),
        ({INDEX: None}, []),
    ]):
        path = snapshot(f"broken{i}", **edits)
        fails(gr00t("inspect", path), 4, *parts)
        fails(predict(model=path), 4, *parts)
    path = snapshot("toomany")
    shutil.copy(os.path.join(DEMO, shard), os.path.join(path, "model-00004-of-00003.safetensors"))
    fails(gr00t("inspect", path), 4, "model-00004-of-00003")


@test
def inspect_lists_every_missing_tensor():
    def rename(data):  # the data stay where they are
        return data.replace(b"self_attn.q_norm", b"self_attn.Q_norm").replace(b"norm1.linear.bias", b"norm1.linear.Bias")

    shards = [f.replace(".", "__") for f in os.listdir(DEMO) if f.endswith(".safetensors")]
    path = snapshot("lacking", **{f: rename for f in [*shards, INDEX]})
    fails(predict(model=path), 4, "q_norm", "missing")  # its width is not known without
    path = snapshot("lacking", **{f: lambda d: d.replace(b"norm1.linear.bias", b"norm1.linear.Bias") for f in [*shards, INDEX]})
    run = fails(gr00t("inspect", path), 4, "8 tensors are missing", "transformer_blocks.0.norm1.linear.bias")
    missing = [x.split()[1] for x in run.out.splitlines() if x.startswith("  missing")]
    equal(missing, [f"action_head.model.transformer_blocks.{i}.norm1.linear.bias" for i in range(8)])


@test
def damaged_side_files_exit_4():
    def nan(d):
        return d.replace(b'"min": [', b'"min": [NaN, ', 1) if b'"min": [' in d else d.replace(b'"min":[', b'"min":[NaN,', 1)

    def narrow(d):
        d["gr1"]["state"]["waist"]["mean"].pop()

    for i, (edits, parts) in enumerate([
        ({"config__json": None}, ["config.json"]),
        ({"statistics__json": None}, ["statistics.json"]),
        ({"processor_config__json": None}, ["processor_config.json"]),
        ({"embodiment_id__json": None}, ["embodiment_id.json"]),
        ({"config__json": lambda d: d[:-3]}, ["config.json"]),
        ({"config__json": edit_json(lambda d: d.update(model_type="Gr00tN9"))}, ["Gr00tN9", "Gr00tN1d6"]),
        ({"config__json": edit_json(lambda d: d.update(num_inference_timesteps=0))}, ["num_inference_timesteps"]),
        ({"statistics__json": nan}, ["statistics.json"]),
        ({"statistics__json": edit_json(lambda d: d["gr1"]["action"].pop("waist"))}, ["waist"]),
        ({"statistics__json": edit_json(narrow)}, ["waist", "mean"]),
        ({"statistics__json": edit_json(lambda d: d.pop("gr1"))}, ["gr1"]),
    ]):
        path = snapshot(f"side{i}", **edits)
        fails(gr00t("inspect", path), 4, *parts)
        fails(predict(model=path), 4, *parts)
    fails(predict(model=os.path.join(TMP, "nowhere")), 4, "nowhere")
    fails(gr00t("inspect", os.path.join(TMP, "nowhere")), 4, "nowhere")
    fails(gr00t("inspect", FRAME), 4, "frame.png")


@test
def damaged_tokenizer_exits_4():
    tok = os.path.join(TMP, "badtok")
    shutil.copytree(os.path.join(DEMO, "tokenizer"), tok)
    write("badtok/vocab.json", '{"a": ')
    fails(predict("--tokenizer", tok), 4, "vocab.json")
    write("badtok/vocab.json", '{"a": 0}')
    fails(predict("--tokenizer", tok), 4)


# ---- this machine: 7, writing, interrupts ----


@test
def a_missing_instruction_set_exits_7():
    run = predict("--cpu", "avx512fp16")
    if run.code == 0:
        raise Skip("this CPU has everything")
    fails(run, 7, "avx512fp16")


@test
def unreadable_files_exit_3():
    def as_nobody():
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)

    try:
        done(gr00t("--version", before=as_nobody))
    except (OSError, subprocess.SubprocessError, AssertionError) as e:
        raise Skip(f"an ordinary user cannot run the program here: {e}")
    os.chmod(TMP, 0o755)
    locked = write("locked.json", json.dumps(state()))
    os.chmod(locked, 0)
    fails(predict(state_file=locked, before=as_nobody), 3, "locked.json", "Permission denied")
    secret = snapshot("secret", config__json=lambda d: d)
    os.chmod(os.path.join(secret, "config.json"), 0)
    run = predict(model=secret, before=as_nobody)
    contains(fails(run, 3).err, "config.json", "Permission denied")
    fails(predict("--out", os.path.join("/", "x.json"), before=as_nobody), 3, "Permission denied")


@test
def stdout_that_cannot_be_written_exits_3():
    with open("/dev/full", "wb") as full:
        for args in (["--help"], ["inspect", DEMO], ["check", DEMO, GOLDEN], ["verify", DEMO], predict_args(), ["tokenize", DEMO, "go", "--json"]):
            run = gr00t(*args, stdout=full)
            if args[0] != "verify":
                fails(run, 3, "stdout", "No space left")
            assert run.code != 0
    closed = gr00t("inspect", DEMO, stdout=None, before=lambda: os.close(1))
    fails(closed, 3, "stdout")


@test
def a_reader_that_goes_away_ends_the_run_quietly():
    r, w = os.pipe()
    os.close(r)
    for args in (["--help"], ["inspect", DEMO], ["check", DEMO, GOLDEN], predict_args(), ["inspect", DEMO, "--log-format", "json"]):
        run = gr00t(*args, stdout=w)
        equal((run.code, run.err), (141, ""), args)
    # what the command itself has to say is still said
    fails(gr00t("verify", GOLDEN, stdout=w), 1, "no checksum is known")
    fails(gr00t("inspect", os.path.join(TMP, "nowhere"), stdout=w), 4, "nowhere")
    folder = os.path.join(TMP, "piped")
    os.makedirs(folder)
    write("piped/a", "hello\n")
    write("piped/SHA256SUMS", hashlib.sha256(b"hello\n").hexdigest() + "  a\n")
    run = gr00t("verify", folder, stdout=w)
    equal((run.code, run.err), (141, ""))
    os.close(w)


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@test
def a_full_disk_leaves_nothing_behind():
    folder = os.path.join(TMP, "full")
    os.makedirs(folder)
    for option, name in (("--out", "x.json"), ("--plot", "x.svg")):
        fails(predict(option, os.path.join(folder, name), before=small_files), 3, name)
        equal(listing(folder), [])
    write("full/x.json", "old")
    fails(predict("--out", os.path.join(folder, "x.json"), before=small_files), 3)
    equal(open(os.path.join(folder, "x.json")).read(), "old")
    run = gr00t("synth", "demo", os.path.join(folder, "snap"), before=small_files)
    equal(run.code, 3)
    for path in listing(os.path.join(folder, "snap")):
        assert ".tmp-" not in path and os.path.getsize(path) <= 4096, path
    fails(predict("--out", os.path.join(TMP, "nofolder", "x.json")), 3, "nofolder")
    fails(gr00t("synth", "demo", os.path.join(FRAME, "x")), 3)


@test
def an_interrupt_leaves_nothing_half_written():
    if shutil.disk_usage(TMP).free < 8 << 30:
        raise Skip("needs 8 GB of free space")
    folder = os.path.join(TMP, "interrupted")
    p = subprocess.Popen([BIN, "synth", "full", folder, "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert after_cpu_s(p, 0.5), "ended before the interrupt"
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    equal(p.returncode, 130)
    equal([f for f in listing(folder) if ".tmp-" in f or f.endswith(".safetensors")], [])


@test
def a_snapshot_that_is_cut_short_while_in_use_exits_4():
    folder = os.path.join(TMP, "shrinking")
    shutil.copytree(DEMO, folder)
    args = [BIN, "bench", "engine", "--model", folder, "--runs", "100000", "--threads", "1"]
    for more, start in (([], "gr00t: "), (["--log-format", "json"], "{")):
        p = subprocess.Popen(args + more, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert after_cpu_s(p, 0.8), "ended before the cut"
        for f in os.listdir(folder):  # token embeddings are read in each run
            if f.endswith(".safetensors"):
                os.truncate(os.path.join(folder, f), 0)
        err = p.communicate(timeout=60)[1].decode()
        equal(p.returncode, 4)
        assert err.startswith(start) and len(err.splitlines()) == 1 and "shorter" in err, err
        shutil.rmtree(folder)
        shutil.copytree(DEMO, folder)


def main():
    global TMP, DEMO, FRAME, STATE, GOLDEN
    TMP = tempfile.mkdtemp(prefix="gr00t-cli-")
    DEMO = os.path.join(TMP, "demo")
    try:
        run = gr00t("synth", "demo", DEMO)
        if run.code != 0:
            print(f"not ok 1 - synth demo: {run.err}\n0 passed, 1 failed")
            return 1
        FRAME, STATE = os.path.join(DEMO, "demo", "frame.png"), os.path.join(DEMO, "demo", "state.json")
        GOLDEN = os.path.join(DEMO, "demo", "golden")
        return run_tests()
    finally:
        shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
