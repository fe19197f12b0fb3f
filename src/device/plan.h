/* SPDX-License-Identifier: Apache-2.0
 *
 * plan.h: which number format each matrix of the network is packed in, how that was decided, and what it costs in accuracy. Made once
 * for a set of weights on a kind of CPU and kept as a small JSON file beside the packed weights, so that later starts repeat
 * neither the measurement nor the choice, and `gr00t inspect` can print it. */
#ifndef GR_DEVICE_PLAN_H
#define GR_DEVICE_PLAN_H

#include <stdbool.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/jsonout.h"

/* Observations of a snapshot (policy/observation.h), counted from 0. Four gate, the one called report took no part in anything. The first
 * and the last two calibrate: the rows of one picture alone are too few for weights that serve all. One observation scatters by
 * 0.0005 in PCC, so two gates alone pass what a third one refuses. */
enum { GR_PLAN_OBSERVATIONS = 5, GR_PLAN_REPORT = 2, GR_PLAN_CALIBRATIONS = 3 };
static inline bool gr_plan_calibrates(int i) { return i == 0 || i > GR_PLAN_REPORT; }
static inline bool gr_plan_gates(int i) { return i != GR_PLAN_REPORT; }
enum { GR_PLAN_NAME_BYTES = 64, GR_PLAN_STEP_BYTES = 48, GR_PLAN_TRIES_MAX = 16, GR_PLAN_PEAKS = 6 };

/* Edition of the way from exact weights to quantised ones. Raise it whenever quantisation, error feedback, the ladder, its guard, or the
 * packing of a quantised format changes: it is part of the keys of plans, packed weights and computed goldens, so that what an older program
 * left in a cache is made anew instead of served (docs/OPERATIONS.md, Upgrading). test_recipe.c fails when the bytes change without it. */
enum { GR_RECIPE_EDITION = 1 };

/* A chunk against the exact one of the same observation. */
struct gr_verdict {
    double pcc;       /* physical actions, all groups side by side; NaN: one side is constant */
    double pcc_slice; /* normalised chunk, rows and columns that become actions */
    double max_abs;   /* physical, largest difference */
    double worst_pcc; /* of the groups, among those whose pcc counts; 1 when none does */
    char worst_group[GR_PLAN_NAME_BYTES];
    bool pass; /* pcc >= 0.9995, slice >= 0.999, every group passes; with a constant side its difference is judged */
};

/* One step of the ladder that was tried. */
struct gr_plan_try {
    char step[GR_PLAN_STEP_BYTES]; /* "mixed", or between two names "mixed, llm 8, vision 4" */
    int judged;                    /* observations */
    struct gr_verdict verdict[GR_PLAN_OBSERVATIONS];
    bool pass; /* all gates */
};

struct gr_plan_matrix {            /* in order of use */
    char name[GR_PLAN_NAME_BYTES]; /* "vit.3.fc1" */
    char format[8];                /* "f32", "bf16" (stored, fp32 arithmetic), "i8", "i16", "f16", "bf16p" */
    double error;                  /* |y - y32| / |y32| over the calibration rows; 0 in fp32, -1: not measured */
};

struct gr_plan {
    char asked[GR_PLAN_STEP_BYTES];  /* "auto", or the policy that was asked for */
    char policy[GR_PLAN_STEP_BYTES]; /* nearest name of what was chosen: "mixed" */
    char step[GR_PLAN_STEP_BYTES];   /* exactly what was chosen */
    char half[8];                    /* 16-bit format of this CPU: "f16", "bf16p", "i16" */
    char cpu[GR_PLAN_NAME_BYTES];
    struct { /* measured multiply peaks of one thread */
        char format[8], isa[16];
        double gops;
    } peaks[GR_PLAN_PEAKS];
    int n_peaks;
    struct gr_plan_try tries[GR_PLAN_TRIES_MAX]; /* in order; the last one is what was chosen */
    int n_tries;
    struct gr_plan_matrix *matrices; /* owned */
    int n_matrices;
    bool kept;                /* read from, or written to, `file` */
    char file[GR_PATH_BYTES]; /* "": none */
};

/* JSON. key: everything the plan depends on, as text; a file with another key or anything unexpected counts as none (GR_ERR_FORMAT; no
 * file: GR_ERR_IO). out->file is set. Free with gr_plan_free. */
enum gr_status gr_plan_read(const char *path, const char *key, struct gr_plan *out, struct gr_err *err);
enum gr_status gr_plan_write(const char *path, const char *key, const struct gr_plan *plan, struct gr_err *err);
void gr_plan_free(struct gr_plan *plan);
/* The members of the plan into an object that is open. */
void gr_plan_put(struct gr_jw *w, const struct gr_plan *plan);
/* Its member "peaks" alone; plan NULL: an empty array. */
void gr_plan_put_peaks(struct gr_jw *w, const struct gr_plan *plan);

#endif
