/* SPDX-License-Identifier: Apache-2.0
 *
 * policy.h: what commands of this program may see of a policy beyond the public header: taps and the pieces of a
 * request before and after the network. */
#ifndef GR_POLICY_POLICY_H
#define GR_POLICY_POLICY_H

#include "device/device.h"
#include "gr00t.h"
#include "model/config.h"

const struct gr_config *gr_policy_config(const struct gr_policy *p);
/* Dimensions completed from the tensor shapes. */
const struct gr_dims *gr_policy_dims(const struct gr_policy *p);
/* Number formats of the matrices, and how they were chosen; NULL: the device has exact arithmetic only. */
const struct gr_plan *gr_policy_plan(const struct gr_policy *p);

/* gr_policy_predict that also hands out every tap of spec/README.md, plus "pixel_values" [3*side, side], "input_ids" (as float), "state",
 * "noise". */
enum gr_status gr_policy_predict_taps(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                      const struct gr_tap_sink *taps, struct gr_err *err);

/* gr_policy_predict on the reference path: another set of kernels than the served one where this machine has a fast one. With
 * weights in a low-precision format it runs the same packed weights: it finds faults of the fast kernels, not what the format costs,
 * which the plan says. A card has no such path: the exact network is packed for the CPU, used once and freed, which takes seconds.
 * *kernels: name of the set ("avx2"), static text. */
enum gr_status gr_policy_predict_reference(struct gr_policy *p, const struct gr_observation *obs, struct gr_chunk *out,
                                           const char **kernels, struct gr_err *err);

/* Who may know which request the gr_policy_predict_encoded after this one gets: a device that takes inputs while it computes writes them
 * already. Asked in the thread of a predict, any number of times while it runs; what it returns stays filled and unchanged until that
 * predict returns; NULL: nobody knows. A hint: no bit depends on it, and another request may follow. */
typedef const struct gr_encoded *(*gr_next_fn)(void *user);
/* next NULL: nobody is asked any more. Not while a predict runs. A device that takes no inputs then, such as the CPU, never asks. */
void gr_policy_set_next(struct gr_policy *p, gr_next_fn next, void *user);

/* gr_progress_fn: done and total of `what` are predicts, not bytes. */
bool gr_progress_counts(const char *what);

/* The plan that gr_policy_open with these options would find in o->cache_dir. Opens the snapshot's files, packs and computes nothing.
 * GR_ERR_IO: there is none; else statuses of gr_policy_open. Free with gr_plan_free. */
enum gr_status gr_policy_find_plan(const char *dir, const struct gr_options *o, struct gr_plan *out,
                                   struct gr_err *err);
/* GR_ERR_USAGE, listing the known names, when options->precision or options->half is none. NULL is one. */
enum gr_status gr_policy_check_formats(const char *precision, const char *half, struct gr_err *err);

#endif
