/* SPDX-License-Identifier: Apache-2.0
 *
 * request.h: the JSON body of POST /predict to an observation: fields, types, limits, base64, pictures. Names are matched exactly and
 * never by position. Knows gr_info, no tensor. One UTF-8 byte order mark in front is accepted; positions in messages count behind it.
 *
 * The words of gr_request_error.code:
 *
 *     422  invalid_json        the body is no JSON (message: line, column, byte)
 *          duplicate_key       a key twice in one object
 *          too_many_values     far more values than any request has
 *          unknown_field       the message names the nearest known one
 *          missing_field       images, state or the instruction is not there
 *          wrong_type          another JSON type than expected
 *          two_instructions    two of instruction, language, prompt
 *          unknown_value       state_dtype is neither float32 nor float64
 *          out_of_range        seed negative, fractional or too large; an integer beyond 64 bits
 *     400  unknown_camera      missing_camera     wrong_frame_count
 *          bad_base64          not base64 text: a foreign byte, wrong padding, a path, an address
 *          not_an_image        base64 of something else than PNG or JPEG (message: what it is)
 *          bad_image           PNG or JPEG that is damaged or has a side outside 64..4096
 *          unknown_group       missing_group      wrong_width
 *          not_finite          a number of state or noise, as written or after rounding to float32
 *          wrong_shape         noise
 *          noise_range         a number of noise beyond +-10000 (found by gr_policy_encode)
 *          seed_with_noise     both given
 *          unknown_embodiment  not the one that is served
 *          empty_instruction   nothing left after cleaning
 *          long_instruction    more than 2000 characters, or more tokens than the layout has (found by gr_policy_encode)
 *          bad_observation     anything else that gr_policy_encode or the predict refuses
 *     500  no_memory */
#ifndef GR_SERVER_REQUEST_H
#define GR_SERVER_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "gr00t.h"

enum { GR_FIELD_BYTES = 160 };

/* What was wrong with a request, in the words of the reply. */
struct gr_request_error {
    /* Path of the field as in JSON, "state.left_arm[3]"; "" when the body as a whole is meant. Valid UTF-8, no control characters. */
    char field[GR_FIELD_BYTES];
    char code[32]; /* stable word for programs, see above */
    bool in_body;  /* the body as a whole: field is "" */
};

struct gr_request {
    struct gr_observation obs; /* points into the members below */
    struct gr_image *images;   /* [n_frames], time-major as gr_observation wants them */
    struct gr_frame *frames;
    double *state;
    char *instruction;
    float *noise;
    bool return_normalized;
    double decode_ms;   /* base64, pictures, validation: everything of gr_request_parse */
    double pictures_ms; /* of it: decoding the picture files */
    int out_of_range;   /* state values outside the statistics' min..max */
    char out_of_range_text
        [GR_FIELD_BYTES]; /* the first of them: "state.left_hand[5] = 1.721, recorded range -1.1 to 0.0", "" for none */
};

/* Range of the recorded values for state dimension i, from the statistics; lo > hi: unknown. */
struct gr_state_range {
    double lo, hi;
};

/* Parses n bytes. ranges [info->state_dim] or NULL. Free with gr_request_free, also after a failure.
 * GR_ERR_SCHEMA (422): JSON, wrong type, unknown or missing field, seed that is negative, fractional or too large, two names for the
 * instruction. GR_ERR_INPUT (400): right type, wrong meaning: camera or group name, width, not finite, picture, size, instruction
 * length in characters, embodiment, seed with noise, shape of noise. GR_ERR_NOMEM. Fills *why with err.
 * Not checked here: the instruction's tokens (gr_policy_encode does). */
enum gr_status gr_request_parse(const char *body, size_t n, const struct gr_info *info,
                                const struct gr_state_range *ranges, struct gr_request *out,
                                struct gr_request_error *why, struct gr_err *err);
/* Frees the pixels, once they are encoded; sizes and orientations stay for the reply. */
void gr_request_drop_pictures(struct gr_request *r);
void gr_request_free(struct gr_request *r);

/* Code and field for a failure of gr_policy_encode or the predict, whose messages name the part of the observation. */
void gr_request_explain(const struct gr_err *err, struct gr_request_error *why);

#endif
