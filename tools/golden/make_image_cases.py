#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_image_cases.py: draws the pictures of tests/data/images and writes cases.tsv beside them.

One line a picture: name, "ok", width, height, EXIF orientation, then the SHA-256 of the RGB bytes as Pillow's convert("RGB")
gives them, of the five stages and of the float planes as the reference computes them; or name, "refuse" and a part of the
message. Needs Pillow, numpy and the reference (GR00T_SHARED). Run it again only to add cases: files must stay as they are."""
import hashlib
import io
import os
import random
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageDraw

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
import oracle  # noqa: E402
import png_writer  # noqa: E402

OUT = os.path.join(ROOT, "tests", "data", "images")
STAGES = ["rgb", "letterbox", "resize256", "crop", "resize256b", "bicubic252"]
rng = random.Random(20)


def scene(w, h, mode="RGB"):
    """A table with coloured things on it: flat areas, edges at odd places, a gradient."""
    a = np.zeros((h, w, 3), np.uint8)
    y, x = np.mgrid[0:h, 0:w]
    a[..., 0], a[..., 1], a[..., 2] = 200 - 120 * y // h, 190 - 60 * x // w, 90 + 100 * y // h
    img = Image.fromarray(a, "RGB")
    d = ImageDraw.Draw(img)
    d.rectangle([0, h * 2 // 3, w, h], fill=(120, 84, 50))
    for i, colour in enumerate([(220, 30, 30), (30, 160, 60), (20, 60, 210), (240, 220, 40), (255, 255, 255)]):
        r = max(3, min(w, h) * (9 - i) // 60)
        cx, cy = w * (2 * i + 1) // 10, h * (50 + 7 * (i % 3)) // 80
        d.ellipse([cx - r, cy - r, cx + r, cy + r], fill=colour, outline=(0, 0, 0))
        d.line([cx, 0, w - cx, h], fill=tuple(255 - c for c in colour))
    return img.convert(mode)


def noisy(w, h):
    return Image.fromarray(np.random.default_rng(w * 5000 + h).integers(0, 256, (h, w, 3), dtype=np.uint8), "RGB")


def saved(img, fmt, **kw):
    f = io.BytesIO()
    img.save(f, fmt, **kw)
    return f.getvalue()


def exif(order, tag_type, value):
    """An EXIF block with the orientation entry between two others."""
    e = "<" if order == "II" else ">"
    entry = struct.pack(e + "HHIH", 0x0112, tag_type, 1, value) + b"\0\0"
    return (b"Exif\0\0" + order.encode() + struct.pack(e + "HIH", 42, 8, 3) + struct.pack(e + "HHII", 0x0100, 4, 1, 9) + entry +
            struct.pack(e + "HHII", 0x011A, 4, 1, 9) + struct.pack(e + "I", 0))


def png_cases():
    for w, h in [(256, 256), (257, 257), (255, 255), (64, 64), (333, 101), (101, 334), (640, 480)]:
        yield "rgb_%dx%d.png" % (w, h), saved(scene(w, h), "PNG", optimize=True)
    flat = scene(96, 96).quantize(6, dither=0)  # few colours: the two large ones stay small
    yield "whole2_512x512.png", saved(flat.resize((512, 512), 0), "PNG", optimize=True)
    yield "whole3_700x768.png", saved(flat.resize((700, 768), 0), "PNG", optimize=True)
    yield "noise_70x66.png", saved(noisy(70, 66), "PNG")
    wide = np.zeros((64, 4096, 3), np.uint8)
    wide[:, ::37] = 255
    wide[20:30] = (10, 200, 90)
    yield "wide_4096x64.png", saved(Image.fromarray(wide), "PNG", optimize=True)
    yield "tall_64x4096.png", saved(Image.fromarray(wide.transpose(1, 0, 2).copy()), "PNG", optimize=True)
    grey = np.asarray(scene(90, 80, "L")).astype(int)[:, :, None]
    for depth in (1, 2, 4, 8):
        trns = png_writer.chunk(b"tRNS", struct.pack(">H", 1)) if depth != 4 else b""
        yield "grey%d_90x80.png" % depth, png_writer.png(np, grey >> (8 - depth), depth, 0, extra=trns, rng=rng)
    rgb = np.asarray(scene(84, 71)).astype(int)
    alpha = np.random.default_rng(1).integers(0, 256, (71, 84, 1))
    deep = (rgb << 8) + (rgb * 37 + 200) % 256  # low bytes that would round up
    index = np.asarray(scene(84, 71).quantize(16)).astype(int)[:, :, None]
    palette = np.random.default_rng(2).integers(0, 256, (16, 3), dtype=np.uint8).tobytes()
    gamma = png_writer.chunk(b"gAMA", struct.pack(">I", 100000))
    yield "rgb_gamma_trns_84x71.png", png_writer.png(np, rgb, 8, 2, extra=gamma + png_writer.chunk(b"tRNS", struct.pack(">3H", 220, 30, 30)), rng=rng)
    yield "rgba_84x71.png", png_writer.png(np, np.concatenate([rgb, alpha], 2), 8, 6, rng=rng)
    yield "grey_alpha_84x71.png", png_writer.png(np, np.concatenate([rgb[..., :1], alpha], 2), 8, 4, rng=rng)
    yield "rgb16_84x71.png", png_writer.png(np, deep, 16, 2, rng=rng)
    yield "rgba16_84x71.png", png_writer.png(np, np.concatenate([deep, alpha * 257], 2), 16, 6, lace=True, rng=rng)
    yield "grey_alpha16_84x71.png", png_writer.png(np, np.concatenate([deep[..., :1], alpha * 257], 2), 16, 4, rng=rng)
    yield "adam7_84x71.png", png_writer.png(np, rgb, 8, 2, lace=True, rng=rng)
    for depth in (1, 2, 4, 8):
        part = palette[:3 * min(16, 2 ** depth)]
        trns = png_writer.chunk(b"tRNS", bytes([0, 128]))
        yield "palette%d_84x71.png" % depth, png_writer.png(np, index % 2 ** depth, depth, 3, lace=depth == 2, palette=part, extra=trns, rng=rng)
    plain = png_writer.png(np, rgb, 8, 2, rng=rng)
    yield "no_iend_84x71.png", plain[:-12]


def jpeg_cases():
    yield "jpeg444_120x97.jpg", saved(scene(120, 97), "JPEG", quality=92, subsampling=0)
    yield "jpeg422_121x90.jpg", saved(scene(121, 90), "JPEG", quality=75, subsampling=1)
    yield "jpeg420_131x99.jpg", saved(scene(131, 99), "JPEG", quality=85, subsampling=2)
    yield "jpeg420_640x480.jpg", saved(scene(640, 480), "JPEG", quality=60, subsampling=2)
    yield "progressive_131x99.jpg", saved(scene(131, 99), "JPEG", quality=85, subsampling=2, progressive=True)
    yield "grey_100x75.jpg", saved(scene(100, 75, "L"), "JPEG", quality=80)
    yield "cmyk_100x75.jpg", saved(scene(100, 75, "CMYK"), "JPEG", quality=90)
    yield "quality5_100x75.jpg", saved(scene(100, 75), "JPEG", quality=5)
    for order in ("II", "MM"):
        for value in (3, 6) if order == "II" else (8,):
            yield "exif%d_%s_100x75.jpg" % (value, order.lower()), saved(scene(100, 75), "JPEG", quality=70, exif=exif(order, 3, value))
    yield "exif_value9_100x75.jpg", saved(scene(100, 75), "JPEG", quality=70, exif=exif("II", 3, 9))
    yield "exif_long_100x75.jpg", saved(scene(100, 75), "JPEG", quality=70, exif=exif("MM", 4, 6))


def refused_cases(ok):
    small = Image.new("RGB", (64, 63), (9, 8, 7))
    yield "refuse_64x63.png", saved(small, "PNG"), "64x63 pixels, sides must be 64..4096"
    yield "refuse_63x64.jpg", saved(small.rotate(90, expand=True), "JPEG"), "63x64 pixels, sides must be 64..4096"
    yield "refuse_4097x64.png", saved(Image.new("1", (4097, 64)), "PNG"), "4097x64 pixels, sides must be 64..4096"
    yield "refuse_64x4097.jpg", saved(Image.new("L", (64, 4097)), "JPEG", quality=1), "64x4097 pixels, sides must be 64..4096"
    bomb = png_writer.head(20000, 20000, 1, 0) + png_writer.chunk(b"IDAT", zlib.compress(bytes(2501 * 4000), 9))
    yield "refuse_bomb.png", bomb, "20000x20000 pixels"
    yield "refuse_bomb_header.png", png_writer.head(2**31 - 1, 2**31 - 1, 16, 6), "2147483647x2147483647 pixels"
    grey = (np.arange(70 * 64).reshape(64, 70, 1) * 13) % 65536
    yield "refuse_grey16.png", png_writer.png(np, grey, 16, 0, rng=rng), "16-bit grey"
    plain = ok["adam7_84x71.png"]
    at = plain.index(b"IDAT")
    yield "refuse_crc_data.png", plain[:-13] + bytes([plain[-13] ^ 1]) + plain[-12:], "CRC"
    yield "refuse_crc_header.png", plain[:29] + bytes([plain[29] ^ 1]) + plain[30:], "CRC"
    yield "refuse_zlib.png", plain[:at + 4] + b"\xff\xff" + plain[at + 6:], "damaged"
    yield "refuse_truncated.png", plain[:len(plain) * 3 // 5], "truncated"
    yield "refuse_short_header.png", plain[:20], "truncated"
    yield "refuse_signature_only.png", plain[:5], "truncated"
    yield "refuse_no_palette.png", png_writer.png(np, grey % 2, 8, 3, rng=rng), "PLTE"
    yield "refuse_text_mode.png", plain[:300].replace(b"\r\n", b"\n"), "transfer in text mode"
    for name in ("jpeg420_131x99.jpg", "progressive_131x99.jpg", "cmyk_100x75.jpg"):
        yield "refuse_cut_" + name, ok[name][:len(ok[name]) * 3 // 5], "truncated"
    yield "refuse_no_end_marker.jpg", ok["progressive_131x99.jpg"][:-2], "truncated"
    base = ok["jpeg444_120x97.jpg"]
    sof = base.index(b"\xff\xc0")
    yield "refuse_bomb.jpg", base[:sof + 5] + struct.pack(">HH", 65000, 65000) + base[sof + 9:], "65000x65000 pixels"
    yield "refuse_12bit.jpg", base[:sof + 4] + b"\x0c" + base[sof + 5:], "precision"
    yield "refuse_soi_only.jpg", b"\xff\xd8\xff", "truncated"
    for fmt, word in [("GIF", "a GIF file"), ("BMP", "a BMP file"), ("WEBP", "a WebP file"), ("TIFF", "a TIFF file"),
                      ("ICO", "an ICO file"), ("PPM", "a PNM file"), ("JPEG2000", "a JPEG 2000 file")]:
        try:
            yield "refuse_really_a_%s.png" % fmt.lower(), saved(Image.new("RGB", (64, 64), (1, 2, 3)), fmt)[:2000], word
        except (KeyError, OSError) as e:
            sys.exit("this Pillow cannot write %s: %s" % (fmt, e))
    yield "refuse_avif.png", b"\0\0\0\x20ftypavif\0\0\0\0avifmif1", "an AVIF file"
    yield "refuse_heic.jpg", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "a HEIC file"
    yield "refuse_svg.png", b'\xef\xbb\xbf\n<?xml version="1.0"?>\n<SVG xmlns="http://www.w3.org/2000/svg" width="256" height="256"/>\n', "an SVG file"
    yield "refuse_html.png", b"<!DOCTYPE html>\n<title>404</title>\n", "an HTML page"
    yield "refuse_json.png", b'{"error": "camera is busy"}', "JSON text"
    yield "refuse_text.png", b"this is not an image\n", "is text"
    yield "refuse_base64.png", b"iVBORw0KGgoAAAANSUhEUgAAAQAAAAEA", "base64 text of a PNG"
    yield "refuse_binary.png", bytes(range(3, 40)), "unknown type (37 bytes, first ones 03 04 05 06 07 08 09 0a)"
    yield "refuse_empty.png", b"", "image is empty"


def sha(a):
    return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()


def main():
    ref = oracle.reference()
    os.makedirs(OUT, exist_ok=True)
    lines, ok, total = [], dict(list(png_cases()) + list(jpeg_cases())), 0
    for name, data in ok.items():
        img = Image.open(io.BytesIO(data))
        turned = dict(img.getexif()).get(0x0112, 1) if name.startswith("exif") and name[4] in "368" else 1
        stages = ref.image_stages(np.asarray(img.convert("RGB")))
        h, w = stages["rgb"].shape[:2]
        sums = [sha(stages[s]) for s in STAGES] + [sha(ref.pixel_values(stages["bicubic252"]))]
        lines.append("\t".join([name, "ok", str(w), str(h), str(turned)] + sums))
    refused = list(refused_cases(ok))
    lines += ["\t".join([name, "refuse", text]) for name, _, text in refused]
    for name, data in list(ok.items()) + [r[:2] for r in refused]:
        with open(os.path.join(OUT, name), "wb") as f:
            f.write(data)
        total += len(data)
    with open(os.path.join(OUT, "cases.tsv"), "w") as f:
        f.write("# made by tools/golden/make_image_cases.py\n" + "\n".join(lines) + "\n")
    print("%d pictures to decode, %d to refuse, %d bytes" % (len(ok), len(refused), total))


if __name__ == "__main__":
    main()
