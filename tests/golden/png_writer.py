# SPDX-License-Identifier: Apache-2.0
"""A PNG writer for tests: every colour type, depth, filter and Adam7, which Pillow does not write."""
import random
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # samples a pixel of each colour type
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def filtered(rng, rows, bpp):
    """Rows of bytes with a random filter each."""
    out, prev = bytearray(), bytes(len(rows[0])) if rows else b""
    for row in rows:
        f = rng.randint(0, 4)
        out.append(f)
        left = bytes(bpp) + row[:-bpp] if len(row) > bpp else bytes(len(row))
        up_left = bytes(bpp) + prev[:-bpp] if len(row) > bpp else bytes(len(row))
        if f == 0:
            pred = bytes(len(row))
        elif f == 1:
            pred = left
        elif f == 2:
            pred = prev
        elif f == 3:
            pred = bytes((a + b) // 2 for a, b in zip(left, prev))
        else:
            pred = bytearray()
            for a, b, c in zip(left, prev, up_left):
                p = a + b - c
                pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
                pred.append(a if pa <= pb and pa <= pc else b if pb <= pc else c)
        out += bytes((v - q) & 255 for v, q in zip(row, pred))
        prev = row
    return bytes(out)


def pack_rows(np, a, depth):
    """[h, w, c] samples to rows of bytes."""
    h = a.shape[0]
    flat = a.reshape(h, -1)
    if depth == 16:
        return [r.astype(">u2").tobytes() for r in flat]
    if depth == 8:
        return [r.astype(np.uint8).tobytes() for r in flat]
    bits = ((flat[:, :, None] >> np.arange(depth - 1, -1, -1)) & 1).reshape(h, -1).astype(np.uint8)
    return [np.packbits(r).tobytes() for r in bits]


def image_data(np, samples, depth, lace=False, rng=random):
    """[h, w, channels] integers to the bytes that go through zlib."""
    bpp = max(1, samples.shape[2] * depth // 8)
    body = b""
    for x0, y0, dx, dy in ADAM7 if lace else [(0, 0, 1, 1)]:
        part = samples[y0::dy, x0::dx]
        if part.size:
            body += filtered(rng, pack_rows(np, part, depth), bpp)
    return body


def head(w, h, depth, ctype, lace=False):
    return SIGNATURE + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, ctype, 0, 0, int(lace)))


def png(np, samples, depth, ctype, lace=False, palette=b"", extra=b"", rng=random, level=9):
    """A whole file. extra: finished chunks that go before the data."""
    h, w = samples.shape[:2]
    return (head(w, h, depth, ctype, lace) + (chunk(b"PLTE", palette) if palette else b"") + extra +
            chunk(b"IDAT", zlib.compress(image_data(np, samples, depth, lace, rng), level)) + chunk(b"IEND", b""))
