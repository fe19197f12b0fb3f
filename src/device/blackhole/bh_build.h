/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_build.h: building the operation lists of all tiles of a group, their L1 layout and the plan of their streams.
 *
 * How a network lies on the tiles: column tile n (32 columns) of the residual stream belongs to tile n and stays there in fp32; what
 * products need whole (normalised rows, attention output, hidden columns) is gathered on every tile by multicast, in bf16. So the L1
 * layout is the same on every tile, a buffer has one address, and an operation differs between tiles only in which columns it computes.
 * Widths and rows are padded to whole tiles with zeros. A width has at most as many column tiles as the group has tiles. */
#ifndef GR_BLACKHOLE_BH_BUILD_H
#define GR_BLACKHOLE_BH_BUILD_H

#include "device/blackhole/arena.h"
#include "device/blackhole/machine.h"
#include "device/blackhole/program.h"

/* Buffer of mt x nt tiles in L1: tile (m, n) at addr + m * m_stride + n * n_stride. */
struct gr_bh_buf {
    uint32_t addr, m_stride, n_stride;
    uint16_t mt, nt;
    enum gr_bh_format fmt;
};

enum gr_bh_place {
    GR_BH_EVERYWHERE, /* [mt, nt] on every tile */
    GR_BH_COLUMNS     /* [mt, nt]: column n of the logical array on tile n mod tiles, as column n / tiles there */
};
/* An array that the host writes before, or reads after, a request: rows x cols values at `row0` of the padded buffer. */
struct gr_bh_io {
    const char *name;
    struct gr_bh_buf buf;
    enum gr_bh_place place;
    int row0, rows, cols;
    const int *row; /* [rows] where row r lies, borrowed as long as the program lives; NULL: at row0 + r */
    int groups,
        columns; /* GR_BH_COLUMNS in row groups: group g has the rows from g * buf.mt tiles on, and its columns are on the
                            `columns` tiles from g * columns on; 0: one group of all tiles */
    /* Operations (loops unrolled) that must be complete on tile 0 before it is read; an input: before the next request's is written. */
    uint32_t after;
};

/* Tiles that n rows or columns need. */
static inline int gr_bh_tiles_of(int n) { return (n + 31) / 32; }

struct gr_bh_build; /* opaque; bh_build.c */

struct gr_bh_build_cfg {
    const struct gr_bh_grid *grid; /* borrowed */
    enum gr_bh_format weights;     /* of the streams */
    int weight_phases;             /* fidelity phases of weight products: 3 for bfp8_b, 4 for bf16 */
    uint32_t ring_bytes;           /* at least the longest chunk; 0: two of it, so that reading overlaps computing */
    bool ring_fits;                /* with 0: less than that when there is no room */
};
enum gr_status gr_bh_build_new(const struct gr_bh_build_cfg *cfg, struct gr_bh_build **out, struct gr_err *err);
void gr_bh_build_free(struct gr_bh_build *b);

/* Fidelity phases that leave nothing of weights of this format out. */
static inline int gr_bh_weight_phases(enum gr_bh_format weights) { return weights == GR_BH_BFP8 ? 3 : 4; }

const struct gr_bh_build_cfg *gr_bh_build_config(const struct gr_bh_build *b);

/* The first failure of any call below is kept and returned by gr_bh_build_finish; calls after it do nothing. gr_bh_build_fail is for
 * those who emit: GR_ERR_DEVICE. */
void gr_bh_build_fail(struct gr_bh_build *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* L1, given out from its end downwards: the lists grow up from GR_BH_PROGRAM, and the ring goes in between. A mark and going back to it
 * let what follows overlay what is dead. Full L1 is a failure that names the buffer, what it needs and what is left. */
struct gr_bh_buf gr_bh_alloc(struct gr_bh_build *b, const char *name, int mt, int nt, enum gr_bh_format fmt);
/* What comes next begins at or below `addr`; name of what lies above. */
void gr_bh_l1_leave(struct gr_bh_build *b, const char *name, uint32_t addr);
uint32_t gr_bh_l1_mark(const struct gr_bh_build *b);
void gr_bh_l1_release(struct gr_bh_build *b, uint32_t mark);
/* The lowest that was allocated since the last call of this function: how much a part of a program needs. */
uint32_t gr_bh_l1_lowest(struct gr_bh_build *b);
/* Constant tile, written to every tile at start. value(user, r, c). Equal constants share one tile. Constants are never overlaid: they lie
 * below all buffers, and their addresses are final after gr_bh_build_finish only. */
struct gr_bh_buf gr_bh_constant(struct gr_bh_build *b, const char *name, enum gr_bh_format fmt,
                                float (*value)(void *user, int r, int c), void *user);

/* The next operation, of all tiles: an array [tiles] of operations, zero but for kind, phases 4 and the tap number; the caller fills
 * those of the tiles that take part. Valid until the next call. */
struct gr_bh_op *gr_bh_emit(struct gr_bh_build *b);
/* Destinations and pieces belong to the operation of the last gr_bh_emit. Appends a destination of `tile`; those of one operation are
 * appended in a row. Returns its index. */
uint16_t gr_bh_dest_add(struct gr_bh_build *b, int tile, struct gr_bh_dest d);
/* All tiles of the group, itself included when self (a group of one tile: always). */
uint16_t gr_bh_dest_all(struct gr_bh_build *b, int tile, bool self);
uint16_t gr_bh_dest_tile(struct gr_bh_build *b, int tile, int to);
/* Tiles [first, first + tiles) in as few rectangles as their place in the grid allows, itself included when self. Their number in *count,
 * 0 when there is nobody. */
uint16_t gr_bh_dest_run(struct gr_bh_build *b, int tile, int first, int tiles, bool self, uint16_t *count);
/* Appends a piece to the stream of a tile and returns its bytes. chunk * nt of the operation must be the bytes of its pieces. */
uint32_t gr_bh_piece_add(struct gr_bh_build *b, int tile, int stream, struct gr_bh_piece p);

/* A loop, at most GR_BH_NESTING inside each other, after gr_bh_loop(b, count, rewind):
 *     for (i = 0; i < count; i++) { gr_bh_round(b, i); ...emit the same operations with the pieces of round i... } gr_bh_loop_end(b);
 * Operations of rounds after the first are compared with the first's and dropped; pieces of streams in `rewind` as well. */
void gr_bh_loop(struct gr_bh_build *b, int count, unsigned rewind);
void gr_bh_round(struct gr_bh_build *b, int i);
void gr_bh_loop_end(struct gr_bh_build *b);

void gr_bh_input(struct gr_bh_build *b, struct gr_bh_io io);
/* Readable when everything emitted so far is complete (in the round given by the build's loops). name is copied. */
void gr_bh_output(struct gr_bh_build *b, struct gr_bh_io io);
void gr_bh_tap(struct gr_bh_build *b, const char *name, struct gr_bh_buf buf, enum gr_bh_place place, int row0,
               int rows, int cols);
void gr_bh_tap_io(struct gr_bh_build *b, struct gr_bh_io io);

/* ------------------------------------------------------------------------------------------------------------- the result */

struct gr_bh_constant {
    uint32_t addr;
    enum gr_bh_format fmt;
    void *bytes;
};
struct gr_bh_program {
    const struct gr_bh_grid *grid;
    uint32_t executed;                     /* operations of one request, loops unrolled */
    bool meets;                            /* the last of them is a barrier */
    uint32_t l1_used;                      /* bytes, code and lists included */
    uint32_t data;                         /* L1 from here to its end: ring, buffers, constants */
    size_t list_bytes;                     /* of one tile: head, operations, destinations */
    void *const *list;                     /* [tiles] */
    const struct gr_bh_stream_plan *plan;  /* [tiles * GR_BH_STREAMS] */
    const struct gr_bh_constant *constant; /* to every tile */
    int constants;
    const struct gr_bh_io *input, *output, *tap;
    int inputs, outputs, taps;
    void *tiles; /* room to convert the largest array: one machine at a time runs a program */
    float *tap_values;
};
/* Ends the list, fixes addresses of rings and streams. *out lives as long as b. GR_ERR_DEVICE: what does not fit or was wrong. */
enum gr_status gr_bh_build_finish(struct gr_bh_build *b, const struct gr_bh_program **out, struct gr_err *err);

/* ------------------------------------------------------------------------------------------------- running one (bh_run.c) */

/* Writes zeros to all of the data part of L1, then lists and constants; the arena was uploaded. Starts the resident program. */
enum gr_status gr_bh_program_load(const struct gr_bh_program *p, struct gr_bh_machine *m, struct gr_err *err);
/* values [rows, cols]. An input owns its buffer, on every tile of the group: rows and columns around the values become zero. */
enum gr_status gr_bh_write_input(const struct gr_bh_program *p, struct gr_bh_machine *m, const char *name,
                                 const float *values, struct gr_err *err);
/* The same of rows that need not lie anywhere: values of row r [cols], valid until the next call; NULL: zeros. Every row is asked for several
 * times. */
typedef const float *(*gr_bh_row_fn)(void *user, int r);
enum gr_status gr_bh_write_rows(const struct gr_bh_program *p, struct gr_bh_machine *m, const char *name,
                                gr_bh_row_fn row, void *user, struct gr_err *err);
/* Part by part: of an array in columns a column of a row group, which goes to its tile alone; of one that is everywhere all. */
int gr_bh_io_parts(const struct gr_bh_io *io);
enum gr_status gr_bh_write_part(const struct gr_bh_program *p, struct gr_bh_machine *m, const struct gr_bh_io *io,
                                int i, gr_bh_row_fn row, void *user, struct gr_err *err);
enum gr_status gr_bh_read_io(const struct gr_bh_program *p, struct gr_bh_machine *m, const struct gr_bh_io *io,
                             float *values, struct gr_err *err);
const struct gr_bh_io *gr_bh_find_output(const struct gr_bh_program *p, const char *name);
/* One request: all at once, or with taps one stop a tap. */
typedef void (*gr_bh_tap_fn)(void *user, const char *name, const float *values, int rows, int cols);
enum gr_status gr_bh_program_run(const struct gr_bh_program *p, struct gr_bh_machine *m, gr_bh_tap_fn tap, void *user,
                                 struct gr_err *err);

#endif
