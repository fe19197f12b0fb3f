# SPDX-License-Identifier: Apache-2.0
"""random_images.py DRIVER [COUNT] [SEED]: pictures of random sizes through the image chain, every stage and the float planes
byte-equal to reference_numpy.image_stages. DRIVER is the program driver_image. Prints the number compared; exit code 1 at the
first difference."""
import random
import struct
import sys

import oracle

PUBLISHED = (256, 0.95)  # shortest_image_edge, crop_fraction
# One of each kind of resize, and the corners. Large ones are slow in the reference: only when many are asked for.
ALWAYS = [(256, 256), (64, 64), (512, 512), (768, 700), (257, 257), (255, 255), (101, 333), (334, 101), (64, 700), (480, 640)]
EXTREME = [(64, 4096), (4096, 64), (4096, 4096), (4095, 4095), (4096, 4095), (64, 4095), (2048, 2048), (2047, 3001)]


def sizes(rng, count):
    out = [] if count < 10 else ALWAYS[:count] + (EXTREME if count >= 500 else EXTREME[:2] if count >= 20 else [])
    while len(out) < count:
        kind = rng.random()
        if kind < 0.25:
            n = rng.randint(64, 600)
            out.append((n, n))
        elif kind < 0.30:
            n = 256 * rng.randint(1, 3)
            out.append((rng.randint(64, n), n))
        elif kind < 0.97 or count < 500:
            out.append((rng.randint(64, 420), rng.randint(64, 420)))
        else:
            out.append((rng.randint(64, 1500), rng.randint(64, 1500)))
    return out[:count]


def picture(np, gen, h, w):
    """Noise, flat colour, gradient, two levels, or neighbours that differ by one, whose mean is a rounding tie."""
    kind = gen.integers(5)
    if kind == 0:
        return gen.integers(0, 256, (h, w, 3), dtype=np.uint8)
    if kind == 1:
        return np.broadcast_to(gen.integers(0, 256, 3, dtype=np.uint8), (h, w, 3)).copy()
    if kind == 2:
        y, x = np.mgrid[0:h, 0:w]
        return np.stack([(x * 7 + y) & 255, (y * 5 + 3 * x) & 255, (x ^ y) & 255], 2).astype(np.uint8)
    if kind == 3:
        return (gen.integers(0, 2, (h, w, 3)) * 255).astype(np.uint8)
    return ties(np, h, w)


def ties(np, h, w):
    y, x = np.mgrid[0:h, 0:w]
    return np.stack([y * 254 // h + x % 2, x * 254 // w // 2 * 2 + y % 2, (x + y) % 2 + 100], 2).astype(np.uint8)


def compare(np, ref, driver_path, setting, pictures, seed):
    """All stages of all pictures through one driver; returns the number of bytes compared."""
    edge, fraction = setting
    driver = oracle.Driver(driver_path, "stages", str(edge), repr(fraction))
    n_bytes = 0
    for i, rgb in enumerate(pictures):
        h, w = rgb.shape[:2]
        driver.send(struct.pack("=ii", h, w), rgb.tobytes())
        want = ref.image_stages(rgb, edge, fraction)
        stages = [(n, want[n].shape[0], np.ascontiguousarray(want[n]).tobytes())
                  for n in ("letterbox", "resize256", "crop", "resize256b", "bicubic252")]
        pixels = np.ascontiguousarray(ref.pixel_values(want["bicubic252"]))
        assert pixels.dtype == np.float32
        stages.append(("pixel_values", pixels.shape[1], pixels.tobytes()))
        where = "picture %d (%dx%d, edge %d, crop %r, seed %d)" % (i, w, h, edge, fraction, seed)
        for name, side, data in stages:
            got_side = driver.get_int()
            if got_side != side:
                sys.exit("%s: %s has side %d, expected %d" % (where, name, got_side, side))
            if driver.get(len(data)) != data:
                sys.exit("%s: %s differs from the reference" % (where, name))
            n_bytes += len(data)
    driver.close()
    return n_bytes


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    ref = oracle.reference()
    import numpy as np
    rng, gen = random.Random(seed), np.random.default_rng(seed)
    n_bytes = compare(np, ref, sys.argv[1], PUBLISHED, (picture(np, gen, h, w) for h, w in sizes(rng, count)), seed)
    print("%d pictures, %d stages, %.1f MB compared with the reference: all bytes equal (seed %d)"
          % (count, 6 * count, n_bytes / 1e6, seed))
    # Other checkpoints bring other settings: edge of a multiple of 28 and not, crop of everything, up-scale and down-scale.
    settings = [(rng.choice([28, 100, 224, 252, 255, 270, 448, 512]), rng.choice([0.1, 0.5, 0.9, 0.95, 1.0])) for _ in range(count // 10)]
    for setting in settings:
        compare(np, ref, sys.argv[1], setting, (picture(np, gen, h, w) for h, w in sizes(rng, 3)), seed)
    # 1 / (28 / 2744) is not 98 in double: a whole ratio that takes the table.
    compare(np, ref, sys.argv[1], (28, 0.5), [ties(np, 2744, 2744)], seed)
    print("%d pictures with %d other settings compared: all bytes equal" % (3 * len(settings) + 1, len(settings) + 1))


if __name__ == "__main__":
    main()
