/* SPDX-License-Identifier: Apache-2.0
 *
 * rows_avx512.c: work on single rows in fp32: norms, packing into tiles, rotary embedding. */
#include "kernels/avx512/avx512.h"
#include "kernels/avx512/norm_avx512.h"

void gr_norm_rows_avx512(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                         int r1)
{
    for (int r = r0; r < r1; r++) {
        const float *row = x + (size_t)r * ldx;
        float *dst = out + (size_t)r * ldo;
        struct row_scale s = measure(row, cols, norm);
        for (int i = 0; i < cols; i += 16) {
            __mmask16 mask = lanes(cols - i);
            _mm512_mask_storeu_ps(dst + i, mask, apply(row, i, mask, norm, &s));
        }
    }
}

void gr_pack_f32_avx512(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1, void *scratch)
{
    (void)scratch;
    const struct gr_row_norm *norm = src->norm;
    const int tiles = gr_tile_count(a->m);
    for (int t = 0; t < tiles; t++) {
        int first = gr_tile_first(a->m, t), end = gr_tile_first(a->m, t + 1), rows = end - first;
        for (int r = first > r0 ? first : r0; r < end && r < r1; r++) {
            const float *row = src->x + (size_t)(src->index != NULL ? src->index[r] : r) * src->ldx;
            float *dst = (float *)a->data + (size_t)first * a->k_pad + (size_t)(r - first) * GR_CHUNK;
            struct row_scale s = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
            if (norm != NULL) {
                s = measure(row, a->k, norm);
            }
            for (int i = 0; i < a->k_pad; i += GR_CHUNK, dst += (size_t)rows * GR_CHUNK) {
                __mmask16 mask = lanes(a->k - i);
                __m512 v = norm != NULL ? apply(row, i, mask, norm, &s) : _mm512_maskz_loadu_ps(mask, row + i);
                if (src->smooth != NULL) {
                    v = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, src->smooth + i));
                }
                _mm512_store_ps(dst, v);
            }
        }
    }
}

void gr_rms_rope_avx512(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                        const float *sin, int r0, int r1)
{
    const int half = dh / 2;
    const struct gr_row_norm norm = {.kind = GR_ROW_RMS, .eps = eps, .gamma = gamma};
    for (int r = r0; r < r1; r++) {
        const float *c = cos + (size_t)r * half, *s = sin + (size_t)r * half;
        for (int h = 0; h < heads; h++) {
            float *head = x + (size_t)r * ldx + (size_t)h * dh;
            struct row_scale scale = measure(head, dh, &norm);
            for (int i = 0; i < half; i += 16) {
                __mmask16 mask = lanes(half - i);
                __m512 lo = apply(head, i, mask, &norm, &scale), hi = apply(head, half + i, mask, &norm, &scale);
                __m512 vc = _mm512_maskz_loadu_ps(mask, c + i), vs = _mm512_maskz_loadu_ps(mask, s + i);
                _mm512_mask_storeu_ps(head + i, mask, _mm512_fmsub_ps(lo, vc, _mm512_mul_ps(hi, vs)));
                _mm512_mask_storeu_ps(head + half + i, mask, _mm512_fmadd_ps(hi, vc, _mm512_mul_ps(lo, vs)));
            }
        }
    }
}
