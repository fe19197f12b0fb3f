/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_fill.c: element index to BF16 value (docs/SYNTHETIC.md).
 *
 * One 64-bit mix gives four 16-bit draws, and a table of 65,536 entries turns a draw into the value of this tensor. The
 * arithmetic is in double with one rounding to float and one to BF16; it needs -ffp-contract=off to keep the published
 * SHA-256. */
#include "model/synth_fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio: step of SplitMix64 */
enum { DRAWS = 65536, BOOST = 30 };

struct gr_synth_filler {
    const struct gr_synth_config *config;
    enum gr_synth_weights weights;
    uint64_t seed;
    const struct gr_synth_tensor *tensor; /* what the fields below belong to */
    uint64_t key;
    bool have_table;
    double spread;         /* half, or half / sqrt(3) for a normal distribution of the same variance */
    double deviate[DRAWS]; /* draw to a number in -1..1, or to a standard normal one */
    uint16_t value[DRAWS]; /* draw to BF16, when have_table */
    double *row_factor;    /* [rows of the widest outlier tensor] */
    int *col_index;        /* columns with a factor, ascending */
    double *col_factor;    /* beside col_index */
    int n_cols;
    bool any_row;
};

/* ---- arithmetic ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint64_t key_of(uint64_t name_hash, uint64_t seed) { return mix(name_hash ^ (seed * GOLDEN)); }

/* double -> float -> BF16, both to nearest even. Finite values only. */
static uint16_t bf16_bits(double x)
{
    const float narrow = (float)x;
    uint32_t b;
    memcpy(&b, &narrow, sizeof b);
    return (uint16_t)((b + 0x7FFFu + ((b >> 16) & 1u)) >> 16);
}

static double bf16_value(uint16_t bits)
{
    const uint32_t b = (uint32_t)bits << 16;
    float wide;
    memcpy(&wide, &b, sizeof wide);
    return (double)wide;
}

/* num(x) / den(x), highest power first. */
static double ratio(const double num[8], const double den[8], double x)
{
    double n = num[0], d = den[0];
    for (int i = 1; i < 8; i++) {
        n = n * x + num[i];
        d = d * x + den[i];
    }
    return n / d;
}

double gr_synth_probit(double p)
{
    /* Wichura 1988, Applied Statistics 37, algorithm AS 241, routine PPND16. */
    static const double A[8] = {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
                                45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
                                133.14166789178437745, 3.387132872796366608};
    static const double B[8] = {
        5226.495278852545925,  28729.085735721942674, 39307.89580009271061,  21213.794301586595867,
        5394.1960214247511077, 687.1870074920579083,  42.313330701600911252, 1.0};
    static const double C[8] = {7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
                                1.27045825245236838258,   3.64784832476320460504,   5.7694972214606914055,
                                4.6303378461565452959,    1.42343711074968357734};
    static const double D[8] = {
        1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
        0.68976733498510000455,    1.6763848301838038494,   2.05319162663775882187,   1.0};
    static const double E[8] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
                                0.026532189526576123093,   0.29656057182850489123,    1.7848265399172913358,
                                5.4637849111641143699,     6.6579046435011037772};
    static const double F[8] = {
        2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
        0.0148753612908506148525,   0.13692988092273580531,   0.59983220655588793769,   1.0};
    const double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        return q * ratio(A, B, 0.180625 - q * q);
    }
    double r = sqrt(-log(q < 0 ? p : 1.0 - p));
    r = r <= 5.0 ? ratio(C, D, r - 1.6) : ratio(E, F, r - 5.0);
    return q < 0 ? -r : r;
}

/* ---- outliers ---- */

double gr_synth_outlier(const struct gr_synth_channels *channels, uint64_t seed, int c)
{
    static const uint64_t RARE = 55340232221128656u; /* 0.003 * 2^64 in double */
    const uint64_t draw = key_of(channels->name_hash, seed) + (uint64_t)c;
    if (mix(draw) >= RARE) {
        return 1.0;
    }
    const double u = (double)(mix(draw + 1) >> 11) * 0x1p-53;
    return exp(log(20.0) + u * (log(60.0) - log(20.0)));
}

int gr_synth_boosted_rows(const struct gr_synth_config *config, const struct gr_synth_tensor *tensor, uint64_t seed,
                          uint64_t rows[3])
{
    int n = 0;
    if (tensor->boost == GR_SYNTH_BOOST_TEMPLATE) {
        rows[n++] = (uint64_t)config->llm.template_ids[0];
        rows[n++] = (uint64_t)config->llm.template_ids[1];
    } else if (tensor->boost == GR_SYNTH_BOOST_POSITIONS) {
        const uint64_t key = key_of(gr_synth_hash(tensor->name), seed);
        for (uint64_t draw = 0; n < 3; draw++) {
            const uint64_t row = mix(key + draw) % (uint64_t)tensor->shape[0];
            if ((n > 0 && rows[0] == row) || (n > 1 && rows[1] == row)) {
                continue;
            }
            rows[n++] = row;
        }
    }
    return n;
}

/* Elements in a row: columns of a matrix; a vector has one element a row. */
static uint64_t width_of(const struct gr_synth_tensor *t) { return t->ndim == 1 ? 1 : (uint64_t)t->shape[t->ndim - 1]; }

static int channel_of_column(const struct gr_synth_channels *ch, int c)
{
    return ch->share <= 1 ? c : c / ch->head_dim / ch->share * ch->head_dim + c % ch->head_dim;
}

static void find_outliers(struct gr_synth_filler *f, const struct gr_synth_tensor *t)
{
    f->n_cols = 0;
    f->any_row = false;
    if (f->weights != GR_SYNTH_OUTLIERS) {
        return;
    }
    for (int r = 0; r < t->rows.count; r++) {
        f->row_factor[r] = gr_synth_outlier(&t->rows, f->seed, r);
        f->any_row |= f->row_factor[r] != 1.0;
    }
    for (int c = 0; t->cols.count > 0 && c < (int)t->shape[1]; c++) {
        const double factor = gr_synth_outlier(&t->cols, f->seed, channel_of_column(&t->cols, c));
        if (factor != 1.0) {
            f->col_index[f->n_cols] = c;
            f->col_factor[f->n_cols++] = factor;
        }
    }
}

static void scale(uint16_t *bits, double factor) { *bits = bf16_bits(bf16_value(*bits) * factor); }

/* Row r, elements [c0, c1) at out. An element in an outlier row and an outlier column gets both, with one rounding. */
static void scale_row(const struct gr_synth_filler *f, uint64_t r, int c0, int c1, uint16_t *out)
{
    const double row = f->any_row ? f->row_factor[r] : 1.0;
    int k = 0;
    while (k < f->n_cols && f->col_index[k] < c0) {
        k++;
    }
    if (row == 1.0) {
        for (; k < f->n_cols && f->col_index[k] < c1; k++) {
            scale(&out[f->col_index[k] - c0], 1.0 / f->col_factor[k]);
        }
        return;
    }
    for (int c = c0; c < c1; c++) {
        const bool hit = k < f->n_cols && f->col_index[k] == c;
        scale(&out[c - c0], hit ? row / f->col_factor[k] : row);
        k += hit;
    }
}

static void apply_outliers(const struct gr_synth_filler *f, uint64_t first, size_t n, uint16_t *out)
{
    const uint64_t width = width_of(f->tensor), end = first + n;
    for (uint64_t at = first; at < end && (f->any_row || f->n_cols > 0);) {
        const uint64_t r = at / width, row_end = (r + 1) * width, stop = row_end < end ? row_end : end;
        scale_row(f, r, (int)(at - r * width), (int)(stop - r * width), out + (at - first));
        at = stop;
    }
    uint64_t rows[3] = {0};
    const int boosted = gr_synth_boosted_rows(f->config, f->tensor, f->seed, rows);
    for (int i = 0; i < boosted; i++) {
        const uint64_t from = rows[i] * width, to = from + width;
        for (uint64_t at = from > first ? from : first; at < to && at < end; at++) {
            scale(&out[at - first], BOOST);
        }
    }
}

/* ---- filling ---- */

static void apply_diagonals(const struct gr_synth_tensor *t, uint64_t first, size_t n, uint16_t *out)
{
    const uint64_t slots = t->ndim == 3 ? (uint64_t)t->shape[0] : 1, width = width_of(t);
    const uint64_t slot_elements = t->elements / slots;
    for (int k = 0; k < t->n_diagonals; k++) {
        const uint16_t bits = bf16_bits(t->diagonals[k].value);
        for (uint64_t s = 0; s < slots; s++) {
            for (int i = 0; i < t->diagonal_count; i++) {
                const uint64_t at = s * slot_elements + (uint64_t)(t->diagonals[k].row0 + i) * width +
                                    (uint64_t)(t->diagonals[k].col0 + i);
                if (at >= first && at - first < n) {
                    out[at - first] = bits;
                }
            }
        }
    }
}

static uint16_t value_of(const struct gr_synth_filler *f, unsigned draw)
{
    return bf16_bits(f->tensor->center + f->spread * f->deviate[draw]);
}

static void select_tensor(struct gr_synth_filler *f, const struct gr_synth_tensor *t)
{
    f->tensor = t;
    f->key = key_of(gr_synth_hash(t->name), f->seed);
    f->spread = f->weights == GR_SYNTH_UNIFORM ? t->half : t->half / sqrt(3.0);
    f->have_table = t->elements >= DRAWS / 4; /* below, the table costs more than it saves */
    for (unsigned draw = 0; f->have_table && draw < DRAWS; draw++) {
        f->value[draw] = value_of(f, draw);
    }
    find_outliers(f, t);
}

/* Draws of elements 4 * j0 .. 4 * (j0 + n4) - 1 through the table. */
static void fill_quads(const struct gr_synth_filler *f, uint64_t j0, size_t n4, uint16_t *out)
{
    const uint16_t *value = f->value;
    uint64_t step = f->key + (j0 + 1) * GOLDEN;
    for (size_t j = 0; j < n4; j++, step += GOLDEN) {
        const uint64_t z = mix(step);
        out[4 * j] = value[z & 0xFFFF];
        out[4 * j + 1] = value[(z >> 16) & 0xFFFF];
        out[4 * j + 2] = value[(z >> 32) & 0xFFFF];
        out[4 * j + 3] = value[z >> 48];
    }
}

void gr_synth_fill(struct gr_synth_filler *f, const struct gr_synth_tensor *tensor, uint64_t first, size_t n,
                   uint16_t *out)
{
    if (f->tensor != tensor) {
        select_tensor(f, tensor);
    }
    for (size_t i = 0; i < n;) {
        const uint64_t at = first + i;
        if (f->have_table && at % 4 == 0 && n - i >= 4) {
            const size_t n4 = (n - i) / 4;
            fill_quads(f, at / 4, n4, out + i);
            i += 4 * n4;
            continue;
        }
        const uint64_t z = mix(f->key + (at / 4 + 1) * GOLDEN);
        out[i++] = value_of(f, (unsigned)(z >> (16 * (at % 4))) & 0xFFFFu);
    }
    apply_diagonals(tensor, first, n, out);
    if (f->weights == GR_SYNTH_OUTLIERS) {
        apply_outliers(f, first, n, out);
    }
}

/* Largest row and column count of an outlier tensor. */
static size_t widest(const struct gr_synth_config *c)
{
    const int all[] = {c->vit.hidden,
                       c->vit.mlp,
                       4 * c->vit.hidden,
                       c->llm.hidden,
                       c->llm.mlp,
                       c->llm.heads * c->llm.head_dim,
                       c->llm.kv_heads * c->llm.head_dim};
    int most = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        most = all[i] > most ? all[i] : most;
    }
    return (size_t)most;
}

enum gr_status gr_synth_filler_new(const struct gr_synth_config *config, enum gr_synth_weights weights, uint64_t seed,
                                   struct gr_synth_filler **out, struct gr_err *err)
{
    struct gr_synth_filler *f = calloc(1, sizeof *f);
    if (f != NULL) {
        const size_t n = widest(config);
        f->row_factor = calloc(n, sizeof *f->row_factor);
        f->col_index = calloc(n, sizeof *f->col_index);
        f->col_factor = calloc(n, sizeof *f->col_factor);
    }
    if (f == NULL || f->row_factor == NULL || f->col_index == NULL || f->col_factor == NULL) {
        gr_synth_filler_free(f);
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the weight tables (%zu bytes a thread)", sizeof *f);
    }
    f->config = config;
    f->weights = weights;
    f->seed = seed;
    for (unsigned draw = 0; draw < DRAWS; draw++) {
        f->deviate[draw] =
            weights == GR_SYNTH_UNIFORM ? (draw + 0.5) / 32768.0 - 1.0 : gr_synth_probit((draw + 0.5) / 65536.0);
    }
    *out = f;
    return GR_OK;
}

void gr_synth_filler_free(struct gr_synth_filler *f)
{
    if (f != NULL) {
        free(f->row_factor);
        free(f->col_index);
        free(f->col_factor);
        free(f);
    }
}
