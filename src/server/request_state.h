/* SPDX-License-Identifier: Apache-2.0
 *
 * request_state.h: a JSON object of joint groups to the state vector: the one reader for requests and for state files. */
#ifndef GR_SERVER_REQUEST_STATE_H
#define GR_SERVER_REQUEST_STATE_H

#include <stdbool.h>

#include "base/json.h"
#include "server/request.h"

/* Groups by exact name in any order, each [D] or [[D]]. finite_f32: values that are infinite as float32 are refused too.
 * out [info->state_dim]. GR_ERR_SCHEMA: wrong JSON type; GR_ERR_INPUT: name, width, not finite. Field paths begin with "state". */
enum gr_status gr_request_state(const struct gr_json *state, const struct gr_info *info, bool finite_f32, double *out,
                                struct gr_request_error *why, struct gr_err *err);
/* True when v rounded to float32 is infinite. */
bool gr_overflows_f32(double v);

#endif
