#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures: which are taken, which are refused, and that what the model sees is what Pillow decodes.

Two pictures are the same to the model when their normalised chunks are equal bit for bit (the demo's network tells a single pixel apart).
In and out as serving.py says.
"""
import base64
import hashlib
import io
import json
import os
import struct
import time
import zlib

import serving as s
from serving import base, data, shared, test

s.Shared.args = ("--threads", 1)
FACTS = json.loads(data("image_facts.json"))
REFUSED = ("badcrc_idat.png", "bomb_20000x20000_1bit.png", "bomb_ihdr_only_65535x65535.png", "edge_4097x64.png", "edge_63x64.png", "not_an_image.png",
           "really_a_bmp.png", "really_a_gif.png", "really_a_webp.png", "truncated_60pct.jpg", "truncated_60pct.png")


def body(blob):
    return base(images={s.CAMERA: base64.b64encode(blob).decode()}, return_normalized=True)


def picture(name):
    return data("images", name)


def post(name):
    return shared().post(body(picture(name)))


def seen(reply):
    """What the model made of the picture."""
    doc = reply.is_(200).json()
    return doc["action_pred_normalized"], doc["actions"]


def refused(name, *parts):
    return post(name).error(400, *parts, field="images." + s.CAMERA)


def png(width, height, rgb, behind=b""):
    """A plain 8-bit RGB file, with more compressed data behind its last row."""
    def chunk(kind, blob):
        return struct.pack(">I", len(blob)) + kind + blob + struct.pack(">I", zlib.crc32(kind + blob))
    rows = b"".join(b"\0" + rgb[i * width * 3:(i + 1) * width * 3] for i in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows + behind, 1)) + chunk(b"IEND", b"")


def pillow():
    try:
        from PIL import Image
    except ImportError:
        raise s.Skip("Pillow is not installed (./setup.sh --test)") from None
    Image.MAX_IMAGE_PIXELS = None
    return Image


@test("IMG-01 IMG-14", "service and command line see the same picture")
def as_cli():
    for name in ("letterbox_640x480.png", "letterbox_480x640.png", "base_256.png", "odd_257x129.png", "aspect_4096x64.png", "aspect_64x4096.png", "baseline.jpg"):
        got = post(name).is_(200).json()
        want = s.predict_cli(None, image=os.path.join(s.DATA, "images", name))
        assert got["actions"] == want["actions"], f"{name}: service and `gr00t predict` differ"
        assert got["images"][s.CAMERA]["received_hw"] == FACTS[name]["pillow"]["hw"], f"{name}: {got['images']}"


@test("IMG-01", "a setting of the processor file is followed, an unsupported value ends the start")
def processor():
    def change(**kw):
        return s.edit_json(lambda d: d["processor_kwargs"].update(kw))
    with s.serve(model=s.copy_demo("crop90", processor_config__json=change(crop_fraction=0.9))) as server:
        other = server.post(base()).is_(200)
        assert other.actions() != s.base_actions(), "crop_fraction 0.9 changes nothing"
        want = s.predict_cli(s.path("crop90"))
        assert other.json()["actions"] == want["actions"]
    s.boot_fails(4, "use_albumentations", model=s.copy_demo("alb", processor_config__json=change(use_albumentations=False)))


@test("IMG-02", "red and blue are not swapped")
def channels():
    assert seen(post("base_256.png")) != seen(post("bgr_swapped.png"))
    red, blue = (png(64, 64, bytes(p) * 4096) for p in ((220, 20, 20), (20, 20, 220)))
    a, b = (seen(shared().post(body(x))) for x in (red, blue))
    assert a != b


@test("IMG-03", "a turn mark is not applied")
def exif():
    a, b = post("exif_orient6.jpg"), post("exif_none_same_pixels.jpg")
    assert seen(a) == seen(b), f"{a}\n{b}"
    hw = a.json()["images"][s.CAMERA]["received_hw"]
    assert hw == FACTS["exif_orient6.jpg"]["pillow"]["hw"], f"received_hw {hw}"


@test("IMG-04", "alpha is dropped, not blended")
def alpha():
    assert seen(post("rgba_opaque.png")) == seen(post("base_256.png"))
    post("rgba_hidden_noise.png").is_(200)


@test("IMG-05", "a bomb is refused from its header, without memory")
def bomb():
    shared().file("json", "base.json").is_(200)
    before = shared().memory_kb("VmHWM")
    refused("bomb_20000x20000_1bit.png", "20000", "4096")
    refused("bomb_ihdr_only_65535x65535.png", "65535", "4096")
    grown = shared().memory_kb("VmHWM") - before
    assert grown < 5 * 1024 or s.SANITIZED, f"peak memory grew by {grown} KB"


@test("IMG-05", "compressed data behind the last row are not inflated")
def tail():
    rgb = bytes(64 * 64 * 3)
    small = png(64, 64, rgb, bytes(1000))  # libpng reads it through, as Pillow does
    assert seen(shared().post(body(small))) == seen(shared().post(body(png(64, 64, rgb))))
    shared().post(body(png(64, 64, rgb, bytes(300 << 20)))).error(400, "behind the last row", field="images." + s.CAMERA)


@test("IMG-06", "sides of 64 and 4096 pass, 63 and 4097 do not")
def edges():
    shared().file("json", "base.json").is_(200)
    before = shared().memory_kb("RssAnon")
    r = post("edge_4096x4096.png").is_(200)
    assert r.json()["timing_ms"]["decode"] > 0
    end = time.monotonic() + s.HANG_S
    while shared().memory_kb("RssAnon") - before > 8 * 1024 and time.monotonic() < end and not s.SANITIZED:
        time.sleep(0.05)
    grown = shared().memory_kb("RssAnon") - before
    assert grown < 8 * 1024 or s.SANITIZED, f"{grown} KB kept after the largest picture"
    post("edge_64x64.png").is_(200)
    refused("edge_63x64.png", "63", "64")
    refused("edge_4097x64.png", "4097", "4096")


@test("IMG-07", "CMYK gives the right colours or is refused by name")
def cmyk():
    r = post("cmyk.jpg")
    if r.status != 200:
        r.error(400, "CMYK")


@test("IMG-08", "progressive, interlaced, 16-bit, grey and palette files decode")
def kinds():
    assert seen(post("progressive.jpg")) == seen(post("baseline.jpg"))
    plain = seen(post("base_256.png"))
    for name in ("interlaced_adam7.png", "rgb16.png"):
        assert seen(post(name)) == plain, name
    for name in ("gray8.png", "palette_trns.png"):
        post(name).is_(200)


@test("IMG-01 IMG-02 IMG-03 IMG-04 IMG-07 IMG-08", "every picture equals Pillow's pixels")
def equals_pillow():
    image = pillow()
    for name in sorted(FACTS):
        if name in REFUSED or name.startswith("edge_4096"):
            continue
        rgb = image.open(io.BytesIO(picture(name))).convert("RGB")
        pixels = rgb.tobytes()
        assert hashlib.sha256(pixels).hexdigest()[:12] == FACTS[name]["pillow"]["sha"], f"{name}: this Pillow decodes other pixels than the list says"
        want = seen(shared().post(body(png(rgb.width, rgb.height, pixels))))
        assert seen(post(name)) == want, f"{name}: other pixels than Pillow's"


@test("IMG-09", "a cut or damaged file is refused")
def cut():
    for name in ("truncated_60pct.jpg", "truncated_60pct.png", "badcrc_idat.png"):
        refused(name)
    for name in ("baseline.jpg", "progressive.jpg", "base_256.png", "interlaced_adam7.png"):
        blob = picture(name)
        for keep in (0, 1, 8, 24, 33, 100, len(blob) // 3, len(blob) // 2, len(blob) - len(blob) // 10):
            shared().post(body(blob[:keep])).error(400, field="images")


@test("IMG-10", "a data URL prefix is accepted, the bytes decide the type")
def data_url():
    got = shared().file("json", "data_url_png.json")
    assert got.actions() == s.base_actions()
    text = base64.b64encode(picture("base_256.png")).decode()
    for prefix in ("data:image/jpeg;base64,", "data:;base64,", "data:image/png;charset=x;base64,"):
        got = shared().post(base(images={s.CAMERA: prefix + text}))
        assert got.actions() == s.base_actions(), str(got)
    for prefix in ("data:image/png,", "data:", "data:image/png;base64", "DATA"):
        r = shared().post(base(images={s.CAMERA: prefix + text}))
        assert r.status == 400 or prefix == "DATA" and r.status in (200, 400), str(r)


@test("IMG-11", "white space inside base64 is accepted, any other byte is 400 with its place")
def wrapped():
    got = shared().file("json", "b64_wrapped_76.json")
    assert got.actions() == s.base_actions()
    r = shared().file("json", "b64_illegal_char.json").error(400, field="images")
    assert any(c.isdigit() for c in r.json()["error"]["message"]), str(r)
    text = base64.b64encode(picture("base_256.png")).decode()
    got = shared().post(base(images={s.CAMERA: "\r\n\t " + " ".join(text[:50]) + text[50:] + "\n"}))
    assert got.actions() == s.base_actions(), str(got)
    for bad in (text + "=", text[:-1] + "!", text[:100] + "=" + text[100:], text.replace("+", "-"), text[:-1] + "\u00e9", text[:101] + "\1" + text[101:], "", " "):
        shared().post(base(images={s.CAMERA: bad})).error(400, field="images")
    shared().post(base(images={s.CAMERA: text.rstrip("=")})).is_((200, 400))


@test("IMG-12", "a path or an address is never opened")
def paths():
    shared().file("json", "image_file_path.json").error(400, field="images")
    here = os.path.join(s.DATA, "images", "base_256.png")
    for text in (here, "file://" + here, "http://127.0.0.1:1/x.png", "/dev/zero", "/etc/passwd"):
        r = shared().post(base(images={s.CAMERA: text})).error(400, field="images")
        assert "root:" not in r.body.decode()
    refused("not_an_image.png")


@test("IMG-13", "GIF, WebP and BMP are refused with their names")
def foreign():
    for name, word in (("really_a_gif.png", "GIF"), ("really_a_webp.png", "WebP"), ("really_a_bmp.png", "BMP")):
        refused(name, word)
    for blob, word in ((b"II*\0" + bytes(100), ""), (b"%PDF-1.4" + bytes(100), ""), (b"<svg/>", ""), (bytes(100), "")):
        shared().post(body(blob)).error(400, word, field="images")


@test("IMG-14", "very long frames shrink without a zero row")
def aspects():
    for name in ("aspect_4096x64.png", "aspect_64x4096.png", "odd_257x129.png"):
        post(name).is_(200)


if __name__ == "__main__":
    s.main()
