#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the committed goldens of the demo snapshot with the numpy reference (developer tool).

    make_demo_golden.py SPEC_DIR SNAPSHOT_DIR DATA_DIR

SPEC_DIR      the specification folder with reference_numpy.py
SNAPSHOT_DIR  what `gr00t synth demo` wrote (uniform weights, seed 1600)
DATA_DIR      data/demo: frame.png, state.json and instruction.txt are read; golden/ and golden2/ are written

golden/   the demonstration itself: every tap but the DiT blocks of the middle steps
golden2/  another picture size, instruction, state type and explicit noise: fewer taps

Folder format: obs.json, image.png, inputs.safetensors, taps_fp32.safetensors, expected.json. Image stages are kept as
SHA-256 only. After a change of the demo snapshot: build, synth demo, run this, build again (the program embeds golden/).
"""
import hashlib
import json
import os
import re
import shutil
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def write_safetensors(path, tensors):
    header, at = {}, 0
    kinds = {"float32": "F32", "int32": "I32", "uint8": "U8"}
    for name, a in tensors.items():
        header[name] = {"dtype": kinds[a.dtype.name], "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())


def number(x):
    """Decimal of the double that equals the value: a reader gets the same float32 or float64 back."""
    return repr(float(x))


def json_rows(rows):
    return "[\n  " + ",\n  ".join("[" + ", ".join(number(v) for v in r) + "]" for r in rows) + "\n ]"


def write_obs(path, instruction, state, dtype, source):
    groups = ",\n  ".join(f'"{g}": [{", ".join(number(v) for v in values)}]' for g, values in state.items())
    with open(path, "w", encoding="utf-8") as f:
        f.write('{\n "image": "image.png",\n "instruction": %s,\n "state": {\n  %s\n },\n "state_dtype": "%s",\n %s\n}\n'
                % (json.dumps(instruction), groups, dtype, source))


def write_expected(path, seq_len, n_text, stages, actions):
    hashes = ",\n  ".join('"%s": {"shape": %s, "sha256": "%s"}' % (k, list(v.shape), hashlib.sha256(v.tobytes()).hexdigest())
                          for k, v in stages.items())
    groups = ",\n ".join('"%s": %s' % (g, json_rows(v)) for g, v in actions.items())
    with open(path, "w", encoding="utf-8") as f:
        f.write('{\n"seq_len": %d,\n"n_text": %d,\n"received_hw": %s,\n"image_stages": {\n  %s\n},\n"actions_fp32": {\n %s\n}\n}\n'
                % (seq_len, n_text, list(stages["rgb"].shape[:2]), hashes, groups))


def make(ref, W, tok, folder, instruction, state, dtype, seed, noise, keep):
    state = {g: np.asarray(v, dtype) for g, v in state.items()}
    rgb = ref.read_png(os.path.join(folder, "image.png"))
    actions, taps = ref.predict(W, tok, rgb, instruction, state, seed, noise)
    stages = ref.image_stages(rgb, W.proc["shortest_image_edge"], W.proc["crop_fraction"])
    ids = taps["input_ids"].astype(np.int32)
    n_text = len(ids) - len(ref.prompt_ids(tok, "")[0])
    inputs = {"noise": taps["noise"].astype(np.float32), "state": taps["state"], "input_ids": ids}
    write_safetensors(os.path.join(folder, "inputs.safetensors"), inputs)
    skip = ("input_ids", "state", "noise", "pixel_values")
    kept = {k: np.asarray(v, np.float32) for k, v in sorted(taps.items()) if k not in skip and keep(k)}
    write_safetensors(os.path.join(folder, "taps_fp32.safetensors"), kept)
    source = '"seed": %d' % seed if noise is None else '"noise": "inputs.safetensors:noise"'
    write_obs(os.path.join(folder, "obs.json"), instruction, state, dtype, source)
    write_expected(os.path.join(folder, "expected.json"), len(ids), n_text, stages, actions)
    a = np.concatenate(list(actions.values()), 1)
    outside = np.mean(np.abs(taps["action_pred"][:len(a), :a.shape[1]]) > 1)
    size = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))
    print(f"{os.path.basename(folder)}: S {len(ids)}, n_text {n_text}, {size} bytes; columns move by "
          f"{np.ptp(a, 0).min():.3g} .. {np.ptp(a, 0).max():.3g}; {100 * outside:.0f} % of the normalised actions outside [-1, 1]")
    return actions, taps


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    spec, snapshot, data = sys.argv[1:]
    sys.path.insert(0, spec)
    sys.path.insert(0, os.path.dirname(HERE))
    import draw_demo_frame
    import reference_numpy as ref
    W = ref.Snapshot(snapshot)
    tok = ref.Tokenizer(os.path.join(data, "tokenizer"))
    ref.IMG_CONTEXT = tok.added["<IMG_CONTEXT>"]  # the reference has the Qwen2 id

    folder = os.path.join(data, "golden")
    os.makedirs(folder, exist_ok=True)
    shutil.copyfile(os.path.join(data, "frame.png"), os.path.join(folder, "image.png"))
    instruction = open(os.path.join(data, "instruction.txt"), encoding="utf-8").read().strip()
    state = json.load(open(os.path.join(data, "state.json"), encoding="utf-8"))
    make(ref, W, tok, folder, instruction, state, "float32", 42, None, lambda k: not re.match(r"dit\.block.*step[12]$", k))

    folder = os.path.join(data, "golden2")
    os.makedirs(folder, exist_ok=True)
    draw_demo_frame.draw(180, 110).save(os.path.join(folder, "image.png"), optimize=True)
    rng = np.random.RandomState(2)
    state = {g: (np.asarray(v) + 0.1 * rng.standard_normal(len(v))).tolist() for g, v in state.items()}
    noise = (0.9 * rng.standard_normal((1, 50, 128))).astype(np.float32)
    make(ref, W, tok, folder, "Open the drawer; DON'T touch the 3rd jar!", state, "float64", None, noise,
         lambda k: re.match(r"vit\.out|mlp1\.out|llm|vlln|state_features|dit\.block[2-5]\.step0|dit\.out|velocity|action_pred", k))


if __name__ == "__main__":
    main()
