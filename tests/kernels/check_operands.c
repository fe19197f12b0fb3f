/* SPDX-License-Identifier: Apache-2.0
 *
 * check_operands.c: random operands in the low-precision formats; see check_operands.h. */
#include "check_operands.h"

#include <math.h>
#include <string.h>

/* Bits as they stand in memory and the number they are. */
struct number {
    uint16_t bits;
    float value;
};

float check_half(unsigned bits)
{
    const int e = (int)(bits >> 10 & 31u), f = (int)(bits & 1023u);
    const float size = e == 31  ? (f != 0 ? NAN : INFINITY)
                       : e == 0 ? ldexpf((float)f, -24)
                                : ldexpf((float)(1024 + f), e - 25);
    return bits & 0x8000u ? -size : size;
}

static float bf16_value(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

static struct number integer(int q) { return (struct number){.bits = (uint16_t)q, .value = (float)q}; }

/* A half with exponent field least .. most. */
static struct number half(int least, int most)
{
    const unsigned e = (unsigned)(least + check_below(most - least + 1));
    const unsigned bits = (unsigned)check_below(2) << 15 | e << 10 | (unsigned)check_below(1024);
    return (struct number){.bits = (uint16_t)bits, .value = check_half(bits)};
}

static struct number bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (struct number){.bits = (uint16_t)(bits >> 16), .value = bf16_value((uint16_t)(bits >> 16))};
}

static struct number draw_weight(enum gr_mat_format format, enum check_operand_kind kind)
{
    const int worst = kind == OPERANDS_WORST;
    switch (format) {
    case GR_MAT_I8:
        return integer(worst ? -127 : check_below(255) - 127);
    case GR_MAT_I16:
        return integer(worst ? -2047 : check_below(4095) - 2047);
    case GR_MAT_F16:
        return worst ? (struct number){0xbc00, -1.0f} : kind == OPERANDS_SPREAD ? half(0, 15) : half(8, 14);
    default:
        return bf16(worst ? -1.0f : check_value(kind == OPERANDS_SPREAD ? FAMILY_SPREAD : FAMILY_NORMAL));
    }
}

static struct number draw_act(enum gr_row_format format, enum check_operand_kind kind)
{
    const int worst = kind == OPERANDS_WORST;
    switch (format) {
    case GR_ROWS_U8:
        return integer(worst ? 255 : check_below(256));
    case GR_ROWS_I16:
        return integer(worst ? 8191 : check_below(2 * 8191 + 1) - 8191);
    case GR_ROWS_F16:
        return worst ? (struct number){0x47ff, 7.99609375f} : kind == OPERANDS_SPREAD ? half(0, 17) : half(12, 17);
    default:
        return bf16(worst ? 1.0f : check_value(kind == OPERANDS_SPREAD ? FAMILY_SPREAD : FAMILY_NORMAL));
    }
}

/* Neighbours in k that stand side by side in a panel. */
static int group_of(enum gr_mat_format format) { return format == GR_MAT_I8 ? 4 : format == GR_MAT_F16 ? 1 : 2; }

/* Row of w that column c of panel p holds, -1 for a pad column. */
static int row_of(enum gr_mat_format format, int p, int c, int n, int gate_up)
{
    const int cols = gr_mat_cols(format);
    if (!gate_up) {
        return p * cols + c < n ? p * cols + c : -1;
    }
    const int pair = p * (cols / 2) + c / 32 * 16 + c % 16;
    return pair < n / 2 ? pair + (c % 32 < 16 ? 0 : n / 2) : -1;
}

int check_column_at(int j, int gate_up, int up)
{
    /* 16 gates and 16 ups follow each other, whatever the width of a panel */
    return gate_up ? j / 16 * 32 + up * 16 + j % 16 : j;
}

static void put(const struct gr_mat *mat, char *data, size_t k_pad, int column, int i, uint16_t bits)
{
    const int cols = gr_mat_cols(mat->format), g = group_of(mat->format);
    const size_t line = (size_t)(column / cols) * k_pad + (size_t)(i - i % g);
    const size_t at = line * (size_t)cols + (size_t)(column % cols * g + i % g);
    if (mat->format == GR_MAT_I8) {
        data[at] = (char)bits;
    } else {
        memcpy(data + 2 * at, &bits, sizeof bits);
    }
}

static void make_vectors(struct check_weights *w, const double *sums)
{
    const enum gr_mat_format f = w->mat.format;
    const size_t count = (size_t)w->mat.panels * (size_t)gr_mat_cols(f);
    float *bias = check_floats(SLOT_BIAS, count), *scale = check_floats(SLOT_SCALE, count),
          *offset = check_floats(SLOT_OFFSET, count);
    check_fill(bias, count, FAMILY_NORMAL);
    for (size_t i = 0; i < count; i++) {
        scale[i] =
            f == GR_MAT_F16 ? ldexpf(1.0f, check_below(7) - 3) : 1e-3f * (1.5f + 0.3f * check_value(FAMILY_NORMAL));
        offset[i] = (float)((double)scale[i] * sums[i]);
    }
    w->mat.bias = bias;
    w->mat.scale = f == GR_MAT_BF16P ? NULL : scale;
    w->mat.offset = f == GR_MAT_I8 ? offset : NULL;
}

struct check_weights check_make_weights(enum gr_mat_format format, int n, int k, int gate_up,
                                        enum check_operand_kind kind)
{
    enum { COLUMNS_MAX = 16384 };
    static double sums[COLUMNS_MAX];
    const int cols = gr_mat_cols(format), wide = gate_up ? n / 2 : n, each = gate_up ? cols / 2 : cols;
    struct check_weights w = {.mat = {.format = format, .n = n, .k = k, .panels = (wide + each - 1) / each}};
    const size_t bytes = gr_mat_panel_bytes(&w.mat) * (size_t)w.mat.panels;
    char *data = check_slot(SLOT_PANELS, bytes);
    w.meant = check_floats(SLOT_MEANT_W, (size_t)n * (size_t)k);
    memset(data, 0, bytes);
    for (int column = 0; column < w.mat.panels * cols; column++) {
        const int row = row_of(format, column / cols, column % cols, n, gate_up);
        sums[column] = 0.0;
        for (int i = 0; row >= 0 && i < k; i++) {
            const struct number q = draw_weight(format, kind);
            put(&w.mat, data, (size_t)gr_row_pad(gr_mat_rows(format), k), column, i, q.bits);
            w.meant[(size_t)row * (size_t)k + (size_t)i] = q.value;
            sums[column] += (double)q.value;
        }
    }
    w.mat.data = data;
    make_vectors(&w, sums);
    return w;
}

size_t check_byte_at(const struct gr_acts *a, int row, int k)
{
    int t = 0;
    while (row >= gr_tile_first(a->m, t + 1)) {
        t++;
    }
    const int chunk = gr_row_chunk(a->format), first = gr_tile_first(a->m, t),
              rows = gr_tile_first(a->m, t + 1) - first;
    return (size_t)first * gr_acts_row_bytes(a->format, a->k) +
           (size_t)(k / chunk * rows + row - first) * GR_CHUNK_BYTES + (size_t)(k % chunk * (GR_CHUNK_BYTES / chunk));
}

float check_element(const struct gr_acts *a, int row, int k)
{
    const uint8_t *at = (const uint8_t *)a->data + check_byte_at(a, row, k);
    uint16_t bits;
    float x;
    switch (a->format) {
    case GR_ROWS_U8:
        return (float)*at;
    case GR_ROWS_F32:
        memcpy(&x, at, sizeof x);
        return x;
    default:
        memcpy(&bits, at, sizeof bits);
        return a->format == GR_ROWS_I16   ? (float)(int16_t)bits
               : a->format == GR_ROWS_F16 ? check_half(bits)
                                          : bf16_value(bits);
    }
}

struct gr_acts check_empty_acts(enum gr_row_format format, int m, int k, int data, int scale, int zero)
{
    struct gr_acts a = {.format = format, .m = m, .k = k, .k_pad = gr_row_pad(format, k)};
    a.data = check_slot(data, (size_t)m * gr_acts_row_bytes(format, k));
    a.scale = check_floats(scale, (size_t)m);
    a.zero = check_floats(zero, (size_t)m);
    return a;
}

struct check_acts check_make_acts(enum gr_row_format format, int m, int k, enum check_operand_kind kind)
{
    struct check_acts x = {.acts = check_empty_acts(format, m, k, SLOT_ACTS, SLOT_ACT_SCALE, SLOT_ACT_ZERO)};
    uint8_t *data = x.acts.data;
    memset(data, 0, (size_t)m * gr_acts_row_bytes(format, k));
    x.meant = check_floats(SLOT_MEANT_X, (size_t)m * (size_t)k);
    for (int r = 0; r < m; r++) {
        for (int i = 0; i < k; i++) {
            const struct number q = draw_act(format, kind);
            uint8_t *to = data + check_byte_at(&x.acts, r, i);
            memcpy(to, &q.bits, format == GR_ROWS_U8 ? 1 : 2);
            if (format == GR_ROWS_F16) {
                memcpy(to + 2, &q.bits, 2);
            }
            x.meant[(size_t)r * (size_t)k + (size_t)i] = q.value;
        }
        x.acts.scale[r] = format == GR_ROWS_F16 ? ldexpf(1.0f, check_below(7) - 3)
                                                : 1e-2f * (1.5f + 0.3f * check_value(FAMILY_NORMAL));
        x.acts.zero[r] = -x.acts.scale[r] * (float)check_below(256);
    }
    return x;
}

struct gr_acts check_part_of_acts(const struct gr_acts *all, int first, int m, int data, int scale, int zero)
{
    struct gr_acts part = check_empty_acts(all->format, m, all->k, data, scale, zero);
    for (int r = 0; r < m; r++) {
        for (int i = 0; i < all->k_pad; i += gr_row_chunk(all->format)) {
            memcpy((char *)part.data + check_byte_at(&part, r, i),
                   (const char *)all->data + check_byte_at(all, first + r, i), GR_CHUNK_BYTES);
        }
        part.scale[r] = all->scale[first + r];
        part.zero[r] = all->zero[first + r];
    }
    return part;
}
