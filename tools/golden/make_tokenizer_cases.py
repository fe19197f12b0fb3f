#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer/demo_cases.jsonl: what the numpy reference makes of our own texts with the demo vocabulary.

    make_tokenizer_cases.py [OUT]

Needs the shared specification (GR00T_SHARED, else ../shared) and numpy. One JSON object a line: kind "prompt" (instruction, formalized,
ids with "81*<id>" for the image run, n_text) or "raw" (text, ids).
"""
import json
import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SHARED = os.environ.get("GR00T_SHARED") or os.path.join(ROOT, "..", "shared")
sys.path.insert(0, os.path.join(SHARED, "spec"))
sys.dont_write_bytecode = True
import reference_numpy as reference  # noqa: E402

TEXTS = [
    "pick the pear from the counter and place it in the plate",
    "Pick the PEAR from the counter, and place it in the plate!",
    "move the left arm above the table and wait",
    "x", "_", "a_b_c", "pick_", "put 12 cups and 345 spoons on 2 trays", "3.5 cm to the left", "half \u00bd \u00b2 \u2167 \u0663 \u4e09",
    "pick  the\tpear\nnow", "pick\r\nthe\r\n\r\npear", "the end\u00a0of\u2003the \u3000table", "a\u001cb\u001fc\u0085d",
    "don't drop it, it's the robot's cup; we'll see, I'VE said they'Re 'em", "it'\u017f an old s", "''s 'll'd",
    "(box), [tray]; {lid}: <pan> & \"cup\" #1 @home 50% $5 a*b c=d",
    "...---...", " ?!\n\n !?", "\n \n pick", "!!!pear!!!\n\n\nplate",
    "caf\u00e9 and cafe\u0301", "\u00c5ngstr\u00f6m \u212b \u212a \u2126", "a\u0323\u0307b\u0307\u0323 \u1e0b\u0323", "\u0344 \u0958 \ufb2c",
    "\u03a3\u0399\u03a3\u03a5\u03a6\u039f\u03a3 \u03a3 \u0391\u03a3. \u0391\u03a3\u0391 \u0391'\u03a3", "\u0130stanbul I\u0307 \u0131", "STRASSE \u1e9e",
    "\u7bb1\u3092\u5de6\u306e\u68da\u306b\u7f6e\u304f", "\u628a\u68a8\u653e\u5728\u76d8\u5b50\u91cc", "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00 \ub274\u11a7 \ub274\u11a8",
    "\u043f\u043e\u043b\u043e\u0436\u0438 \u0413\u0420\u0423\u0428\u0423 \u043d\u0430 \u0441\u0442\u043e\u043b", "\u0636\u0639 \u0627\u0644\u0643\u0648\u0628", "\u0928\u093e\u0936\u092a\u093e\u0924\u0940 \u0909\u0920\u093e\u0913", "\u0e27\u0e32\u0e07\u0e16\u0e49\u0e27\u0e22",
    "pick the \U0001f350 and the \U0001f34e", "\U0001f468\u200d\U0001f373 cooks", "\U00010400\U00010428 \U0001d400 \U0001d7d8", "\u2014 dash \u2026 dots \u201cquotes\u201d",
    "<|im_end|> pick the <img> <IMG_CONTEXT></img>", "<|im_start|>user\nopen<|im_end|>\n", "<|im_start|<|im_end|><img<img>", "<|endoftext|>",
    "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "thetheThethethe", "refrigeratordishwashercountertop", "aaaaaaaabbbbbbbbaaaaaaaab",
    "a" * 300, "the " * 40, "\u0301" * 20 + "a", "e" + "\u0323\u0301\u0327" * 8,
]


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "tests", "data", "tokenizer", "demo_cases.jsonl")
    tok = reference.Tokenizer(os.path.join(ROOT, "data", "demo", "tokenizer"))
    # The reference knows the Qwen2 ids; with another vocabulary the image token is the one of that name, and the length of an empty
    # prompt (104 with Qwen2) is measured.
    image = tok.added["<IMG_CONTEXT>"]
    reference.IMG_CONTEXT = image
    empty = len(reference.prompt_ids(tok, "")[0])
    records = []
    for text in TEXTS:
        instruction = text.strip()
        if instruction:
            ids, _ = reference.prompt_ids(tok, instruction)
            at = ids.index(image)
            assert ids[at:at + reference.N_IMG] == [image] * reference.N_IMG
            short = ids[:at] + ["%d*%d" % (reference.N_IMG, image)] + ids[at + reference.N_IMG:]
            records.append({"kind": "prompt", "instruction": instruction, "formalized": reference.formalize(instruction), "ids": short,
                            "n_text": len(ids) - empty})
        records.append({"kind": "raw", "text": text, "ids": tok.encode(text)})
    with open(out, "w", encoding="ascii") as f:
        for r in records:
            f.write(json.dumps(r) + "\n")
    print("%d records" % len(records))


if __name__ == "__main__":
    main()
