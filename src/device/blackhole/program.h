/* SPDX-License-Identifier: Apache-2.0
 *
 * program.h: the list of tile operations that the five cores of every Tensix tile walk through without the host. Shared by the
 * builder (host), the CPU interpreter (host) and the kernels (rv32), so it includes nothing but stdint.h.
 *
 * One operation computes, for every output tile (n, m), n outer:
 *
 *     Dst      = sum over segments s, sum over k   A_s[m, n, k] (*) B_s[m, n, k]        fp32
 *     out[m,n] = function(Dst)                                                          rounded to out_fmt by the packer
 *
 * where (*) is a 32x32x32 matrix product (A left, B right), an element-wise product, or the column maximum of B. Tiles are 32x32, four
 * 16x16 faces (tile_format.h). A may be bf16 or fp32 (read as tf32: 11 significand bits), B bf16, bfp8_b or fp32. `phases` fidelity passes
 * of the FPU: 4 for bf16 x bf16, 3 are as good for bfp8_b weights. The result goes to L1, where OP_ACCUMULATE adds it in fp32 onto what is there, then
 * to the tiles of the operation's destination list, then, with OP_BARRIER, nobody goes on before everybody is here.
 *
 * Roles: N streams weights into the ring, T0 unpacks, T1 multiplies, T2 packs, B sends and runs barriers. Each walks the same list; they
 * meet in counters in L1 (enum gr_bh_flag). T0 starts operation number i (counted over everything executed, loops unrolled) when
 * done >= i - back, and i < limit. The host moves `limit`: by a whole request (megakernel), or by one operation (ops). */
#ifndef GR_BLACKHOLE_PROGRAM_H
#define GR_BLACKHOLE_PROGRAM_H

#include <stdint.h>

/* L1 map, the same on every tile. */
#define GR_BH_HOLD 0x00F0u   /* soft-reset bits of the cores that B leaves in reset */
#define GR_BH_ARGS 0x0100u   /* 64 words for small programs */
#define GR_BH_STATUS 0x0200u /* one word a core: operation << 8 | enum gr_bh_wait */
#define GR_BH_FLAGS 0x0300u  /* enum gr_bh_flag, 16 bytes apart */
#define GR_BH_CODE 0x1000u   /* core c at GR_BH_CODE + c * GR_BH_CODE_BYTES */
#define GR_BH_CODE_BYTES 0x2000u
#define GR_BH_PROGRAM 0xB000u /* struct gr_bh_head; free L1 follows its lists */
#define GR_BH_L1_END 0x180000u

/* L1 format codes of a tile (Tensix's own numbers). */
enum gr_bh_format { GR_BH_FP32 = 0, GR_BH_BF16 = 5, GR_BH_BFP8 = 6 };
#define GR_BH_TILE_BYTES(f) ((f) == GR_BH_FP32 ? 4096u : (f) == GR_BH_BF16 ? 2048u : 1088u)

enum gr_bh_segment_flag {
    GR_BH_SEG_ELEMENT = 1,   /* element-wise product instead of a matrix product */
    GR_BH_SEG_TRANSPOSE = 2, /* B is read transposed */
    GR_BH_SEG_RING = 4,      /* b is an offset inside the chunk of this output column */
    GR_BH_SEG_MAX =
        8 /* Dst row 0 = maximum over k and over the 32 rows of B, per column; the other rows are 0. A is a tile of ones.
                                The only segment of its operation, which has no function; values are cut to tf32 */
};
enum gr_bh_op_flag {
    GR_BH_OP_ACCUMULATE = 1, /* pack adds onto out (fp32 or bf16 out) */
    GR_BH_OP_BARRIER = 2,    /* after all outputs are sent */
    GR_BH_OP_ROW = 4         /* destinations get row 0 of the fp32 output only: two pieces of 64 bytes, 1024 apart */
};

/* Functions of the SFPU on the fp32 Dst tile, element by element. */
enum gr_bh_function {
    GR_BH_NONE,
    GR_BH_EXP,  /* 0 for what is below 2^-126; at most 2^64, also for what is not a number */
    GR_BH_GELU, /* tanh form: x / (1 + exp(-1.5957691 (x + 0.044715 x^3))) */
    GR_BH_SILU, /* x / (1 + exp(-x)) */
    GR_BH_RELU,
    GR_BH_RECIP,  /* 1 / x, x > 0 */
    GR_BH_RSQRT,  /* 1 / sqrt(x + arg), x + arg > 0 */
    GR_BH_SCALE,  /* x * arg */
    GR_BH_SQUARE, /* x * x * arg */
    GR_BH_FUNCTIONS
};

/* Byte addresses in L1 and byte strides by m, n, k and the index of the innermost loop around the operation. */
struct gr_bh_segment {
    uint32_t flags;
    uint16_t fmt_a, fmt_b;
    uint32_t kcount;
    uint32_t a, a_m, a_n, a_k, a_i;
    uint32_t b, b_m, b_n, b_k, b_i; /* GR_BH_SEG_RING: only b, b_k count */
};

enum gr_bh_kind {
    GR_BH_COMPUTE, /* as above; mt * nt may be 0: this tile only takes part in the barrier */
    GR_BH_LOOP, /* the following operations up to GR_BH_NEXT, `count` times; streams in `rewind` start every round at the same place */
    GR_BH_NEXT,
    GR_BH_END /* the request is complete: start from the top with all streams rewound */
};

enum { GR_BH_SEGMENTS = 3, GR_BH_STREAMS = 2, GR_BH_NESTING = 3 };

struct gr_bh_op {
    uint16_t kind, flags;
    uint16_t count;  /* LOOP */
    uint16_t rewind; /* LOOP: bit s = stream s */
    uint16_t mt, nt, nseg, phases;
    uint16_t function, out_fmt;
    uint16_t stream; /* of chunk */
    uint16_t back;   /* how many of the operations just before need not be complete; 0: all must */
    uint32_t arg;    /* fp32 bits for the function */
    uint32_t chunk;  /* bytes streamed per output column, a multiple of 64; 0: none */
    uint32_t out, out_m, out_n, out_i;
    uint32_t to, to_m, to_n, to_i; /* address in the destinations */
    uint16_t dest, dests;          /* entries of the destination list */
    uint32_t tap;                  /* number of this operation for the host; no meaning on the device */
    struct gr_bh_segment seg[GR_BH_SEGMENTS];
};

/* Rectangle (x | y << 6 of its corners) that an output is sent to; corners equal: one tile. `tiles` counts the acknowledgements: tiles of
 * the rectangle, less this one unless `self`. */
struct gr_bh_dest {
    uint32_t xy0, xy1;
    uint16_t tiles, self;
};

struct gr_bh_stream {
    uint32_t dram_xy, lo, hi; /* address of its first byte, a multiple of 64 */
};

struct gr_bh_head {
    uint32_t ops, dests;       /* lengths of the lists: gr_bh_op[ops], then gr_bh_dest[dests], right after this head */
    uint32_t me, tiles;        /* number of this tile in the group; tiles that meet at barriers. Tile 0 is the hub */
    uint32_t hub_xy, xy0, xy1; /* the group's rectangle: release words go to all of it */
    uint32_t release_tiles;    /* acknowledgements of a release: tiles of the rectangle without the hub */
    uint32_t ring,
        ring_bytes; /* 64-byte aligned; a chunk never wraps: one that does not fit before the end starts at 0 */
    struct gr_bh_stream stream[GR_BH_STREAMS];
};

/* Words in L1, 16 bytes apart. Counters wrap at 2^32 and are compared by signed difference. */
enum gr_bh_flag {
    GR_BH_F_READY,       /* T1 has configured the coprocessor */
    GR_BH_F_LIMIT,       /* operations that may start: written by the host */
    GR_BH_F_DONE,        /* operations complete */
    GR_BH_F_PACKED,      /* output tiles in L1 */
    GR_BH_F_PRODUCED,    /* chunks in the ring */
    GR_BH_F_CONSUMED,    /* bytes of the ring released, ends that were skipped included */
    GR_BH_F_GATHER,      /* hub: arrivals at barriers */
    GR_BH_F_SCRATCH,     /* old value of an atomic add */
    GR_BH_F_RELEASE,     /* barriers passed */
    GR_BH_F_RELEASE_SRC, /* hub: what it sends */
    GR_BH_FLAGS_COUNT
};
enum gr_bh_wait {
    GR_BH_W_RUN,
    GR_BH_W_LIMIT,   /* for the host */
    GR_BH_W_DEPEND,  /* for earlier operations */
    GR_BH_W_CHUNK,   /* for weights in the ring */
    GR_BH_W_SPACE,   /* for room in the ring */
    GR_BH_W_READ,    /* for DRAM */
    GR_BH_W_PACKED,  /* for the packer */
    GR_BH_W_ACK,     /* for write acknowledgements */
    GR_BH_W_BARRIER, /* for the other tiles */
    GR_BH_W_CONFIG,  /* for the coprocessor's configuration */
    GR_BH_W_MATH,    /* for a tile of results */
    GR_BH_W_COUNT
};

/* Walk over the list with its loops: the one definition of program order for kernels and interpreter. */
struct gr_bh_walk {
    uint32_t pc, depth;
    struct {
        uint32_t body, left, index;
    } loop[GR_BH_NESTING];
};
enum gr_bh_step { GR_BH_STEP_OP, GR_BH_STEP_ENTER, GR_BH_STEP_AGAIN, GR_BH_STEP_END };

/* Advances to the next COMPUTE operation or event. OP: *op is the operation to do, index its loop index. ENTER: *op is a LOOP whose rounds
 * begin: note the positions of its streams. AGAIN: *op is the LOOP whose next round begins: put them back. END: the request is complete. */
static inline enum gr_bh_step gr_bh_next(struct gr_bh_walk *w, const struct gr_bh_op *ops, const struct gr_bh_op **op,
                                         uint32_t *index)
{
    for (;;) {
        const struct gr_bh_op *o = &ops[w->pc];
        *op = o;
        switch (o->kind) {
        case GR_BH_COMPUTE:
            w->pc++;
            *index = w->depth ? w->loop[w->depth - 1].index : 0;
            return GR_BH_STEP_OP;
        case GR_BH_LOOP:
            w->pc++;
            w->loop[w->depth].body = w->pc;
            w->loop[w->depth].left = o->count;
            w->loop[w->depth].index = 0;
            w->depth++;
            return GR_BH_STEP_ENTER;
        case GR_BH_NEXT:
            if (--w->loop[w->depth - 1].left) {
                w->loop[w->depth - 1].index++;
                w->pc = w->loop[w->depth - 1].body;
                *op = &ops[w->pc - 1];
                return GR_BH_STEP_AGAIN;
            }
            w->depth--;
            w->pc++;
            break;
        default:
            w->pc = 0;
            w->depth = 0;
            return GR_BH_STEP_END;
        }
    }
}

#endif
