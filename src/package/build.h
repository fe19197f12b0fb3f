/* SPDX-License-Identifier: Apache-2.0
 *
 * build.h: a package folder out of an authoring manifest: staged code, image, wire manifest, lock, card (docs/PACKAGES.md). */
#ifndef GR_PACKAGE_BUILD_H
#define GR_PACKAGE_BUILD_H

#include <signal.h>

#include "package/manifest.h"
#include "package/oci.h"

enum gr_build_mark { GR_BUILD_DONE, GR_BUILD_NOTE, GR_BUILD_WARNING };
struct gr_build {
    const char *manifest; /* path of the authoring file */
    const char *out;      /* folder; the package is <out>/<name>, replaced as a whole when everything succeeded */
    const char *program;  /* the gr00t to ship; NULL: this process's own */
    const char *license;  /* text of this program's licence */
    int64_t created;      /* seconds since 1970 for the wire manifest; the image has no time in it */
    const volatile sig_atomic_t *stop; /* may be NULL. Not 0: end soon with GR_ERR_CHECK, as after any failure */
    bool verify;                       /* run the finished image's program: --version, then a predict on its demo */
    void (*step)(void *user, enum gr_build_mark mark, const char *label, const char *detail,
                 double ms); /* NULL: none */
    void *user;
};
struct gr_built {
    char dir[GR_PATH_BYTES];
    struct gr_oci_image image;
    int n_code, n_dropped, n_libraries;
    uint64_t code_bytes, program_bytes, root_bytes;
    char code_sha256[65];
    char version[128], demo[256]; /* what the image's program said when it was verified; "" without */
};
enum { GR_IMAGE_BYTES_GOAL = 15000000 }; /* a larger one is a warning */
/* GR_ERR_FORMAT (manifest), GR_ERR_IO, GR_ERR_CHECK (verify), GR_ERR_INPUT (a source that is missing). Nothing of <out>/<name> changes on
 * failure. */
enum gr_status gr_package_build(const struct gr_build *build, struct gr_built *out, struct gr_err *err);

/* Unpacks the image beside itself and runs its program there: `--version`, then `synth demo` and `check` on it. GR_ERR_CHECK: it did not
 * pass. stop: as in struct gr_build; the program is ended too. */
enum gr_status gr_package_verify(const char *image, const char *scratch_dir, const volatile sig_atomic_t *stop,
                                 struct gr_built *out, struct gr_err *err);

/* README.md: front matter (tags, license, license_name, license_link, pipeline_tag, base_model) and body. built: sizes and digest of the
 * image. */
enum gr_status gr_card_write(const struct gr_manifest *m, const struct gr_built *built, struct gr_buf *out,
                             struct gr_err *err);
/* The card's text for another repository and with or without the catalog tag; what else the author wrote stays. */
enum gr_status gr_card_rewrite(struct gr_buf *card, const char *from_repo, const char *to_repo, bool catalog,
                               struct gr_err *err);
/* LICENSE-NOTICE.md: whose licences govern program, libraries and weights. */
void gr_card_notice(const struct gr_manifest *m, struct gr_buf *out);
/* SHA-256 over path and bytes of every file below dir in sorted order. */
enum gr_status gr_stage_digest(const char *dir, char hex[65], struct gr_err *err);

#endif
