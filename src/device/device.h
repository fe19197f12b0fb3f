/* SPDX-License-Identifier: Apache-2.0
 *
 * device.h: the seam between the policy and whatever computes the network. The policy calls nothing else. */
#ifndef GR_DEVICE_DEVICE_H
#define GR_DEVICE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "device/plan.h"
#include "gr00t.h"
#include "model/weights.h"

struct gr_device;

struct gr_device_cfg {
    int threads;                    /* >= 1 */
    unsigned cpu_flags;             /* enum gr_cpu_flags the kernels may use */
    int max_images;                 /* frames of one observation */
    int max_tokens;                 /* longest sequence S */
    int slot;                       /* embodiment slot of the per-embodiment layers */
    int32_t image_token;            /* id whose rows are replaced by image tokens */
    const char *cache_dir;          /* folder for packed weights; NULL: none */
    const char *weights_content;    /* checksum of all their bytes, the same */
    const char *weights_digest;     /* hex, part of the cache's key; set when cache_dir is */
    const char *calibration_digest; /* hex, of what else the chunks of a calibration depend on; beside weights_digest */
    const char *policy;             /* "auto", "exact", "high", "balanced", "fast", "mixed", "fastest" */
    const char *half;               /* 16-bit format to use: "f16", "bf16p", "i16"; NULL: the fastest measured */
    bool remeasure;                 /* ignore a stored plan */
    bool no_prefix_cache;           /* compute the rows before the image anew in every predict */
    gr_progress_fn progress;
    void *progress_user;
    int card; /* this and what follows: as in struct gr_options */
    const char *simulator, *arena, *dit_backend;
    int command_queues;
};

/* One predict. Borrowed. */
struct gr_model_input {
    int n_images;
    const float *pixels; /* [n_images, 3, image_side, image_side] */
    int n_tokens;
    const int32_t *ids;         /* [n_tokens] */
    const float *state;         /* [max_state] */
    const float *noise;         /* [horizon, max_action] */
    const _Atomic bool *cancel; /* while true the predict ends at the next layer with GR_ERR_BUSY; NULL: never */
    bool reference;             /* compute on the reference path */
    uint64_t serial;            /* of the observation: no other in this process has it; 0: it may be any */
};
/* The observation of the predict that follows, when somebody knows it: fills *in, which stays as it is until the predict that asked returns. */
typedef bool (*gr_next_input_fn)(void *user, struct gr_model_input *in);

/* What the device needs to choose number formats: observations, and somebody who knows what a chunk means. Borrowed during load, whose
 * thread calls both. */
struct gr_calibration {
    /* Encodes observation i < GR_PLAN_OBSERVATIONS at its first call; what *in points to stays until load returns. */
    enum gr_status (*input)(void *user, int i, struct gr_model_input *in, struct gr_err *err);
    /* action and exact [horizon, max_action] of observation i. An action that cannot be decoded does not pass. */
    void (*judge)(void *user, int i, const float *exact, const float *action, struct gr_verdict *out);
    void *user;
};

/* What became of the packed weights on disk. Texts live as long as the device. */
struct gr_device_cache {
    enum gr_cache_state state;
    const char *file, *note;
};

/* Receives intermediate results by the names of spec/README.md, e.g. "dit.block3.step1". rows x cols values, row stride ld floats,
 * valid during the call only. NULL sink: nothing is computed or copied for it. */
struct gr_tap_sink {
    void (*put)(void *user, const char *name, const float *data, int rows, int cols, int ld);
    void *user;
};

struct gr_device_ops {
    const char *name; /* "cpu" */
    int text_tokens;  /* longest instruction when nobody asks for one */
    /* Finds what makes an open fail before anything else is read; of *cfg only what the options say counts. NULL: nothing. */
    enum gr_status (*probe)(const struct gr_device_cfg *cfg, struct gr_err *err);
    enum gr_status (*open)(const struct gr_device_cfg *cfg, struct gr_device **dev, struct gr_err *err);
    /* Packs the weights, or takes them from the cache; w may be freed afterwards, its snapshot stays open as long as the device (embedding
     * rows are read from it). calibration may be NULL when the policy is exact. */
    enum gr_status (*load)(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                           struct gr_err *err);
    /* action [horizon, max_action] float32: the network's normalised actions. No allocation. in->reference only where reference_isa is not
     * NULL. */
    enum gr_status (*predict)(struct gr_device *dev, const struct gr_model_input *in, float *action,
                              struct gr_timing *t, const struct gr_tap_sink *taps, struct gr_err *err);
    /* A device that takes inputs while it computes asks for them here, in the thread of predict; no bit depends on it. NULL: it does not. */
    void (*set_next)(struct gr_device *dev, gr_next_input_fn next, void *user);
    void (*close)(struct gr_device *dev);
    const char *(*isa)(const struct gr_device *dev);
    const char *(*reference_isa)(const struct gr_device *dev); /* kernels of the reference path; NULL: there is none */
    uint64_t (*weight_bytes)(const struct gr_device *dev);
    struct gr_device_cache (*cache)(const struct gr_device *dev);
    const struct gr_card_info *(*card)(const struct gr_device *dev); /* of a loaded device; NULL: it is no card */
    /* Of a loaded device. This and find_plan are NULL for a device that chooses no number formats. */
    const struct gr_plan *(*plan)(const struct gr_device *dev);
    /* The plan that a load with this cfg would find stored, without loading anything. GR_ERR_IO: none. Free with gr_plan_free. */
    enum gr_status (*find_plan)(const struct gr_device_cfg *cfg, const struct gr_dims *dims, struct gr_plan *out,
                                struct gr_err *err);
};

extern const struct gr_device_ops gr_device_cpu, gr_device_blackhole;

/* Device by name, NULL when this build has none of that name. */
const struct gr_device_ops *gr_device_find(const char *name);
/* "cpu, blackhole" */
extern const char gr_device_names[];

#endif
