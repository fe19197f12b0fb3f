/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_both.c: see bh_both.h. */
#include "bh_both.h"

#include <math.h>
#include <string.h>

#include "bh_chip.h"
#include "gr_test.h"

struct gr_bh_machine *bh_machine_chip(const struct bh_program *p, unsigned deadline_ms)
{
    struct gr_err err;
    struct gr_bh_machine *m = NULL;
    gr_test_ok(gr_bh_machine_chip(bh_chip(), &p->grid, deadline_ms, &m, &err), &err);
    return m;
}

struct gr_bh_machine *bh_machine_cpu(const struct bh_program *p)
{
    struct gr_err err;
    struct gr_bh_machine *m = NULL;
    gr_test_ok(gr_bh_machine_cpu(&p->grid, GR_BH_BIT_EXACT, 1, &m, &err), &err);
    return m;
}

static uint32_t element_of(const uint8_t *bytes, enum gr_bh_format f, int i)
{
    uint32_t w = 0;
    if (f == GR_BH_FP32) {
        memcpy(&w, bytes + 4 * i, 4);
    } else if (f == GR_BH_BF16) {
        memcpy(&w, bytes + 2 * i, 2);
    } else {
        w = (uint32_t)bytes[i / 16] << 8 | bytes[64 + i];
    }
    return w;
}

void bh_same(struct gr_bh_machine *chip, struct gr_bh_machine *cpu, const struct bh_out *outs, int count,
             float (*values)[1024])
{
    static float other[1024];
    for (int i = 0; i < count; i++) {
        uint8_t a[4096];
        uint8_t b[4096];
        bh_read(chip, outs[i].tile, outs[i].at, outs[i].fmt, a, values[i]);
        bh_read(cpu, outs[i].tile, outs[i].at, outs[i].fmt, b, other);
        int differ = 0;
        int first = -1;
        for (int e = 1023; e >= 0; e--) {
            if (element_of(a, outs[i].fmt, e) != element_of(b, outs[i].fmt, e)) {
                differ++;
                first = e;
            }
        }
        if (differ > 0) {
            fail_msg(
                "output %d (tile %d, 0x%x): %d of 1024 elements differ; the first, at face %d, %d: chip %08x, CPU %08x",
                i, outs[i].tile, outs[i].at, differ, first / 256, first % 256, element_of(a, outs[i].fmt, first),
                element_of(b, outs[i].fmt, first));
        }
    }
}

void bh_run_both(const struct bh_program *p, uint32_t ops, const struct bh_out *outs, int count, float (*values)[1024])
{
    struct gr_err err;
    struct gr_bh_machine *chip = bh_machine_chip(p, BH_DEADLINE_MS);
    struct gr_bh_machine *cpu = bh_machine_cpu(p);
    bh_load(p, chip);
    bh_load(p, cpu);
    gr_test_ok(chip->ops->run(chip, ops, &err), &err);
    gr_test_ok(cpu->ops->run(cpu, ops, &err), &err);
    bh_same(chip, cpu, outs, count, values);
    chip->ops->close(chip);
    cpu->ops->close(cpu);
}

void bh_mul(const float *a, const float *b, double *c, double *abs)
{
    for (int i = 0; i < 32; i++) {
        for (int k = 0; k < 32; k++) {
            for (int j = 0; j < 32; j++) {
                const double v = (double)a[32 * i + k] * b[32 * k + j];
                c[32 * i + j] += v;
                abs[32 * i + j] += fabs(v);
            }
        }
    }
}

void bh_close(const char *what, const float *got, const double *want, const double *scale, double relative,
              double absolute)
{
    int worst = 0;
    double most = -1;
    for (int i = 0; i < 1024; i++) {
        const double bound = relative * (scale != NULL ? scale[i] : fabs(want[i])) + absolute;
        const double over = fabs(got[i] - want[i]) / (bound > 0 ? bound : 1e-300);
        if (over > most || isnan(got[i])) {
            most = isnan(got[i]) ? INFINITY : over;
            worst = i;
        }
    }
    if (most > 1) {
        fail_msg("%s: element (%d, %d) is %.9g, expected %.9g: %.2f times the bound", what, worst / 32, worst % 32,
                 (double)got[worst], want[worst], most);
    }
}
