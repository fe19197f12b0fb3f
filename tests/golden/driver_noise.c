/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_noise.c: the noise generator as a filter, for random_noise.py.
 * stdin: cases of uint64 seed, uint64 n; stdout per case: n float32. Byte order of the machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/noise.h"

int main(void)
{
    uint64_t in[2];
    while (fread(in, sizeof in, 1, stdin) == 1) {
        size_t n = (size_t)in[1];
        float *out = malloc(n * sizeof *out);
        if (out == NULL) {
            return 1;
        }
        gr_noise(in[0], out, n);
        if (fwrite(out, sizeof *out, n, stdout) != n) {
            return 1;
        }
        fflush(stdout);
        free(out);
    }
    return 0;
}
