/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.h: hashes every file of a snapshot folder and compares with what it should be: a sums file, the names that the
 * Hub's cache gives its blobs, or the records of a download of the Hub's client into a folder. Finds the single flipped
 * byte that header checks cannot see. */
#ifndef GR_MODEL_VERIFY_H
#define GR_MODEL_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gr00t.h"

enum gr_verify_result {
    GR_VERIFY_OK,
    GR_VERIFY_MISMATCH, /* content differs */
    GR_VERIFY_MISSING,  /* has a checksum but is not in the folder, or is a link to a blob that is not there */
    GR_VERIFY_UNKNOWN   /* a file whose checksum nobody states */
};

/* All strings are valid during the call only. */
struct gr_verify_file {
    const char *name; /* relative to the folder, "tokenizer/vocab.json" */
    enum gr_verify_result result;
    const char *expected; /* lower-case hex; NULL when nobody states one */
    const char *found;    /* NULL when missing */
    const char *kind;     /* "sha256" or "git" (SHA-1 of a git blob): what expected and found are */
    uint64_t bytes;
};

struct gr_verify_counts {
    size_t ok, mismatch, missing, unknown;
    uint64_t bytes;     /* hashed */
    const char *source; /* "sums file", "Hub cache", "Hub download", "none": static text */
};

/* "ok", "mismatch", "missing", "unknown" */
const char *gr_verify_result_name(enum gr_verify_result result);

/* Hashes the regular files of `dir` and of its subfolders, in name order, and calls `each` (may be NULL) once a file, and once for each file
 * that is missing. Names that start with a dot and the sums file itself are left out.
 *
 * sums_path  a file as sha256sum writes it; its names are relative to `dir`. NULL: <dir>/SHA256SUMS when there is one; otherwise, file by
 *            file, the Hub cache layout, where a file is a link to blobs/<name>: 64 hex digits are a SHA-256, 40 a git blob SHA-1;
 *            then <dir>/.cache/huggingface/download/<file>.metadata, three lines: commit, such a name, time. A record that cannot be
 *            read or has another form counts as none.
 * progress   "hash files", bytes done and in total; may be NULL.
 *
 * GR_OK: every file was looked at and nothing is wrong. GR_ERR_CHECK: at least one mismatch or missing file, or not a single file with a
 * known checksum; counts are complete and the message names the first bad file. GR_ERR_IO, GR_ERR_FORMAT (the sums file), GR_ERR_NOMEM. */
enum gr_status gr_verify_dir(const char *dir, const char *sums_path, gr_progress_fn progress, void *progress_user,
                             void (*each)(void *user, const struct gr_verify_file *file), void *each_user,
                             struct gr_verify_counts *counts, struct gr_err *err);

#endif
