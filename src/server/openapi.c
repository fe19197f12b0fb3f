/* SPDX-License-Identifier: Apache-2.0
 *
 * openapi.c: GET /openapi.json: the document of the build, in which some strings stand for what depends on the snapshot: "@IMAGES@",
 * "@STATE@", "@ACTIONS@" and "@EMBODIMENT@" are replaced, quotes included, by what fits this embodiment; @VERSION@ stands inside a string. */
#include "server/info.h"

#include <string.h>

#include "base/jsonout.h"
#include "server/info_parts.h"

/* data/openapi.json, written into the program at build time; not NUL-terminated. */
extern const unsigned char gr_embed_openapi[];
extern const size_t gr_embed_openapi_size;

static const char picture_ref[] = "#/components/schemas/Picture";

static void object_schema(struct gr_jw *w)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "type", "object");
    gr_jw_put_bool(w, "additionalProperties", false);
}

/* {"$ref": ...} of a schema of the document. */
static void reference(struct gr_jw *w, const char *target)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "$ref", target);
    gr_jw_end_object(w);
}

/* An array of n to n things, whose schema the caller writes next, before the closing gr_jw_end_object. */
static void array_schema(struct gr_jw *w, int n)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "type", "array");
    gr_jw_put_int(w, "minItems", n);
    gr_jw_put_int(w, "maxItems", n);
    gr_jw_key(w, "items");
}

static void angles_schema(struct gr_jw *w, int dim)
{
    array_schema(w, dim);
    reference(w, "#/components/schemas/Angle");
    gr_jw_end_object(w);
}

static void row_schema(struct gr_jw *w, int dim)
{
    array_schema(w, dim);
    gr_jw_object(w);
    gr_jw_put_string(w, "type", "number");
    gr_jw_end_object(w);
    gr_jw_end_object(w);
}

static void frames_schema(struct gr_jw *w, int frames)
{
    array_schema(w, frames);
    reference(w, picture_ref);
    gr_jw_end_object(w);
}

static void images_schema(struct gr_jw *w, const struct gr_info *info)
{
    object_schema(w);
    gr_jw_put_array(w, "required");
    for (int c = 0; c < info->n_cameras; c++) {
        gr_jw_string(w, info->cameras[c]);
    }
    gr_jw_end_array(w);
    gr_jw_put_object(w, "properties");
    for (int c = 0; c < info->n_cameras; c++) {
        gr_jw_key(w, info->cameras[c]);
        if (info->frames_per_camera > 1) {
            frames_schema(w, info->frames_per_camera);
            continue;
        }
        gr_jw_object(w);
        gr_jw_put_array(w, "anyOf");
        reference(w, picture_ref);
        frames_schema(w, 1);
        gr_jw_end_array(w);
        gr_jw_end_object(w);
    }
    gr_jw_end_object(w);
    gr_jw_end_object(w);
}

static void required_groups(struct gr_jw *w, const struct gr_group *groups, int n)
{
    gr_jw_put_array(w, "required");
    for (int g = 0; g < n; g++) {
        gr_jw_string(w, groups[g].name);
    }
    gr_jw_end_array(w);
    gr_jw_put_object(w, "properties");
}

static void state_schema(struct gr_jw *w, const struct gr_info *info)
{
    object_schema(w);
    required_groups(w, info->state_groups, info->n_state_groups);
    for (int g = 0; g < info->n_state_groups; g++) {
        gr_jw_put_object(w, info->state_groups[g].name);
        gr_jw_put_array(w, "anyOf");
        angles_schema(w, info->state_groups[g].dim);
        array_schema(w, 1);
        angles_schema(w, info->state_groups[g].dim);
        gr_jw_end_object(w);
        gr_jw_end_array(w);
        gr_jw_end_object(w);
    }
    gr_jw_end_object(w);
    gr_jw_end_object(w);
}

static void actions_schema(struct gr_jw *w, const struct gr_info *info)
{
    object_schema(w);
    required_groups(w, info->action_groups, info->n_action_groups);
    for (int g = 0; g < info->n_action_groups; g++) {
        gr_jw_key(w, info->action_groups[g].name);
        array_schema(w, info->action_steps);
        row_schema(w, info->action_groups[g].dim);
        gr_jw_end_object(w);
    }
    gr_jw_end_object(w);
    gr_jw_end_object(w);
}

static void schema(const char *name, const struct gr_info *info, struct gr_buf *out)
{
    struct gr_jw w = {.out = out, .compact = true};
    if (strcmp(name, "\"@IMAGES@\"") == 0) {
        images_schema(&w, info);
    } else if (strcmp(name, "\"@STATE@\"") == 0) {
        state_schema(&w, info);
    } else if (strcmp(name, "\"@ACTIONS@\"") == 0) {
        actions_schema(&w, info);
    } else if (strcmp(name, "\"@EMBODIMENT@\"") == 0) {
        gr_jw_string(&w, info->embodiment);
    } else {
        gr_buf_puts(out, gr_version());
    }
}

enum gr_status gr_openapi_json(const struct gr_service_config *cfg, const struct gr_boot_facts *facts,
                               struct gr_buf *out, struct gr_err *err)
{
    static const char *const names[] = {"\"@IMAGES@\"", "\"@STATE@\"", "\"@ACTIONS@\"", "\"@EMBODIMENT@\"",
                                        "@VERSION@"};
    const struct gr_info *info = gr_policy_info(facts->policy);
    const char *text = (const char *)gr_embed_openapi, *end = text + gr_embed_openapi_size;
    (void)cfg;
    while (text < end) {
        const char *next = end, *name = NULL;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            const char *at = memmem(text, (size_t)(end - text), names[i], strlen(names[i]));
            if (at != NULL && at < next) {
                next = at;
                name = names[i];
            }
        }
        gr_buf_put(out, text, (size_t)(next - text));
        text = next;
        if (name != NULL) {
            schema(name, info, out);
            text += strlen(name);
        }
    }
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the text of /openapi.json") : GR_OK;
}
