# SPDX-License-Identifier: Apache-2.0
"""random_decode.py DRIVER [COUNT] [SEED]: random PNG and JPEG files, decoded by gr_image_decode and by Pillow's convert("RGB"):
the same RGB bytes, or refused by both. DRIVER is the program driver_image.

JPEG files come from Pillow (grey, colour, CMYK; quality, subsampling, progressive, restarts, odd sizes), PNG files partly from
Pillow and partly from a small writer here, because Pillow does not write all of PNG: every colour type and depth, Adam7,
all filters, tRNS, gAMA, split IDAT. One file in eight is cut short, some have a wrong byte. Needs no reference, only Pillow and numpy."""
import io
import random
import struct
import sys
import warnings
import zlib

import oracle
import png_writer


def smooth(np, gen, h, w, c):
    """Something like a photograph: gradients with some noise."""
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([128 + 100 * np.sin(x / gen.uniform(5, 60) + gen.uniform(0, 6)) * np.cos(y / gen.uniform(5, 60)) for _ in range(c)], 2)
    return np.clip(a + gen.normal(0, gen.choice([0, 3, 30]), a.shape), 0, 255).astype(np.uint8)


def jpeg_file(np, Image, rng, gen, h, w):
    mode, c = rng.choice([("L", 1), ("RGB", 3), ("RGB", 3), ("RGB", 3), ("CMYK", 4)])
    a = smooth(np, gen, h, w, c)
    kw = {"quality": rng.randint(1, 100), "progressive": rng.random() < 0.4, "optimize": rng.random() < 0.3}
    if mode == "RGB":
        kw["subsampling"] = rng.choice([0, 1, 2])
    if rng.random() < 0.2:
        kw["exif"] = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0" + bytes([rng.randint(1, 8)]) + b"\0\0\0\0\0\0"
    f = io.BytesIO()
    Image.fromarray(a[:, :, 0] if c == 1 else a, mode).save(f, "JPEG", **kw)
    return f.getvalue(), "jpeg %s %s" % (mode, {k: v for k, v in kw.items() if k != "exif"})


def pillow_png(np, Image, rng, gen, h, w):
    mode = rng.choice(["1", "L", "LA", "RGB", "RGBA", "P"])
    a = smooth(np, gen, h, w, 4)
    img = Image.fromarray(a, "RGBA")
    img = img.convert("RGB").quantize(rng.choice([2, 4, 16, 200])) if mode == "P" else img.convert(mode)
    kw = {"transparency": rng.randint(0, 1)} if mode == "P" and rng.random() < 0.5 else {}
    f = io.BytesIO()
    img.save(f, "PNG", **kw)
    return f.getvalue(), "png %s %s" % (mode, kw)


def own_png(np, Image, rng, gen, h, w):
    ctype, depth = rng.choice([(0, 1), (0, 2), (0, 4), (0, 8), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8), (4, 8), (4, 16), (6, 8), (6, 16)])
    channels = png_writer.CHANNELS[ctype]
    top = 2 ** depth
    if ctype == 3:
        top = colours = rng.randint(1, top)
    a = gen.integers(0, top, (h, w, channels))
    lace = rng.random() < 0.5
    body = png_writer.image_data(np, a, depth, lace, rng)
    z = zlib.compress(body, rng.randint(0, 9))
    out = png_writer.head(w, h, depth, ctype, lace)
    extra = []
    if rng.random() < 0.3:
        out += png_writer.chunk(b"gAMA", struct.pack(">I", rng.randint(20000, 100000)))
        extra.append("gAMA")
    if ctype == 3:
        out += png_writer.chunk(b"PLTE", gen.integers(0, 256, (colours, 3), dtype=np.uint8).tobytes())
    if ctype in (0, 2, 3) and rng.random() < 0.5:
        extra.append("tRNS")
        out += png_writer.chunk(b"tRNS", gen.integers(0, 256, rng.randint(1, colours), dtype=np.uint8).tobytes() if ctype == 3 else
                     struct.pack(">H", rng.randrange(top)) * channels)
    cuts = sorted(rng.sample(range(1, len(z)), min(rng.randint(0, 3), len(z) - 1)))
    for lo, hi in zip([0] + cuts, cuts + [len(z)]):
        out += png_writer.chunk(b"IDAT", z[lo:hi])
    return out + png_writer.chunk(b"IEND", b""), "png type %d depth %d %s%s" % (ctype, depth, "Adam7 " if lace else "", extra)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    try:
        import numpy as np
        from PIL import Image, ImageFile
    except ImportError:
        oracle.skip("python3-numpy and python3-pil are not installed")
    ImageFile.MAXBLOCK = 1 << 22  # Pillow's writer fails on small buffers
    warnings.simplefilter("ignore")  # Pillow dislikes palettes with tRNS
    rng, gen = random.Random(seed), np.random.default_rng(seed)
    driver = oracle.Driver(sys.argv[1], "decode")
    equal = refused = 0
    for i in range(count):
        h, w = rng.randint(64, 200), rng.randint(64, 200)
        data, what = rng.choice([jpeg_file, jpeg_file, pillow_png, own_png])(np, Image, rng, gen, h, w)
        whole = len(data)
        if rng.random() < 0.125:
            data = data[:max(16, whole - rng.choice([1, 2, 3, rng.randint(1, whole)]))]
            what += " cut to %d of %d bytes" % (len(data), whole)
        elif rng.random() < 0.07:
            at = rng.randrange(20, whole)
            data = data[:at] + bytes([data[at] ^ rng.randint(1, 255)]) + data[at + 1:]
            what += " damaged at byte %d" % at
        try:
            want = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        except Exception as e:  # Pillow raises many kinds
            want, why = None, str(e)
        driver.send(struct.pack("=i", len(data)), data)
        got_h = driver.get_int()
        if got_h == 0:
            text = driver.get(driver.get_int()).decode()
            # Pillow takes a PNG once all rows are there; we insist on the checksum of the last data chunk.
            if want is not None and not (what.startswith("png") and ("cut" in what or "damaged" in what)):
                sys.exit("file %d (%s, seed %d): refused (%s), Pillow decodes it" % (i, what, seed, text))
            refused += 1
            continue
        got_w, _orientation = driver.get_int(), driver.get_int()
        got = driver.get(3 * got_h * got_w)
        if want is None:
            sys.exit("file %d (%s, seed %d): decoded, Pillow refuses it: %s" % (i, what, seed, why))
        if want.shape != (got_h, got_w, 3) or np.ascontiguousarray(want).tobytes() != got:
            sys.exit("file %d (%s, seed %d): pixels differ from Pillow's" % (i, what, seed))
        equal += 1
    driver.close()
    if equal < count // 2:
        sys.exit("only %d of %d files were decoded" % (equal, count))
    print("%d files compared with Pillow %s: %d with equal bytes, %d refused (seed %d)"
          % (count, Image.__version__, equal, refused, seed))


if __name__ == "__main__":
    main()
