/* SPDX-License-Identifier: Apache-2.0
 *
 * gr00t_status.h: the one status enum of the program and the message that goes with it.
 * Every function that can fail returns a status and fills the caller's gr_err where the fault is found. */
#ifndef GR00T_STATUS_H
#define GR00T_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

enum gr_status {
    GR_OK = 0,
    GR_ERR_USAGE,   /* the call itself is wrong: unknown flag, option out of range */
    GR_ERR_INPUT,   /* an observation with a wrong meaning: width, size, non-finite, undecodable */
    GR_ERR_SCHEMA,  /* an observation of the wrong shape: JSON type, unknown or missing field */
    GR_ERR_BUSY,    /* not ready, queue full, cancelled */
    GR_ERR_FORMAT,  /* a snapshot or manifest that is damaged, incomplete or unsupported */
    GR_ERR_IO,      /* a file that cannot be opened, read or written */
    GR_ERR_NOMEM,   /* memory refused */
    GR_ERR_NETWORK, /* no answer, broken transfer */
    GR_ERR_ACCESS,  /* refused by the other side: 401, 403, gated */
    GR_ERR_DEVICE,  /* the device is missing or failed; no usable instruction set */
    GR_ERR_CHECK    /* a check ran and did not pass */
};

enum { GR_ERR_MSG_BYTES = 512 };

/* Filled by the function that finds the fault. `msg` is one line of UTF-8 that names what, where,
 * expected and found; always terminated, cut at GR_ERR_MSG_BYTES. */
struct gr_err {
    enum gr_status code;
    char msg[GR_ERR_MSG_BYTES];
};

#ifdef __cplusplus
}
#endif
#endif
