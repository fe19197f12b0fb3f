/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_roofline.c: lower bounds of the time of a stage from measured rates. What a reader would get wrong: with formats of different
 * speed a stage has no single peak; its ideal time is the sum over its products, each at the peak of its own instruction. */
#include "cli/bench_roofline.h"

#include <math.h>
#include <string.h>

struct gr_instruction gr_instruction_of(enum gr_mat_format f, const char *isa)
{
    static const struct {
        const char *isa;
        unsigned formats; /* bits */
        struct gr_instruction in;
    } known[] = {
        {"amx", 1u << GR_MAT_I8, {"tdpbusd", 2.0 * 16 * 16 * 64}},
        {"amx", 1u << GR_MAT_BF16P, {"tdpbf16ps", 2.0 * 16 * 16 * 32}},
        {"avx512fp16", 1u << GR_MAT_F16, {"vfmadd231ph", 64}},
        {"avx512bf16", 1u << GR_MAT_BF16P, {"vdpbf16ps", 64}},
        {"avx512vnni", 1u << GR_MAT_I8, {"vpdpbusd", 128}},
        {"avx512vnni", 1u << GR_MAT_I16, {"vpdpwssd", 64}},
        {"avxvnni", 1u << GR_MAT_I8, {"vpdpbusd", 64}},
        {"avxvnni", 1u << GR_MAT_I16, {"vpdpwssd", 32}},
        {"avx512", 1u << GR_MAT_F32 | 1u << GR_MAT_BF16, {"vfmadd231ps", 32}},
        {"avx2", 1u << GR_MAT_F32 | 1u << GR_MAT_BF16, {"vfmadd231ps", 16}},
    };
    for (size_t i = 0; isa != NULL && i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].isa, isa) == 0 && (known[i].formats >> f & 1u) != 0) {
            return known[i].in;
        }
    }
    return (struct gr_instruction){isa != NULL ? isa : "none", 0.0};
}

double gr_instruction_rate(const struct gr_instruction *in, double gops, double ghz, double *possible)
{
    *possible = 0.0;
    if (in->ops <= 0.0 || gops <= 0.0 || ghz <= 0.0) {
        return 0.0;
    }
    double measured = gops / ghz / in->ops, power = round(log2(measured));
    double rate = exp2(power > 1.0 ? 1.0 : power < -6.0 ? -6.0 : power);
    *possible = rate * ghz * in->ops;
    return rate;
}

/* ---- formats ---- */

static double product_bytes(const struct gr_product *p, enum gr_mat_format f)
{
    const int cols = gr_mat_cols(f), panels = (p->n + cols - 1) / cols;
    struct gr_mat w = {.format = f, .n = p->n, .k = p->k, .panels = panels};
    return (double)panels * (double)gr_mat_panel_bytes(&w);
}

enum gr_status gr_roof_formats(const struct gr_work *work, const struct gr_plan *plan, double weight_bytes,
                               enum gr_mat_format *formats, struct gr_err *err)
{
    double f32 = 0.0;
    for (int i = 0; i < work->n; i++) {
        f32 += product_bytes(&work->products[i], GR_MAT_F32);
    }
    for (int i = 0, at = 0; i < work->n; i++) {
        if (plan == NULL || plan->n_matrices == 0) {
            formats[i] = weight_bytes < 0.75 * f32 ? GR_MAT_BF16 : GR_MAT_F32;
            continue;
        }
        int tries = 0; /* both lists are in order of use: the next one is nearly always the right one */
        while (tries < plan->n_matrices && strcmp(plan->matrices[at].name, work->products[i].name) != 0) {
            at = (at + 1) % plan->n_matrices;
            tries++;
        }
        if (tries == plan->n_matrices) {
            return gr_fail(err, GR_ERR_DEVICE, "the plan has no matrix %s, which every predict multiplies with",
                           work->products[i].name);
        }
        if (!gr_format_find(plan->matrices[at].format, &formats[i])) {
            return gr_fail(err, GR_ERR_DEVICE,
                           "the plan has format \"%s\" for matrix %s, which this bench does not know",
                           plan->matrices[at].format, plan->matrices[at].name);
        }
    }
    return GR_OK;
}

/* ---- bounds ---- */

static void add_ops(struct gr_roof *r, enum gr_mat_format f, double flops, const struct gr_meter_rates *rates)
{
    double gops = rates->gops[f] > 0.0 ? rates->gops[f] : rates->gops[GR_MAT_F32];
    r->flops += flops;
    r->format_ms[f] += gops > 0.0 ? flops / gops * 1e-6 : 0.0;
}

static void close_stage(struct gr_roof *r, const struct gr_meter_rates *rates, struct gr_roof *total)
{
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        r->ops_ms += r->format_ms[f];
        total->format_ms[f] += r->format_ms[f];
    }
    r->memory_ms = rates->gbytes > 0.0 ? r->bytes / rates->gbytes * 1e-6 : 0.0;
    r->bound_ms = r->ops_ms > r->memory_ms ? r->ops_ms : r->memory_ms;
    total->flops += r->flops;
    total->bytes += r->bytes;
    total->ops_ms += r->ops_ms;
    total->memory_ms += r->memory_ms;
    total->bound_ms += r->bound_ms;
}

void gr_roof_of(const struct gr_work *work, const enum gr_mat_format *formats, bool short_attention,
                const struct gr_meter_rates *rates, struct gr_roofs *out)
{
    *out = (struct gr_roofs){0};
    for (int i = 0; i < work->n; i++) {
        const struct gr_product *p = &work->products[i];
        struct gr_roof *r = &out->stage[p->stage];
        add_ops(r, formats[i], gr_product_flops(p), rates);
        r->bytes += product_bytes(p, formats[i]) * p->times;
    }
    for (int s = 0; s < GR_WORK_STAGES; s++) {
        const bool is_short = short_attention && s != GR_WORK_LLM; /* its attention is causal */
        add_ops(&out->stage[s], is_short ? GR_MAT_I16 : GR_MAT_F32, work->attention[s], rates);
        close_stage(&out->stage[s], rates, &out->total);
    }
}
