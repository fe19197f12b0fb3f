#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the small byte-level BPE vocabulary of the demo snapshot.

    train_vocabulary.py data/demo/corpus.txt data/demo/tokenizer [--size 1018]

Input: one text file, ASCII, written for this project. Output: vocab.json, merges.txt and added_tokens.json in the
layout of a Qwen2 tokenizer folder. Pure Python, deterministic: the same corpus gives the same bytes, so the
committed files can be made again and compared (--check).

The pieces are those of src/model/pretokenize.c; a merge never crosses the border of a piece. The pair with the
highest count wins, the smaller pair (by bytes of its text) on a tie.
"""
import argparse
import json
import os
import re
import sys

# The splitting expression of the tokenizer with ASCII classes; the corpus is checked to be ASCII.
SPLIT = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# What the prompt template needs, by name; ids follow the vocabulary in this order.
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<IMG_CONTEXT>", "<img>", "</img>"]


def byte_alphabet():
    """Printable stand-in of each byte: printable ones are themselves, the others U+0100, U+0101, ... in order."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for b in range(256):
        if b in keep:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


def count_pieces(text, alphabet):
    counts = {}
    for piece in SPLIT.findall(text):
        word = tuple(alphabet[b] for b in piece.encode("utf-8"))
        counts[word] = counts.get(word, 0) + 1
    return counts


def count_pairs(words):
    pairs = {}
    for word, n in words.items():
        for pair in zip(word, word[1:]):
            pairs[pair] = pairs.get(pair, 0) + n
    return pairs


def merge_word(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return tuple(out)


def train(text, size):
    alphabet = byte_alphabet()
    vocab = sorted(alphabet.values())
    known = set(vocab)
    words = count_pieces(text, alphabet)
    merges = []
    while len(vocab) < size:
        pairs = count_pairs(words)
        if not pairs:
            raise SystemExit("train_vocabulary: the corpus gives only %d tokens, %d wanted" % (len(vocab), size))
        pair = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(pair)
        joined = pair[0] + pair[1]
        if joined not in known:          # two pairs may join to the same text: one id, two merges
            known.add(joined)
            vocab.append(joined)
        merged = {}
        for word, n in words.items():
            word = merge_word(word, pair)
            merged[word] = merged.get(word, 0) + n
        words = merged
    return vocab, merges


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("corpus")
    ap.add_argument("out")
    ap.add_argument("--size", type=int, default=1018, help="tokens without the added ones (256 are single bytes)")
    ap.add_argument("--check", action="store_true", help="compare with the files in OUT instead of writing them")
    args = ap.parse_args()
    with open(args.corpus, encoding="ascii") as f:
        text = f.read()
    if args.size < 256:
        ap.error("--size must be at least 256")
    vocab, merges = train(text, args.size)
    files = {
        "vocab.json": json.dumps({t: i for i, t in enumerate(vocab)}, ensure_ascii=False, indent=0) + "\n",
        "merges.txt": "#version: 0.2\n" + "".join("%s %s\n" % m for m in merges),
        "added_tokens.json": json.dumps({t: len(vocab) + i for i, t in enumerate(ADDED)}, indent=2) + "\n",
    }
    for name, body in files.items():
        path = os.path.join(args.out, name)
        if args.check:
            with open(path, encoding="utf-8") as f:
                if f.read() != body:
                    print("%s differs from what the corpus gives" % path)
                    return 1
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(body)
    print("%d tokens, %d merges, %d added" % (len(vocab), len(merges), len(ADDED)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
