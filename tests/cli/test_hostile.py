#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Black-box tests of what a clumsy or hostile user can do: odd sizes, odd names, links, little memory, lying files.

In and out as test_cli.py, whose harness this file uses.
"""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
import odd_snapshots  # noqa: E402
import tap  # noqa: E402
import test_cli as t  # noqa: E402

tap.TESTS.clear()
ESCAPE = "\x1b[31mX\n\r\t\x07\u0085\u2028"  # what would colour a terminal, ring its bell, forge a line


def folder(name):
    path = os.path.join(t.TMP, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def odd(name, **sizes):
    path = os.path.join(t.TMP, "odd-" + name)
    shutil.rmtree(path, ignore_errors=True)
    return odd_snapshots.make(path, t.DEMO, **sizes)


def rows(run):
    a = json.loads(t.done(run).out)["actions"]
    return [v for g in a for row in a[g] for v in row]


def all_sets_agree(model, name):
    want = rows(t.predict("--json", "--cpu", "scalar", model=model))
    for cpu in ("avx2", "avx512"):
        run = t.predict("--json", "--cpu", cpu, "--threads", "3", model=model)
        if run.code == 7:
            continue  # not on this CPU
        got = rows(run)
        worst = max(abs(x - y) for x, y in zip(got, want))
        assert len(got) == len(want) and worst < 1e-3, f"{name}: {cpu} differs from scalar by {worst}"


@t.test
def sizes_no_checkpoint_has_load_and_every_set_agrees():
    small = dict(l_hidden=8, l_mlp=8, l_head=4, l_heads=1, l_kv=1, v_hidden=8, v_mlp=8, v_layers=1, d_layers=2)
    for name, sizes in (("heads of 6", dict(l_head=6, l_heads=4, l_kv=1)),
                        ("nothing divides by 16", dict(v_hidden=42, v_heads=3, v_mlp=55, l_hidden=50, l_mlp=37, l_head=10, l_heads=3, l_kv=3,
                                                       d_width=18, d_heads=3, d_head=6, d_hidden=13, d_out=7)),
                        ("widths of 1", dict(v_hidden=1, v_mlp=1, v_layers=1, v_heads=1, v_table=1, l_hidden=1, l_mlp=1, l_layers=1, l_heads=1,
                                             l_kv=1, l_head=2, d_width=2, d_heads=1, d_head=2, d_hidden=1, d_out=1, d_layers=1, steps=1)),
                        # one row a step at load: more and wider than any row of a predict
                        ("1000 steps of a narrow head", dict(small, d_width=4, d_heads=1, d_head=4, d_hidden=8, d_out=4, steps=1000, edge=56)),
                        ("table of 5, blocks of text only", dict(small, v_table=5, every=1, d_layers=7)),
                        ("largest picture", dict(small, edge=1024, crop=1.0)),
                        ("F16", dict(small, dtype="F16", extra=[("lm_head.weight", (3, 8)), ("empty", (0, 4)), ("scalar", ())])),
                        ("horizon of 1024", dict(small, horizon=1024, max_seq=1024))):
        all_sets_agree(odd("size", **sizes), name)
    for vocab in (900, 2100):  # smaller than the tokenizer; so much larger that it is another one's
        t.fails(t.predict(model=odd("vocabulary", vocab=vocab, **small)), 4, f"{vocab} rows")


@t.test
def more_steps_than_rows_a_calibration_keeps_are_measured_too():
    small = dict(l_hidden=8, l_mlp=8, l_head=4, l_heads=1, l_kv=1, l_layers=1, v_hidden=8, v_mlp=8, v_layers=1, v_heads=1, d_layers=2, d_width=4,
                 d_heads=1, d_head=4, d_hidden=8, d_out=4, steps=200)
    model, cache = odd("steps", **small), os.path.join(t.TMP, "steps-cache")
    t.done(t.predict("--policy", "fastest", "--cache", cache, model=model))
    formats = json.loads(t.done(t.gr00t("inspect", model, "--policy", "fastest", "--cache", cache, "--json")).out)["formats"]
    assert formats["matrices"]
    for m in formats["matrices"]:
        assert 0 <= m["error"] < 1, m


@t.test
def a_config_with_fewer_layers_than_the_snapshot_exits_4():
    def fewer(part, key):
        return t.snapshot("fewer", config__json=t.edit_json(lambda d: part(d).update({key: 1})))

    path = fewer(lambda d: d["diffusion_model_cfg"], "num_layers")
    t.fails(t.predict(model=path), 4, "num_layers is 1", "transformer_blocks.1.")
    path = fewer(lambda d: d["eagle_config"]["vision_config"], "num_hidden_layers")
    t.fails(t.predict(model=path), 4, "num_hidden_layers is 1", "encoder.layers.1.")
    t.done(t.predict(model=fewer(lambda d: d, "select_layer")))  # this one means it


@t.test
def names_out_of_files_cannot_reach_the_terminal_raw():
    def rename(doc):
        modes = doc["processor_kwargs"]["modality_configs"]["gr1"]
        modes["video"]["modality_keys"] = ["camera" + ESCAPE]
        for part in ("state", "action"):
            for key in ("modality_keys", "sin_cos_embedding_keys"):
                modes[part][key] = modes[part][key] and ["waist" + ESCAPE if g == "waist" else g for g in modes[part][key]]

    def rename_statistics(doc):
        for part in doc["gr1"].values():
            if "waist" in part:
                part["waist" + ESCAPE] = part.pop("waist")

    def add_tensor(header):
        header["tensor" + ESCAPE] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}

    name = "model-00001-of-00003.safetensors"
    path = t.snapshot("names", processor_config__json=t.edit_json(rename), statistics__json=t.edit_json(rename_statistics),
                      embodiment_id__json=t.edit_json(lambda d: d.update({"tag" + ESCAPE: 1})),
                      config__json=t.edit_json(lambda d: d.update({"key" + ESCAPE: 1})),
                      model__safetensors__index__json=t.edit_json(lambda d: d["weight_map"].update({"tensor" + ESCAPE: name})),
                      **{t.SHARD: t.edit_header(add_tensor)})
    t.write(os.path.join("names", "file" + ESCAPE), "x")
    groups = {("waist" + ESCAPE if g == "waist" else g): v for g, v in t.state().items()}
    state = t.write("names.json", json.dumps(groups))
    runs = [t.gr00t("inspect", path), t.gr00t("inspect", path, "--verbose"), t.gr00t("verify", path), t.gr00t("inspect", path + "/file" + ESCAPE),
            t.predict(model=path, state_file=state), t.gr00t("tokenize", path, "\t\r\x1b[31mpick", "--raw")]
    for part in ("camera?", "waist?", "tensor?", "tag?", "key?", "file?"):
        t.contains("".join(r.out for r in runs), part + "[31mX")
    for run in runs:
        bad = [c for c in run.out + run.err if (c < " " and c != "\n") or "\x7f" <= c < "\xa0" or c in "\u2028\u2029\ufffd"]
        assert not bad, f"{bad} in {run.out}{run.err}"
    for run in (t.gr00t("inspect", path, "--json"), t.predict("--json", model=path, state_file=state)):
        t.contains(json.dumps(json.loads(t.done(run).out)), "waist" + json.dumps(ESCAPE)[1:-1])


@t.test
def a_link_is_written_through():
    target, link = t.write("target.json", "old"), os.path.join(t.TMP, "link.json")
    os.symlink("target.json", link)
    t.done(t.predict("--out", link))
    assert os.path.islink(link) and json.load(open(target))["actions"]
    os.symlink("nowhere/x.json", os.path.join(t.TMP, "dangling.json"))
    t.fails(t.predict("--out", os.path.join(t.TMP, "dangling.json")), 3, "is a link to nowhere/x.json")
    os.symlink("loop.json", os.path.join(t.TMP, "loop.json"))
    t.fails(t.predict("--plot", os.path.join(t.TMP, "loop.json")), 3, "loop.json")
    for name in ("dangling.json", "loop.json"):
        assert os.path.islink(os.path.join(t.TMP, name))
    out = os.path.join(t.TMP, "stdout.json")
    fd_link = os.path.join(t.TMP, "as-dev-stdout")  # as /dev/stdout is: a rename over it would break the machine
    os.symlink("/proc/self/fd/1", fd_link)
    with open(out, "wb") as f:
        t.done(t.predict("--out", fd_link, "--json", stdout=f))
    assert os.path.islink(fd_link) and json.load(open(out))["actions"]


@t.test
def what_is_there_but_of_the_wrong_kind_is_named():
    here, fifo = folder("kinds"), os.path.join(t.TMP, "kinds", "fifo")
    os.mkfifo(fifo)
    os.symlink("nowhere", os.path.join(here, "dangling"))
    for make in (lambda p: t.predict(state_file=p), lambda p: t.predict(image=p), lambda p: t.predict("--noise", p),
                 lambda p: t.predict(image=t.CAMERA + "=" + p), lambda p: t.gr00t("verify", t.DEMO, "--sums", p)):
        t.fails(make(fifo), 3, "fifo: is a FIFO, expected a regular file")
        t.fails(make(here), 3, "is a directory")
        t.fails(make(os.path.join(here, "dangling")), 3, "is a link to nowhere")
    for verb in (["inspect"], ["verify"], ["tokenize"], ["check"]):
        more = {"tokenize": ["x"], "check": [t.GOLDEN]}.get(verb[0], [])
        t.fails(t.gr00t(*verb, fifo, *more), 4, "fifo: is a FIFO, expected a folder")
        t.fails(t.gr00t(*verb, os.path.join(here, "none"), *more), 4, "none: no such folder")
        t.fails(t.gr00t(*verb, "", *more), 4, "name of a folder is empty")
    t.fails(t.predict(model=here), 4, "config.json: no such file")  # not the tokenizer, which comes later
    t.fails(t.predict("--out", "x" * 5000), 3, "File name too long")
    t.fails(t.gr00t("synth", "demo", "x" * 5000), 3, "File name too long")


@t.test
def a_golden_case_that_lies_about_a_type_exits_3():
    for key, file in (("image", "obs__json"), ("state_dtype", "obs__json"), ("seq_len", "expected__json"), ("n_text", "expected__json")):
        for value in (None, -1, [], {}, "float16"):
            case = t.golden_copy("types", **{file: t.edit_json(lambda d: d.update({key: value}))})
            t.fails(t.gr00t("check", t.DEMO, case), 3, "types/")
    t.fails(t.gr00t("check", t.DEMO, t.golden_copy("types", image__png=lambda d: d[:5000])), 3, "types/image.png", "truncated")


@t.test
def little_memory_is_one_line_and_exit_7():
    def limit(megabytes):
        return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    if t.gr00t("--version", before=limit(2000)).code != 0:
        raise t.Skip("the program cannot run with 2 GB of address space: a sanitizer")
    refused = 0
    least = next(m for m in range(8, 2000, 4) if t.gr00t("--version", before=limit(m)).code == 0)  # its libraries fit
    for megabytes in (least + m for m in (0, 6, 20, 40, 42, 44, 46, 48, 50, 52, 56, 60, 68, 76, 84)):
        for run in (t.predict("--threads", "2", before=limit(megabytes)), t.gr00t("inspect", t.DEMO, before=limit(megabytes)),
                    t.gr00t("synth", "demo", folder("memory"), before=limit(megabytes))):
            if run.code != 0:
                t.fails(run, 7)
                refused += 1
    assert refused > 10, refused
    t.equal([f for f in t.listing(os.path.join(t.TMP, "memory")) if ".tmp-" in f], [])


@t.test
def a_closed_terminal_leaves_nothing_half_written():
    if shutil.disk_usage(t.TMP).free < 8 << 30:
        raise t.Skip("needs 8 GB of free space")
    path = os.path.join(t.TMP, "hangup")
    p = subprocess.Popen([t.BIN, "synth", "full", path, "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert tap.after_cpu_s(p, 0.5), "ended before the signal"
    p.send_signal(signal.SIGHUP)
    p.communicate(timeout=60)
    t.equal(p.returncode, 130)
    t.equal([f for f in t.listing(path) if ".tmp-" in f], [])


if __name__ == "__main__":
    sys.exit(t.main())
