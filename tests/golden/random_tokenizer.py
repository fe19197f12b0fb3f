# SPDX-License-Identifier: Apache-2.0
"""random_tokenizer.py DRIVER [COUNT] [SEED]: random multi-script texts, ids equal to Tokenizer.encode, prompt_ids and formalize of the
reference. DRIVER is the program driver_tokenizer. Vocabularies: Qwen2 of the shared folder, the demo's, and small random ones whose
merges are in an order no training would give. Prints the number compared; exit code 1 at the first difference."""
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import unicodedata

import oracle

RAW, PROMPT, VERBATIM, FORMALIZE = range(4)
GR_ERR_INPUT = 2

WORDS = "pick the pear from the counter and place it in the plate don't I'LL we'Ve 's'T'rE x_y 12 3.5 km/h user\n <image 1>".split(" ")
SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2007\u200a\u2028\u2029\u202f\u205f\u3000\u200b"
RANGES = [(0x20, 0x7e), (0xa0, 0x24f), (0x250, 0x36f), (0x370, 0x3ff), (0x400, 0x52f), (0x531, 0x58f), (0x590, 0x6ff), (0x900, 0xdff),
          (0xe00, 0xfff), (0x10a0, 0x10ff), (0x1100, 0x11ff), (0x13a0, 0x13fd), (0x1ab0, 0x1aff), (0x1c80, 0x1cff), (0x1dc0, 0x1fff),
          (0x2000, 0x2bff), (0x2c00, 0x2dff), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xa640, 0xa7ff), (0xac00, 0xd7a3), (0xf900, 0xfaff),
          (0xfb00, 0xfdff), (0xfe00, 0xffef), (0x10400, 0x104ff), (0x10c80, 0x10cff), (0x11000, 0x11fff), (0x16e40, 0x16e9f),
          (0x1d000, 0x1d7ff), (0x1e000, 0x1e9ff), (0x1f100, 0x1faff), (0x2f800, 0x2fa1f), (0, 0x1f), (0, 0x10ffff)]
MARKS = [c for c in range(0x300, 0x20000) if unicodedata.combining(chr(c))]
GREEK = "\u03a3\u03c3\u03c2\u0391\u03b1'.:\u0301\u00ad \u0130\u0131I\u0307\u1e9e\u2126\u212a\u212b"


def younger_classes(path):
    """Characters the tokenizer library calls letter or number and the reference's Python (Unicode 14) does not: the reference cannot
    judge them."""
    out = set()
    with open(path, encoding="ascii") as f:
        for line in f:
            part = line.rstrip("\n").split("\t")
            if part[0] in ("tok_letter", "tok_number"):
                want = "L" if part[0] == "tok_letter" else "N"
                for c in range(int(part[1], 16), int(part[2], 16) + 1):
                    if unicodedata.category(chr(c))[0] != want:
                        out.add(chr(c))
    return out


def random_char(rng):
    a, b = rng.choice(RANGES)
    return chr(rng.randint(a, b))


def random_part(rng, specials):
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice(WORDS)
    if kind == 3:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 6)))
    if kind == 4:
        a, b = rng.choice(RANGES)
        return "".join(chr(rng.randint(a, b)) for _ in range(rng.randint(1, 12)))
    if kind == 5:
        return random_char(rng) + "".join(chr(rng.choice(MARKS)) for _ in range(rng.randint(1, 8)))
    if kind == 6:
        return "".join(rng.choice(GREEK) for _ in range(rng.randint(1, 8)))
    if kind == 7:
        return "".join(chr(rng.choice([rng.randint(0x1100, 0x1112), rng.randint(0x1161, 0x1175), rng.randint(0x11a7, 0x11c2),
                                       0xac00 + 28 * rng.randrange(399)])) for _ in range(rng.randint(1, 6)))
    if kind == 8:
        return unicodedata.normalize("NFD", "".join(random_char(rng) for _ in range(4)))
    if kind == 9:
        return rng.choice(specials) if rng.random() < 0.7 else rng.choice(specials)[:-1]
    if kind == 10:
        return "'" + rng.choice(["s", "S", "\u017f", "t", "RE", "ve", "vE", "m", "ll", "lL", "d", "l", "r", "v", ""])
    return "".join(rng.choice("ab \n!'_1") for _ in range(rng.randint(1, 20)))


def random_text(rng, specials, banned):
    text = "".join(rng.choice(["", " "]) + random_part(rng, specials) for _ in range(rng.choice([1, 2, 3, 5, 8, 12])))
    return "".join(c for c in text if c not in banned and not 0xd800 <= ord(c) <= 0xdfff)


def random_vocabulary(ref, rng, folder):
    """256 bytes and merges over three letters in random rank order; every part and result gets a token."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    alphabet = [chr(b) for b in keep] + [chr(256 + i) for i in range(68)]
    tokens, merges = ["a", "b", "c"], set()
    for _ in range(rng.randint(5, 40)):
        pair = (rng.choice(tokens), rng.choice(tokens))
        merges.add(pair)
        if "".join(pair) not in tokens and len("".join(pair)) < 12:
            tokens.append("".join(pair))
    merges = [m for m in sorted(merges) if "".join(m) in tokens]
    rng.shuffle(merges)
    vocab = alphabet + tokens[3:]
    rng.shuffle(vocab)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<IMG_CONTEXT>", "<img>", "</img>", "<img", "ab<"]
    for name, data in (("vocab.json", json.dumps({t: i for i, t in enumerate(vocab)}, ensure_ascii=rng.random() < 0.5)),
                       ("merges.txt", "".join("%s %s\n" % m for m in merges)),
                       ("added_tokens.json", json.dumps({t: len(vocab) + i for i, t in enumerate(names)}))):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(data)
    return ref.Tokenizer(folder)


class Comparison:
    def __init__(self, ref, driver_path, folder, tok):
        self.ref, self.tok = ref, tok
        self.driver = oracle.Driver(driver_path, folder)
        self.folder = folder

    def ask(self, mode, text):
        data = text.encode("utf-8")
        self.driver.send(struct.pack("=ii", mode, len(data)), data)
        return self.driver.get_int()

    def ids(self, n):
        return list(struct.unpack("=%di" % n, self.driver.get(4 * n)))

    def expect(self, what, text, got, want):
        if got != want:
            print("%s of %s differs with %s" % (what, ascii(text), self.folder))
            print("reference: %s" % (want,))
            print("ours:      %s" % (got,))
            sys.exit(1)

    def raw(self, text):
        want = self.tok.encode(text)
        n = self.ask(RAW, text)
        self.expect("raw", text, self.ids(n) if n >= 0 else n, want)

    def formalize(self, text):
        n = self.ask(FORMALIZE, text)
        self.expect("formalize", text, self.driver.get(n) if n >= 0 else n, self.ref.formalize(text).encode("utf-8"))

    def prompt(self, text, formal):
        """The reference would match added tokens in the user's text, which our program must not: those texts are left out."""
        stripped = text.strip()
        cleaned = self.ref.formalize(stripped) if formal else stripped
        if self.tok.added_rx.search("user\n" + cleaned + "<image 1>"):
            return 0
        n = self.ask(PROMPT if formal else VERBATIM, text)
        if not cleaned.strip() or len(stripped) > 2000:
            self.expect("refusal", text, n, -GR_ERR_INPUT)
            return 1
        want, _ = self.ref.prompt_ids(self.tok, stripped, formal)
        empty, _ = self.ref.prompt_ids(self.tok, "", formal)
        if n < 0:
            self.expect("prompt", text, n, want)
        n_text = self.driver.get_int()
        self.expect("prompt", text, self.ids(n), want)
        self.expect("n_text", text, n_text, len(want) - len(empty))
        return 1


def run(cmp, rng, count, banned):
    done = 0
    specials = sorted(cmp.tok.added)
    for i in range(count):
        text = random_text(rng, specials, banned)
        if i % 50 == 49:
            text = (text * 40)[:rng.choice([1990, 2000, 2001, 2500])]
        cmp.raw(text)
        cmp.formalize(text)
        done += 2 + cmp.prompt(text, True) + cmp.prompt(text, False)
        # The table of what was seen would otherwise hold every random word.
        cmp.tok.cache.clear()
    cmp.driver.close()
    return done


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    ref = oracle.reference()
    if unicodedata.unidata_version != "14.0.0":
        oracle.skip("the reference needs a Python with Unicode 14, this one has %s" % unicodedata.unidata_version)
    spec = os.path.join(oracle.shared_root(), "spec")
    banned = younger_classes(os.path.join(spec, "unicode_tables.tsv"))
    rng = random.Random(seed)
    compared, n_small = 0, max(2, count // 100)
    for folder, n in ((os.path.join(spec, "tokenizer"), count // 2),
                      (os.path.join(oracle.source_root(), "data", "demo", "tokenizer"), count // 4)):
        compared += run(Comparison(ref, sys.argv[1], folder, ref.Tokenizer(folder)), rng, n, banned)
    for _ in range(n_small):
        folder = tempfile.mkdtemp()
        try:
            tok = random_vocabulary(ref, rng, folder)
            cmp = Comparison(ref, sys.argv[1], folder, tok)
            for _ in range(20):
                cmp.raw("".join(rng.choice("aabbc") for _ in range(rng.randint(1, 60))))
            compared += 20 + run(cmp, rng, count // 4 // n_small, banned)
        finally:
            shutil.rmtree(folder)
    print("%d texts, %d answers compared with the reference on %d vocabularies: all equal (seed %d)"
          % (count, compared, 2 + n_small, seed))


if __name__ == "__main__":
    main()
