# SPDX-License-Identifier: Apache-2.0
"""random_noise.py DRIVER [COUNT] [SEED]: noise of random seeds, bit-equal to reference_numpy.gauss_noise. DRIVER is the program
driver_noise. Prints the number compared; exit code 1 at the first difference."""
import random
import struct
import sys

import oracle

ALWAYS = [0, 1, 5, 42, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 2**53, 2**63 - 1]


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
        n = 6400 if rng.random() < 0.8 else 16 * rng.randint(1, 1000)
        driver.send(struct.pack("=QQ", s, n))
        want = np.ascontiguousarray(ref.gauss_noise(s, (n,)))
        assert want.dtype == np.float32
        if driver.get(4 * n) != want.tobytes():
            sys.exit("noise of seed %d (%d values) differs from the reference" % (s, n))
        n_values += n
    driver.close()
    print("%d seeds, %d values compared with the reference: all bits equal (seed %d)" % (len(seeds), n_values, seed))


if __name__ == "__main__":
    main()
