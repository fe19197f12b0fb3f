#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The instruction: cleaning, counting, limits. Counts with the Qwen2 vocabulary where it is at hand, forms with the demo's own.

In and out as serving.py says.
"""
import subprocess

import serving as s
from serving import base, shared, test

s.Shared.args = ("--threads", 1)
QWEN = {}


def qwen():
    """A tiny snapshot with the Qwen2 vocabulary."""
    folder = s.tree_tokenizer()
    if "server" not in QWEN:
        model = s.path("tiny")
        subprocess.run([s.BIN, "synth", "tiny", model], check=True, env=s.clean_env(), stdout=subprocess.DEVNULL, timeout=600)
        QWEN["server"] = s.serve("--threads", 2, "--tokenizer", folder, model=model)
        QWEN["base"] = QWEN["server"].file("json", "base.json").is_(200)
    return QWEN["server"]


def count(name, tokens):
    r = qwen().file("json", name).is_(200)
    got = r.json()
    assert got["prompt_tokens"] == tokens, f"{name}: {got['prompt_tokens']} tokens, expected {tokens}: {r}"
    return r


def ids(text):
    """Token ids of the cleaned instruction from the command line."""
    run = subprocess.run([s.BIN, "tokenize", s.path("tiny"), text, "--tokenizer", s.tree_tokenizer(), "--json"], env=s.clean_env(), capture_output=True,
                         timeout=4 * s.HANG_S * s.SLACK)
    assert run.returncode == 0, run.stderr
    return s.strict_json(run.stdout)


@test("PR-01", "case and punctuation do not matter")
def cleaning():
    same = shared().file("json", "prompt_case_punct.json")
    assert same.actions() == s.base_actions(), str(same)
    padded = shared().post(base(instruction=" \n\t" + base()["instruction"] + " \u3000\n"))
    assert padded.actions() == s.base_actions(), str(padded)


@test("PR-01", "base.json has 12 tokens and sequence 116 with the Qwen2 vocabulary")
def qwen_base():
    r = count("prompt_case_punct.json", 12)
    count("base.json", 12)
    assert r.actions() == QWEN["base"].actions()
    assert r.json()["seq_len"] == 116, str(r)
    assert r.json()["embodiment_id"] == 20, str(r)


@test("PR-02", "digits and inner white space count as in the reference")
def qwen_space():
    count("prompt_inner_space.json", 7)
    got = qwen().post(base(instruction="pick 12 pears")).is_(200).json()
    assert got["prompt_tokens"] == 6, got["prompt_tokens"]


@test("PR-03", "accents, Chinese and a pear count as in the reference")
def qwen_scripts():
    for name, n in (("prompt_accent_nfc.json", 5), ("prompt_accent_nfd.json", 5), ("prompt_cjk.json", 7), ("prompt_emoji_tail.json", 2)):
        count(name, n)


@test("PR-04", "24 tokens pass, 25 are 400 with both numbers")
def qwen_limit():
    count("prompt_24_tokens.json", 24)
    qwen().file("json", "prompt_25_tokens.json").error(400, "n_text", "L_max", "25", "24", field="instruction")


@test("PR-04", "the limit holds with the demo's vocabulary too")
def demo_limit():
    texts = ["pick " * n for n in range(1, 60)]
    seen = {}
    for text in texts:
        r = shared().post(base(instruction=text))
        if r.status != 200:
            r.error(400, "n_text", "exceeds L_max", "24", field="instruction")
            break
        seen[r.json()["prompt_tokens"]] = r.json()["seq_len"]
    assert r.status == 400 and max(seen) <= 24, f"{max(seen)} tokens passed, then {r}"
    assert len({length - n for n, length in seen.items()}) == 1, f"n_text is not S - S(empty): {seen}"


@test("PR-05", "empty, blank, punctuation only and 2001 characters are refused alike")
def empty():
    first = shared().post(base(instruction="")).error(400, field="instruction")
    for name in ("prompt_only_punct.json", "prompt_blank.json"):
        r = shared().file("json", name).error(400, field="instruction")
        assert r.json()["error"]["message"] == first.json()["error"]["message"], f"{r}\n{first}"
    shared().file("json", "prompt_2001_chars.json").error(400, "2001", "2000", field="instruction")
    for text in ("\u0301", "\u3000", "...", "\u00a0"):
        shared().post(base(instruction=text)).error(400, field="instruction")
    shared().post(base(instruction="_")).is_(200)
    # characters, not bytes: 2000 of four bytes are over the tokens, not over the length
    r = shared().post(base(instruction="\U00020000" * 2000)).error(400, field="instruction")
    assert "L_max" in r.json()["error"]["message"], str(r)


@test("PR-06", "chat markup in the text is text")
def markup():
    r = count("prompt_chat_markup.json", 3)
    assert r.json()["seq_len"] == 107, str(r)
    qwen().file("json", "prompt_escape_not_newline.json").is_(200)
    for text in ("<|im_end|> pick", "<image 1> pick", "<img></img> pick", "<IMG_CONTEXT> pick"):
        qwen().post(base(instruction=text)).is_(200)


@test("PR-02 PR-03 PR-06", "token ids equal the reference's")
def qwen_ids():
    qwen()
    want = {"pick 12 pears": [29245, 220, 16, 17, 281, 7444], "pick  the\tpear\nnow": [29245, 220, 279, 197, 8015, 198, 3328],
            "Pick up the caf\u00e9 cup": [29245, 705, 279, 51950, 10525], "<|im_end|> pick": [318, 6213, 3735]}
    for text, part in want.items():
        doc = ids(text)
        flat = doc["ids"] if "ids" in doc else doc
        numbers = [x["id"] if isinstance(x, dict) else x for x in flat]
        assert any(numbers[i:i + len(part)] == part for i in range(len(numbers))), f"{text!r}: {part} is not in {numbers}"


@test("", "the Qwen2 server ends with 0 and a clean log")
def finish():
    if "server" not in QWEN:
        raise s.Skip("the Qwen2 vocabulary (GR00T_SHARED/spec/tokenizer) is not there")
    QWEN["server"].stop()


if __name__ == "__main__":
    s.main()
