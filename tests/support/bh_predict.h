/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_predict.h: the program of a whole predict on a machine, and golden observations through it. */
#ifndef BH_PREDICT_H
#define BH_PREDICT_H

#include "bh_golden.h"
#include "device/blackhole/bh_request.h"

enum { BH_PREDICT_TOKENS = 128, BH_PREDICT_IMAGE_TOKEN = 151669 };

struct bh_predict {
    const struct bh_net *net;
    struct gr_bh_request *request;
    const struct gr_bh_program *program;
    struct gr_bh_arena *arena;
    struct gr_bh_machine *machine; /* owned */
};
/* Weights of the backbone in a format of their own; 0: none. */
extern enum gr_bh_format bh_predict_backbone;
/* Rows of the language model, image and text; BH_PREDICT_TOKENS unless it is set. */
extern int bh_predict_tokens;
/* Rows of the language model in two halves. */
extern bool bh_predict_halves;
/* Builds for a chip of columns x rows tiles; the other one packs the streams as well. */
void bh_predict_build(struct bh_predict *p, const struct bh_net *net, int columns, int rows, enum gr_bh_format weights);
void bh_predict_open(struct bh_predict *p, const struct bh_net *net, int columns, int rows, enum gr_bh_format weights);
void bh_predict_load(struct bh_predict *p, struct gr_bh_machine *machine);
void bh_predict_cpu(struct bh_predict *p, enum gr_bh_arithmetic arithmetic, int threads);
void bh_predict_unload(struct bh_predict *p);
void bh_predict_close(struct bh_predict *p);
/* One predict of a golden folder's inputs. action [horizon, max_action] may be NULL. With taps: stops at every one and prints how near it is to the
 * golden's. Returns the PCC of action_pred. */
double bh_predict_case(struct bh_predict *p, const char *dir, bool taps, float *action);

#endif
