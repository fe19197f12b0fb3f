/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_roofline.h: how fast each stage of a predict could be at best: its products at the measured rate of their multiply
 * instructions, its weights at the measured rate of the memory, whichever takes longer. */
#ifndef GR_CLI_BENCH_ROOFLINE_H
#define GR_CLI_BENCH_ROOFLINE_H

#include "base/err.h"
#include "cli/bench_meter.h"
#include "cli/flops.h"
#include "device/plan.h"
#include "kernels/kernels.h"

/* A multiply instruction of one register width. */
struct gr_instruction {
    const char *name; /* "vpdpbusd" */
    double ops;       /* of one instruction, a multiply-add counts two; 0: several instructions stand behind the name */
};
/* What set `isa` computes format f with. */
struct gr_instruction gr_instruction_of(enum gr_mat_format f, const char *isa);
/* Instructions a cycle that explain gops of one thread at clock ghz: the nearest of 2, 1, 1/2, ... 1/64; that is the assumption about
 * the CPU's ports. *possible: Gop/s at exactly that rate. 0: nothing is known. */
double gr_instruction_rate(const struct gr_instruction *in, double gops, double ghz, double *possible);

/* The best that is possible; ms are sums over a stage. */
struct gr_roof {
    double flops, bytes;              /* bytes: weights that are streamed */
    double format_ms[GR_MAT_FORMATS]; /* products and attention at the peak of their instruction */
    double ops_ms, memory_ms;         /* sum of format_ms; bytes at the memory's rate */
    double bound_ms;                  /* the larger one */
};
struct gr_roofs {
    struct gr_roof stage[GR_WORK_STAGES], total; /* total: sums of the stages */
};

/* Format of each product of the work: as the plan says, or without a plan (NULL) bf16 when the packed weights are too small for
 * f32. formats [work->n]. GR_ERR_DEVICE: the plan lacks a product or has an unknown format. */
enum gr_status gr_roof_formats(const struct gr_work *work, const struct gr_plan *plan, double weight_bytes,
                               enum gr_mat_format *formats, struct gr_err *err);
/* short_attention: attention that is not causal runs on 16-bit operands. A format without a rate counts at that of F32. */
void gr_roof_of(const struct gr_work *work, const enum gr_mat_format *formats, bool short_attention,
                const struct gr_meter_rates *rates, struct gr_roofs *out);

#endif
