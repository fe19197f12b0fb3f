/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_request.h: a whole predict as one resident program: patches, token rows, state and noise in; action chunk out. */
#ifndef GR_BLACKHOLE_REQUEST_H
#define GR_BLACKHOLE_REQUEST_H

#include "device/blackhole/bh_build.h"
#include "device/blackhole/denoise.h"
#include "model/weights.h"

struct gr_bh_request_cfg {
    const struct gr_weights *w;
    int slot;       /* embodiment slot */
    int max_tokens; /* S_pad of the layout is this, up to whole tiles: 128 for gr1 */
    int32_t image_token;
    int columns, rows; /* usable Tensix columns and rows: 11 x 10 on a p150 */
    enum gr_bh_format weights;
    enum gr_bh_format backbone_weights; /* of vision tower, connector and language model; 0: the same */
    int weight_phases;                  /* 0: 3 for bfp8_b, 4 for bf16 */
    bool halves;       /* an even number of row tiles in two halves even if L1 has room for all, for tests */
    bool denoise_only; /* inputs of gr_bh_emit_denoise, which the caller writes; no backbone */
};
struct gr_bh_request;

/* Chooses the tiles, builds the program and the plan of its streams. w is borrowed until the arena was opened, and longer where it reads
 * embedding rows. GR_ERR_DEVICE: a network or layout that does not fit this chip; says what is short. */
enum gr_status gr_bh_request_new(const struct gr_bh_request_cfg *cfg, struct gr_bh_request **out, struct gr_err *err);
void gr_bh_request_free(struct gr_bh_request *r);
const struct gr_bh_program *gr_bh_request_program(const struct gr_bh_request *r);
const struct gr_bh_grid *gr_bh_request_grid(const struct gr_bh_request *r);
/* L1 of a tile: bytes of buffers that each stage needs; lists, constants and ring come on top. 0: no such stage. */
struct gr_bh_request_l1 {
    uint32_t vision, connector, llm, denoise;
};
struct gr_bh_request_l1 gr_bh_request_l1(const struct gr_bh_request *r);

/* What one observation is for the program. pixels [3, side, side]; ids [n_tokens]; state [max_state]; noise [horizon, max_action]. */
struct gr_bh_observation {
    const float *pixels;
    const int32_t *ids;
    int n_tokens;
    const float *state, *noise;
};
/* Fills the inputs of the machine but for those in written, a bit for each of the program's. An observation that is none, or not for this program:
 * GR_ERR_INPUT. */
enum gr_status gr_bh_request_inputs(struct gr_bh_request *r, struct gr_bh_machine *m, const struct gr_bh_observation *o,
                                    uint32_t written, struct gr_err *err);
/* Beside a running predict, `done` of whose operations are complete on tile 0: a piece of the inputs of the one that follows. Patches and rows of
 * tokens, as soon as the running one does not use theirs any more, each tile's alone: the program multicasts with its way reserved, which
 * the host cannot do. *a begins as zeros, and goes on with the same observation until gr_bh_request_inputs gets a->written. *more: something
 * was written, and more may be. */
struct gr_bh_ahead {
    uint32_t written; /* a bit for each input that is whole */
    int input, part;  /* of that which is being written; part 0: none */
};
enum gr_status gr_bh_request_ahead(struct gr_bh_request *r, struct gr_bh_machine *m, const struct gr_bh_observation *o,
                                   uint32_t done, struct gr_bh_ahead *a, bool *more, struct gr_err *err);
/* action [horizon, max_action] after gr_bh_program_run. */
enum gr_status gr_bh_request_action(struct gr_bh_request *r, struct gr_bh_machine *m, float *action,
                                    struct gr_err *err);
/* Whether something in the network grew beyond what the tiles compute with, so that the action means nothing. With inputs and weights in range
 * (tile_format.h) every such case is seen. False for a program of the action head alone. */
enum gr_status gr_bh_request_overflow(struct gr_bh_request *r, struct gr_bh_machine *m, bool *overflow,
                                      struct gr_err *err);

#endif
