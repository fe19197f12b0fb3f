/* SPDX-License-Identifier: Apache-2.0
 *
 * arena.h: the weights as streams: for every tile and stream, the bytes its N core reads, in order of use.
 *
 * The builder says what the stream of a tile consists of (struct gr_bh_piece) and where in DRAM it goes; the arena turns pieces into
 * bytes, keeps them in a file of the cache folder by the code and rules of packed weights (cache.h), and writes them to DRAM. */
#ifndef GR_BLACKHOLE_ARENA_H
#define GR_BLACKHOLE_ARENA_H

#include <stdbool.h>

#include "device/blackhole/machine.h"
#include "device/blackhole/program.h"
#include "formats/safetensors.h"
#include "gr00t.h"

/* A logical matrix [k, n] that multiplies rows from the right, y = x W + b, as the program sees it: k and n are padded with zeros to
 * whole tiles. Where element (i, j) comes from: tensor[j, i] ([out, in], checkpoint order), or tensor[slot, i, j] when per_slot. */
struct gr_bh_matrix {
    const char *name;          /* for reports */
    int k, n;                  /* not padded; the tensor may have more rows and columns */
    const struct gr_tensor *w; /* BF16 */
    const struct gr_tensor *b; /* NULL: no bias */
    int slot;                  /* >= 0: w [slots, k, n], b [slots, n] */
    const int *column;         /* [n] checkpoint column of column j, -1: zeros; NULL: j. Heads repeated or moved */
    const float *bias;         /* [n], instead of b: computed at load; NULL: b */
    const int *row;            /* [k] checkpoint row of row i, -1: zeros; NULL: i. Not with slots */
    enum gr_bh_format fmt;     /* GR_BH_BF16 or GR_BH_BFP8; 0: the arena's */
};

enum gr_bh_piece_kind {
    /* Tiles [k0, k1) of column tile `col` of w in the arena's format, then, with `bias`, a bf16 tile: the bias in row 0. */
    GR_BH_PIECE_COLUMN,
    GR_BH_PIECE_ROWS, /* a bf16 tile: row tile k0 and column tile `col` of the array `rows` [32 k1, n] that was computed at load */
    GR_BH_PIECE_MODULATE /* two bf16 tiles of column tile `col`: 1 + scale in every row; shift in row 0. Zeros from column n on */
};
struct gr_bh_piece {
    uint16_t kind;
    bool bias;
    int k0, k1, col;
    const struct gr_bh_matrix *w;
    const float *scale, *shift; /* [n] */
    int n;                      /* their length, not padded */
    const float *rows;
};
/* Format of a matrix in an arena of `weights`. */
static inline enum gr_bh_format gr_bh_matrix_format(const struct gr_bh_matrix *w, enum gr_bh_format weights)
{
    return w != NULL && w->fmt != GR_BH_FP32 ? w->fmt : weights;
}
/* Bytes of a piece in the stream, a multiple of 64. */
size_t gr_bh_piece_bytes(const struct gr_bh_piece *p, enum gr_bh_format weights);
/* Fails with the matrix's name when a tensor is smaller than the piece says, or of a type that is not widened exactly. */
enum gr_status gr_bh_piece_check(const struct gr_bh_piece *p, struct gr_err *err);
/* Writes a checked one. Returns through error (may be NULL) the sums of squares of what rounding changed of w, and of w, and whether w or
 * its bias holds what gr_bh_in_range refuses. What was computed at load was looked at there. */
struct gr_bh_piece_error {
    double error, signal;
    bool broken;
};
void gr_bh_piece_put(const struct gr_bh_piece *p, enum gr_bh_format weights, void *dst,
                     struct gr_bh_piece_error *error);

/* Stream s of tile t: pieces in order. None, and another's address: that stream begins with its bytes. */
struct gr_bh_stream_plan {
    const struct gr_bh_piece *piece;
    size_t pieces, bytes;
    int channel;
    uint64_t addr; /* in that channel, a multiple of 64 */
};

struct gr_bh_arena;
struct gr_bh_arena_cfg {
    enum gr_bh_format weights; /* GR_BH_BF16 or GR_BH_BFP8 */
    int threads;
    const char *cache_dir;      /* NULL: kept in memory only */
    const char *weights_digest; /* part of the file's key, with a digest of the plan */
    gr_progress_fn
        progress; /* "pack weights", "store packed weights" or "read packed weights" alone, "upload weights"; may be NULL */
    void *progress_user;
};
/* plan [tiles * GR_BH_STREAMS], borrowed, as are the matrices in it, until close. Builds, or reads the file of the cache; a file that is
 * damaged or of other weights is built anew and says so in the note. The same bytes for any number of threads. */
enum gr_status gr_bh_arena_open(const struct gr_bh_stream_plan *plan, int tiles, const struct gr_bh_arena_cfg *cfg,
                                struct gr_bh_arena **out, struct gr_err *err);
void gr_bh_arena_close(struct gr_bh_arena *arena);
const void *gr_bh_arena_stream(const struct gr_bh_arena *arena, int tile, int stream); /* bytes of the plan */
uint64_t gr_bh_arena_bytes(const struct gr_bh_arena *arena);
enum gr_cache_state gr_bh_arena_cache(const struct gr_bh_arena *arena);
const char *gr_bh_arena_file(const struct gr_bh_arena *arena); /* "": none */
const char *gr_bh_arena_note(
    const struct gr_bh_arena *arena); /* why a stored file was not used or could not be written; "": nothing to say */
/* To the DRAM of the machine, with progress. */
enum gr_status gr_bh_arena_upload(const struct gr_bh_arena *arena, struct gr_bh_machine *m, struct gr_err *err);
/* "name<TAB>relative rms error" for every matrix, largest first, to `line`; nothing when the arena came from the cache. */
void gr_bh_arena_report(const struct gr_bh_arena *arena, void (*line)(void *user, const char *text), void *user);

#endif
