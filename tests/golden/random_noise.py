# SPDX-License-Identifier: Apache-2.0
"""random_noise.py DRIVER [COUNT] [SEED]: noise of random seeds, bit-equal to reference_numpy.gauss_noise. DRIVER is the program
driver_noise. Prints the number compared; exit code 1 at the first difference."""
import random
import struct
import sys

import oracle

ALWAYS = [0, 1, 5, 42, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 2**53, 2**63 - 1]


def noise(ref, np, seed, n):
    """gauss_noise for any n >= 16: behind the full blocks the generator draws for the rest, drops that, and fills the last 16 anew."""
    rest = n % 16
    if rest == 0:
        return ref.gauss_noise(seed, (n,))
    F = np.float32
    u = ((ref.mt19937(seed, n + 16) & 0xFFFFFF).astype(F) * F(2.0 ** -24))[n:]
    r = np.sqrt(F(-2) * ref._log8(F(1) - u[:8]))
    s, c = ref._sincos8(F(6.283185307179586) * u[8:])
    return np.concatenate([ref.gauss_noise(seed, (n - rest,)), np.zeros(rest, F)])[:n - 16].tolist() + [*(r * c), *(r * s)]


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    ref = oracle.reference()
    import numpy as np
    rng = random.Random(seed)
    driver = oracle.Driver(sys.argv[1])
    seeds = (ALWAYS + [rng.randrange(2 ** rng.choice((16, 32, 48, 63))) for _ in range(max(0, count - len(ALWAYS)))])[:count]
    n_values = 0
    for s in seeds:
        n = 6400 if rng.random() < 0.7 else rng.randint(16, 16000)
        driver.send(struct.pack("=QQ", s, n))
        want = np.ascontiguousarray(noise(ref, np, s, n), np.float32)
        assert want.dtype == np.float32
        if driver.get(4 * n) != want.tobytes():
            sys.exit("noise of seed %d (%d values) differs from the reference" % (s, n))
        n_values += n
    driver.close()
    print("%d seeds, %d values compared with the reference: all bits equal (seed %d)" % (len(seeds), n_values, seed))


if __name__ == "__main__":
    main()
