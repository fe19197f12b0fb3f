/* SPDX-License-Identifier: Apache-2.0
 *
 * gr00t.h: libgr00t. Open a GR00T N1.6 snapshot, turn observations into action chunks, close.
 *
 *     gr_policy_open -> gr_policy_info -> gr_chunk_new -> gr_policy_predict ... -> gr_chunk_free, gr_policy_close
 *
 * Data flows one way: observation in, chunk out. A policy computes one predict at a time; calls on one policy must not overlap, but for
 * gr_policy_encode and gr_policy_set_cancel (different policies are independent). Nothing here prints, exits or reads the
 * environment. All strings are UTF-8. Functions that fail return a status and fill `err` (never NULL). */
#ifndef GR00T_H
#define GR00T_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gr00t_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define GR00T_VERSION "0.1.0"

enum gr_state_dtype { GR_STATE_F32, GR_STATE_F64 };
enum gr_noise_kind { GR_NOISE_SEED, GR_NOISE_GIVEN };
enum { GR_DEFAULT_SEED = 42, GR_INSTRUCTION_MAX_CHARS = 2000, GR_SIDE_MIN = 64, GR_SIDE_MAX = 4096 };

/* Called from the thread that called gr_policy_open, at most some tens of times a second.
 * what   a static text: "pack weights", "compute constants", "store packed weights", or "read packed weights" alone, "upload weights" (to a
 *        card), done/total in bytes; "calibrate", "try a policy", done/total in predicts. */
typedef void (*gr_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

/* Zero-initialise, then set what differs from the default. All pointers are borrowed during the call. */
struct gr_options {
    const char *embodiment;    /* tag in embodiment_id.json; NULL: "gr1" */
    const char *tokenizer_dir; /* vocab.json and merges.txt, or tokenizer.json; NULL: <snapshot>/tokenizer */
    const char *device;        /* "cpu" or "blackhole"; NULL: "cpu" */
    /* Number formats of weights and activations, from exact to fast: "exact" (fp32), "high", "balanced", "fast", "mixed", "fastest".
     * NULL or "auto": the fastest of them whose chunks agree with the exact ones on this snapshot. */
    const char *precision;
    const char *half;        /* 16-bit format to use: "f16", "bf16p", "i16"; NULL: the fastest on this CPU, measured */
    bool remeasure;          /* choose anew although a choice is stored in cache_dir */
    bool no_prefix_cache;    /* compute the prompt's text anew in every predict: same bits, slower */
    const char *cpu;         /* highest instruction set to use: "scalar", "avx2", ... "amx"; NULL: what the CPU has */
    int threads;             /* compute threads; 0: CPUs this process may really use */
    int max_text_tokens;     /* longest instruction in tokens (L_max); 0: 2048 on a CPU, 24 on a card */
    const char *cache_dir;   /* folder for packed weights, made when missing; NULL: nothing is kept on disk */
    gr_progress_fn progress; /* may be NULL */
    void *progress_user;
    /* Of device "blackhole" alone, which takes no precision but "auto" and no half. */
    int card;              /* N of /dev/tenstorrent/N */
    const char *simulator; /* libttsim.so in place of a card; NULL: a card. One a process */
    const char *arena;     /* format of the weights in the card's memory, "bf16" or "bfp8_b"; NULL or "auto": bfp8_b */
    const char *
        dit_backend; /* "megakernel": a predict is one launch; "ops": one a tap, for debugging, same bits. NULL: "megakernel" */
    int command_queues; /* 1 or 2, same bits; 0: 2 */
};

/* One camera picture, [height, width, 3] uint8 sRGB, row-major, sides GR_SIDE_MIN..GR_SIDE_MAX. Borrowed. */
struct gr_frame {
    const uint8_t *rgb;
    int height, width;
};

enum gr_cache_state {
    GR_CACHE_OFF,      /* no cache_dir */
    GR_CACHE_WARM,     /* weights came from the cache */
    GR_CACHE_WRITTEN,  /* packed from the snapshot, then stored */
    GR_CACHE_UNWRITTEN /* packed from the snapshot, could not be stored */
};

/* A group of joints inside the state or action vector. `name` is owned by the policy. */
struct gr_group {
    const char *name;
    int dim;
    bool relative; /* action groups: the model predicts an offset that is already composed onto the state */
};

/* A chunk of the served number formats against the exact one, on an observation the policy made itself. */
struct gr_fidelity {
    double pcc, pcc_slice;   /* physical actions; normalised chunk; NaN: constant */
    double max_abs;          /* radians */
    double worst_pcc;        /* of the action groups, without those that pass by their difference alone */
    const char *worst_group; /* "": all pass by their differences */
    bool gate;               /* false: took no part in the choice */
    bool pass;
};

/* A Blackhole card, or the simulator, and the program on it. Numbers that it does not tell are 0, texts "". */
struct gr_card_info {
    bool simulator;
    int number;                     /* N of its node */
    const char *node;               /* "/dev/tenstorrent/0", "ttsim 1.10.0" */
    const char *board, *pci, *note; /* "p150a", "0000:01:00.0"; note: what the log should warn of, NULL: nothing */
    uint64_t serial;
    uint32_t firmware[4], driver[3], aiclk_mhz, dram_mts;
    int tiles, channels;     /* Tensix tiles, DRAM channels of 4 GiB that work */
    const char *dit_backend; /* "megakernel", "ops" */
    const char *arena;       /* "bf16", "bfp8_b" */
    int command_queues;
    bool uploads_overlap;       /* most inputs of the next request are written while a program runs */
    int tiles_used;             /* by the program */
    uint32_t operations;        /* of one request on each of them, loops unrolled */
    uint32_t l1_bytes, l1_used; /* of a tile's memory: for lists and data; in use, code included */
    double open_ms, build_ms, pack_ms, upload_ms,
        start_ms; /* chip, program, weights from snapshot or cache, to the card, cores */
};

/* What an opened policy expects and returns. Owned by the policy, constant until it is closed. */
struct gr_info {
    const char *model_type; /* "Gr00tN1d6" */
    const char *embodiment; /* tag */
    int embodiment_slot;
    int n_cameras, frames_per_camera; /* frames of an observation: n_cameras * frames_per_camera */
    const char *const *cameras;       /* keys in the order of modality_keys */
    int n_state_groups, state_dim;    /* state vector: groups side by side */
    const struct gr_group *state_groups;
    int n_action_groups, action_dim; /* chunk row: groups side by side */
    const struct gr_group *action_groups;
    int action_steps;            /* rows of a chunk: 16 for gr1 */
    int horizon, max_action_dim; /* noise and normalised chunk: [horizon, max_action_dim] = [50, 128] */
    int max_text_tokens;
    const char *device, *isa;        /* "cpu", "avx512"; "blackhole", "tensix" */
    const struct gr_card_info *card; /* NULL: a CPU */
    int threads;
    uint64_t weight_bytes;       /* packed weights in memory, or in that of the card */
    uint64_t tensor_bytes;       /* all tensors in the snapshot's files */
    int n_tensors, n_skipped;    /* tensors of the snapshot that the network uses, and others */
    uint64_t skipped_bytes;      /* of the others */
    const char *precision_asked; /* "auto" */
    const char *precision;       /* what is served: "mixed"; on a card its arena, "bfp8_b" */
    const char *precision_step;  /* exactly: may lie between two names, "mixed, llm 8" */
    const char *half;            /* "f16", "bf16p", "i16": 16-bit format of this CPU */
    int n_fidelity;              /* 0 for exact; else 5, the third one for the report */
    struct gr_fidelity fidelity[5];
    double load_ms;
    char weights_content[17]; /* checksum over all of their bytes; "" without a cache folder */
    char weights_digest[65];  /* identifies the weights: hex SHA-256 over all tensor headers and sampled blocks */
    enum gr_cache_state cache;
    const char *cache_file; /* packed weights on disk, NULL: none */
    const char *cache_note; /* one line: why a stored file was not used or could not be written; NULL: nothing to say */
};

/* One request. Everything is borrowed by gr_policy_predict and not kept. */
struct gr_observation {
    const struct gr_frame *frames; /* time-major: all cameras of the oldest time first, cameras in gr_info order */
    int n_frames;
    const double *state; /* [state_dim] physical units (radians), finite, groups in gr_info order */
    int state_dim;
    enum gr_state_dtype state_dtype; /* values are rounded to this type first */
    const char *instruction;         /* 1..2000 characters, white space at both ends is stripped */
    enum gr_noise_kind noise_kind;
    uint64_t seed;      /* 0..2^63-1 when noise_kind is GR_NOISE_SEED */
    const float *noise; /* [horizon, max_action_dim], finite, within +-10000, when GR_NOISE_GIVEN */
};

/* Wall time of one predict, milliseconds. */
struct gr_timing {
    double encode;                        /* image chain, tokenizer, state, noise */
    double vision, llm, adapter, denoise; /* device stages; adapter = vlln, state encoder, cross keys/values */
    double device;                        /* all device stages */
    double decode_actions;
    double total;
    int n_prefix; /* not a time: rows of the language model that were taken from the prefix cache */
};

/* One answer; memory from gr_chunk_new, reused by each predict. */
struct gr_chunk {
    int steps, dim; /* actions: [steps, dim] float32, physical units, action groups side by side */
    float *actions;
    int horizon, max_action_dim; /* normalized: [horizon, max_action_dim] float32, model space */
    float *normalized;
    int n_tokens; /* sequence length S */
    int n_text;   /* instruction tokens */
    struct gr_timing timing;
};

/* A decoded picture file. Free with gr_image_free. */
struct gr_image {
    uint8_t *rgb;         /* [height, width, 3], owned */
    int height, width;    /* as stored; EXIF rotation is never applied */
    int exif_orientation; /* 1 when absent or not JPEG */
};

struct gr_policy;

/* Opens snapshot folder `dir`, packs its weights for the device and gets ready to predict.
 *
 * dir     a folder as published: config.json, processor_config.json, statistics.json, embodiment_id.json
 *         and *.safetensors, one file or shards with an index.
 * options may be NULL.
 * out     the policy; close with gr_policy_close. Untouched on failure.
 *
 * GR_ERR_FORMAT: snapshot damaged, incomplete or unsupported, no tokenizer. GR_ERR_USAGE: unknown option value.
 * GR_ERR_INPUT: unknown embodiment (lists the known ones). GR_ERR_DEVICE: this CPU lacks options->cpu; the card is missing, busy or
 * broken, or the network does not fit it: there is no change to another device. GR_ERR_IO, GR_ERR_NOMEM.
 * A cache that is damaged, foreign, unreadable or cannot be written never fails the call: see gr_info.cache_note.
 * The snapshot's files must not change until the policy is closed: they stay mapped, and a shortened one raises SIGBUS. */
enum gr_status gr_policy_open(const char *dir, const struct gr_options *options, struct gr_policy **out,
                              struct gr_err *err);

/* Facts about an open policy. Never fails. */
const struct gr_info *gr_policy_info(const struct gr_policy *policy);

/* Computes one chunk. Allocates nothing. Same observation, same bits: whatever came before, whatever the
 * number of threads. GR_ERR_INPUT: the observation is wrong (`err` says which part); GR_ERR_DEVICE: ours;
 * GR_ERR_BUSY: cancelled.
 * `out` must come from gr_chunk_new of the same policy; its contents are undefined on failure. */
enum gr_status gr_policy_predict(struct gr_policy *policy, const struct gr_observation *obs, struct gr_chunk *out,
                                 struct gr_err *err);

/* The two halves of a predict, so that the next observation is made ready while one is computed:
 *
 *     gr_policy_encode(policy, obs, request) ; any thread      gr_policy_predict_encoded(policy, request, chunk) ; the computing thread
 *
 * A request is memory for one encoded observation: gr_policy_encode fills it, any number of gr_policy_predict_encoded read it. It must not
 * be filled while it is read; two that alternate are enough. Free it before or after its policy is closed. */
struct gr_encoded;
enum gr_status gr_policy_encoded_new(const struct gr_policy *policy, struct gr_encoded **out,
                                     struct gr_err *err); /* GR_ERR_NOMEM */
void gr_encoded_free(struct gr_encoded *request);         /* NULL is allowed */

/* Image chain, tokenizer, state and noise of obs into request, which keeps nothing of obs. Safe from any thread, also while a
 * predict of the same policy runs; allocates nothing. GR_ERR_INPUT: the observation is wrong; GR_ERR_BUSY: cancelled. */
enum gr_status gr_policy_encode(struct gr_policy *policy, const struct gr_observation *obs, struct gr_encoded *request,
                                struct gr_err *err);

/* Computes the chunk: same bits and statuses as gr_policy_predict with that observation. timing.encode is what gr_policy_encode took. */
enum gr_status gr_policy_predict_encoded(struct gr_policy *policy, const struct gr_encoded *request,
                                         struct gr_chunk *out, struct gr_err *err);

/* While set, a running predict ends at the next layer and new ones at once, both with GR_ERR_BUSY. Safe from any thread. */
void gr_policy_set_cancel(struct gr_policy *policy, bool cancel);

/* Releases everything. NULL is allowed. */
void gr_policy_close(struct gr_policy *policy);

/* Memory for the answers of this policy; free with gr_chunk_free, also after the policy is closed. GR_ERR_NOMEM. */
enum gr_status gr_chunk_new(const struct gr_policy *policy, struct gr_chunk **out, struct gr_err *err);
void gr_chunk_free(struct gr_chunk *chunk); /* NULL is allowed */

/* Decodes a PNG or JPEG file in memory to RGB exactly as Pillow's convert("RGB") does.
 * GR_ERR_INPUT: unknown type, damaged or truncated data, side outside GR_SIDE_MIN..GR_SIDE_MAX, 16-bit grey. */
enum gr_status gr_image_decode(const void *bytes, size_t n_bytes, struct gr_image *out, struct gr_err *err);
void gr_image_free(struct gr_image *image); /* frees rgb, clears the struct */

/* Version of the library, as GR00T_VERSION at its build. */
const char *gr_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
