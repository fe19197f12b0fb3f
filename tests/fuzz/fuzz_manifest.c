/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_manifest.c: any bytes as an authoring file (YAML) and as a wire manifest (JSON). What is accepted is merged profile by profile and written;
 * what was written must be read again, to the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "package/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(int good)
{
    if (!good) {
        abort();
    }
}

static void check_refusal(const struct gr_manifest *m, enum gr_status status, const struct gr_err *err)
{
    need(status == GR_ERR_FORMAT && err->code == status && strncmp(err->msg, "input", 5) == 0 && m->memory == NULL);
}

static void use(struct gr_manifest *m, int authored)
{
    struct gr_buf text = {0}, second = {0};
    struct gr_err err = {0};
    struct gr_manifest again;
    need(gr_is_slug(m->name) && m->n_profiles > 0);
    for (int i = -1; i < m->n_profiles; i++) {
        struct gr_profile p;
        need(gr_manifest_profile(m, i < 0 ? NULL : m->profiles[i].name, &p, &err) == GR_OK);
        need(!authored || (p.chips > 0 && p.chips == p.rows * p.cols));
        for (int k = 0; k < p.block.n_env; k++) {
            need(p.block.env[k].name[0] != '\0' && strchr(p.block.env[k].name, '=') == NULL);
        }
        gr_profile_free(&p);
    }
    if (authored) { /* what `package` fills in */
        m->image_tag = "tt-model/x:0";
        m->producer_version = m->created_at = "0";
    }
    need(gr_manifest_write_wire(m, &text, &err) == GR_OK);
    if (text.len <= 1 << 20) {
        need(gr_manifest_parse_wire(text.data, text.len, "own", &again, &err) == GR_OK);
        need(gr_manifest_write_wire(&again, &second, &err) == GR_OK);
        need(text.len == second.len && memcmp(text.data, second.data, text.len) == 0);
        gr_manifest_free(&again);
    }
    gr_buf_free(&text);
    gr_buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct gr_err err = {0};
    struct gr_manifest m;
    enum gr_status status = gr_manifest_parse_yaml(text, size, "input", NULL, &m, &err);
    if (status == GR_OK) {
        use(&m, 1);
        gr_manifest_free(&m);
    } else {
        check_refusal(&m, status, &err);
    }
    if ((status = gr_manifest_parse_wire(text, size, "input", &m, &err)) == GR_OK) {
        use(&m, 0);
        gr_manifest_free(&m);
    } else {
        check_refusal(&m, status, &err);
    }
    return 0;
}
