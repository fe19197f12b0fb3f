#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the camera frame of the demonstration: a robot's view of a kitchen counter with a plate and a pear.

    draw_demo_frame.py OUT.png [WIDTH HEIGHT]     default 256 256

Needs Pillow and numpy. The committed data/demo/frame.png was made by this script; drawing it again with another Pillow may
change some pixels, and with them the committed golden, so do that only together with tools/golden/make_demo_golden.py.
"""
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SCALE = 4  # drawn larger, then reduced: smooth edges


def vertical(size, top, bottom):
    w, h = size
    t = np.linspace(0.0, 1.0, h)[:, None, None]
    a = np.array(top)[None, None] * (1 - t) + np.array(bottom)[None, None] * t
    return Image.fromarray(np.broadcast_to(a, (h, w, 3)).astype(np.uint8).copy())


def shaded(size, mask, base, light, center, radius):
    """A round body: colour goes from `light` at `center` to `base` at `radius`."""
    w, h = size
    y, x = np.mgrid[0:h, 0:w]
    d = np.clip(np.hypot(x - center[0], y - center[1]) / radius, 0, 1)[..., None]
    colour = np.array(light) * (1 - d) + np.array(base) * d
    return Image.fromarray(colour.astype(np.uint8)), mask


def wall(im, s, px):
    d = ImageDraw.Draw(im)
    im.paste(vertical((px(256), px(92)), (206, 201, 190), (184, 178, 168)), (0, 0))
    for row in range(4):  # tiles, every second row shifted
        y = row * 23
        d.line([0, px(y), px(256), px(y)], fill=(160, 155, 146), width=s)
        for x in range(-16 if row % 2 else 0, 256, 32):
            d.line([px(x), px(y), px(x), px(y + 23)], fill=(160, 155, 146), width=s)
    d.rectangle([px(176), px(6), px(250), px(62)], fill=(92, 74, 58))  # cupboard
    d.rectangle([px(180), px(10), px(246), px(58)], fill=(116, 94, 72))
    d.ellipse([px(184), px(32), px(189), px(37)], fill=(214, 208, 196))
    d.rectangle([px(22), px(34), px(64), px(90)], fill=(63, 92, 104))  # jar
    d.rectangle([px(19), px(26), px(67), px(36)], fill=(150, 112, 70))
    d.rectangle([px(28), px(40), px(33), px(84)], fill=(98, 130, 142))


def counter(im, s, px):
    im.paste(vertical((px(256), px(164)), (151, 112, 78), (196, 152, 108)), (0, px(92)))
    d = ImageDraw.Draw(im)
    d.line([0, px(92), px(256), px(92)], fill=(96, 70, 48), width=2 * s)
    rng = np.random.RandomState(1600)
    for _ in range(46):  # grain of the wood, wider apart towards the viewer
        t = rng.rand()
        y = 95 + 161 * t * t
        x = rng.randint(0, 256)
        n = rng.randint(20, 120)
        shade = int(rng.randint(-14, 6))
        base = np.array((151, 112, 78)) * (1 - t) + np.array((196, 152, 108)) * t
        d.line([px(x), px(y), px(x + n), px(y + rng.randint(-1, 2))], fill=tuple(int(v + shade) for v in base), width=s)


def soft_shadow(im, box, blur, strength):
    mask = Image.new("L", im.size, 0)
    ImageDraw.Draw(mask).ellipse(box, fill=strength)
    mask = mask.filter(ImageFilter.GaussianBlur(blur))
    im.paste(Image.new("RGB", im.size, (40, 26, 16)), (0, 0), mask)


def plate(im, s, px):
    soft_shadow(im, [px(128), px(126), px(238), px(176)], 3 * s, 130)
    d = ImageDraw.Draw(im)
    for inset, colour in ((0, (226, 228, 232)), (2, (244, 245, 247)), (15, (214, 218, 224)), (17, (236, 238, 241))):
        d.ellipse([px(126 + inset), px(120 + inset * 0.42), px(232 - inset), px(168 - inset * 0.42)], fill=colour)
    d.arc([px(130), px(122), px(228), px(166)], 20, 160, fill=(70, 104, 168), width=s)


def pear(im, s, px):
    soft_shadow(im, [px(62), px(168), px(112), px(188)], 2.5 * s, 150)
    mask = Image.new("L", im.size, 0)
    d = ImageDraw.Draw(mask)
    d.ellipse([px(60), px(138), px(104), px(182)], fill=255)
    d.ellipse([px(70), px(114), px(94), px(146)], fill=255)
    d.polygon([px(64), px(150), px(70.5), px(130), px(93.5), px(130), px(100), px(150)], fill=255)
    body, mask = shaded(im.size, mask, (128, 146, 38), (226, 222, 110), (px(76), px(148)), px(36))
    im.paste(body, (0, 0), mask)
    d = ImageDraw.Draw(im)
    d.line([px(82), px(117), px(85), px(104)], fill=(84, 58, 34), width=int(2.6 * s))
    d.polygon([px(85), px(107), px(98), px(99), px(104), px(104), px(94), px(110)], fill=(74, 122, 48))
    d.ellipse([px(69), px(140), px(76), px(151)], fill=(244, 242, 190))


def hand(im, s, px, mirror):
    """A dark gripper that reaches in from the lower edge."""
    fx = (lambda x: px(256 - x)) if mirror else px
    d = ImageDraw.Draw(im)

    def limb(points, width, colour):
        pts = [(fx(x), px(y)) for x, y in points]
        d.line(pts, fill=colour, width=px(width), joint="curve")
        for x, y in pts:
            r = px(width) // 2
            d.ellipse([x - r, y - r, x + r, y + r], fill=colour)

    dark, light, ring = (44, 46, 52), (78, 82, 92), (196, 98, 38)
    limb([(4, 262), (34, 226)], 30, dark)
    limb([(4, 258), (34, 222)], 12, light)
    limb([(26, 236), (38, 222)], 25, ring)
    limb([(30, 231), (52, 208)], 25, dark)
    for tip in ((66, 186), (76, 194), (82, 205)):
        knuckle = ((52 + tip[0]) / 2 + 2, (208 + tip[1]) / 2 - 4)
        limb([(52, 208), knuckle, tip], 7.5, dark)
        limb([knuckle, tip], 3, light)
    limb([(46, 214), (40, 196), (48, 184)], 7.5, dark)


def draw(width, height):
    s = SCALE
    im = Image.new("RGB", (256 * s, 256 * s))
    px = lambda v: int(round(v * s))
    wall(im, s, px)
    counter(im, s, px)
    plate(im, s, px)
    pear(im, s, px)
    hand(im, s, px, False)
    hand(im, s, px, True)
    im = im.resize((width, height), Image.BOX if (width, height) == (256, 256) else Image.LANCZOS)
    a = np.asarray(im).astype(np.int16)  # sensor noise, so that neighbouring pixels differ
    noise = np.random.RandomState(7).choice([-1, 0, 0, 0, 0, 0, 1], (height, width, 1))
    a += noise.astype(np.int16)
    return Image.fromarray(np.clip(a, 0, 255).astype(np.uint8))


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    width, height = (int(v) for v in sys.argv[2:4]) if len(sys.argv) == 4 else (256, 256)
    draw(width, height).save(sys.argv[1], optimize=True)


if __name__ == "__main__":
    main()
