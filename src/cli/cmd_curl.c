/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_curl.c: `gr00t curl`: one request to a running service, its chunk as a table. What is not given on the command line comes from the
 * service's own /demo. Picture files are sent as they are: decoding and complaining is the service's business. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/fs.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/launch_target.h"
#include "cli/obs_files.h"
#include "cli/served.h"
#include "cli/wire_chunk.h"

/* The largest body a service takes by default is 96 MiB, and base64 makes four bytes of three. */
enum { IMAGE_MAX_BYTES = 160 << 20, STATE_MAX_BYTES = 1 << 20, CAMERA_BYTES = 256 };

struct options {
    bool json, dry_run, print;
    const char *profile;
    struct gr_obs_flags obs;
    struct gr_served_flags served;
};

static const struct gr_arg args[] = {
    GR_OBS_ARGS(struct options, obs, false, "\n[the demo's]", "[the service's]"),
    {.name = "json",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, json),
     .help = "print the reply as it came"},
    {.name = "dry-run",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, dry_run),
     .help = "print the request and do not send it"},
    {.name = "print",
     .kind = GR_ARG_FLAG,
     .offset = offsetof(struct options, print),
     .help = "print a shell command with curl that does the same"},
    {.name = "profile",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, profile),
     .value = "NAME",
     .help = "of TARGET, when several of its profiles run"},
    GR_SERVED_ARGS(struct options, served),
};

/* ---- the request ---- */

struct picture {
    char camera[CAMERA_BYTES]; /* "": not named */
    const char *path;
};

/* Of files that gr_obs_flags_check has seen. */
static enum gr_status split(const char *value, struct picture *out, struct gr_err *err)
{
    const char *equals = strchr(value, '=');
    *out = (struct picture){.path = value};
    if (equals == NULL || gr_fs_is_file(value)) {
        return GR_OK;
    }
    if (equals == value || (size_t)(equals - value) >= sizeof out->camera) {
        return gr_fail(err, GR_ERR_USAGE, "--image %.80s: expected CAMERA=FILE", value);
    }
    memcpy(out->camera, value, (size_t)(equals - value));
    out->path = equals + 1;
    return GR_OK;
}

static enum gr_status put_picture(const char *path, struct gr_jw *w, struct gr_err *err)
{
    char *bytes = NULL, *text = NULL;
    size_t n = 0;
    GR_TRY(gr_fs_read(path, IMAGE_MAX_BYTES, &bytes, &n, err));
    size_t len = gr_base64_length(n);
    if ((text = malloc(len + 3)) == NULL) {
        free(bytes);
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for its base64 text", path);
    }
    text[0] = '"';
    gr_base64_encode((const unsigned char *)bytes, n, text + 1);
    text[len + 1] = '"';
    text[len + 2] = '\0';
    gr_jw_raw(w, text);
    free(text);
    free(bytes);
    return GR_OK;
}

/* A file without a camera belongs to the only camera of the demo. */
static enum gr_status only_camera(const struct gr_json *demo_images, char out[CAMERA_BYTES], struct gr_err *err)
{
    size_t n = gr_json_len(demo_images);
    void *it = gr_json_first(demo_images);
    if (it != NULL && n == 1 && strlen(gr_json_key(it)) < CAMERA_BYTES) {
        strcpy(out, gr_json_key(it));
        return GR_OK;
    }
    char list[256] = "";
    for (; it != NULL; it = gr_json_next(demo_images, it)) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", gr_json_key(it));
    }
    return gr_fail(err, GR_ERR_USAGE, "the service has %zu cameras, give --image CAMERA=FILE with CAMERA one of: %s", n,
                   list);
}

/* {"camera": "base64"} or, with several pictures of a camera, {"camera": ["base64", ...]} oldest first. */
static enum gr_status put_images(const struct options *o, const struct gr_json *demo_images, struct gr_jw *w,
                                 struct gr_err *err)
{
    struct picture *p = calloc((size_t)o->obs.images.n, sizeof *p);
    enum gr_status status = p == NULL ? gr_fail(err, GR_ERR_NOMEM, "no memory for the pictures") : GR_OK;
    for (int i = 0; i < o->obs.images.n && status == GR_OK; i++) {
        status = split(o->obs.images.items[i], &p[i], err);
        if (status == GR_OK && p[i].camera[0] == '\0') {
            status = only_camera(demo_images, p[i].camera, err);
        }
    }
    gr_jw_object(w);
    for (int i = 0; i < o->obs.images.n && status == GR_OK; i++) {
        int same = 0, before = 0;
        for (int j = 0; j < o->obs.images.n; j++) {
            bool equal = strcmp(p[i].camera, p[j].camera) == 0;
            same += equal;
            before += equal && j < i;
        }
        if (before > 0) {
            continue; /* written with the first picture of its camera */
        }
        gr_jw_key(w, p[i].camera);
        if (same > 1) {
            gr_jw_array(w);
        }
        for (int j = i; j < o->obs.images.n && status == GR_OK; j++) {
            if (strcmp(p[i].camera, p[j].camera) == 0) {
                status = put_picture(p[j].path, w, err);
            }
        }
        if (same > 1) {
            gr_jw_end_array(w);
        }
    }
    gr_jw_end_object(w);
    free(p);
    return status;
}

static enum gr_status put_state(const char *path, struct gr_jw *w, struct gr_err *err)
{
    struct gr_json *root = NULL;
    GR_TRY(gr_json_read(path, STATE_MAX_BYTES, GR_ERR_INPUT, &root, err));
    const struct gr_json *inner = gr_json_get(root, "state"); /* the shape of a recorded observation */
    gr_json_rewrite(gr_json_kind(inner) == GR_JSON_OBJECT ? inner : root, w);
    gr_json_free(root);
    return GR_OK;
}

static enum gr_status put_noise(const char *path, struct gr_jw *w, struct gr_err *err)
{
    struct gr_npy npy;
    const size_t *shape;
    int ndim;
    GR_TRY(gr_obs_npy_read(path, &npy, &shape, &ndim, err));
    if (ndim != 2) {
        gr_npy_free(&npy);
        return gr_fail(err, GR_ERR_INPUT, "%s: noise has %d dimensions, expected [50, 128] or [1, 50, 128]", path,
                       npy.ndim);
    }
    gr_jw_f32_rows(w, npy.values, (int)shape[0], (int)shape[1], (int)shape[1]); /* the file's limit bounds them */
    gr_npy_free(&npy);
    return GR_OK;
}

/* Every camera is named, so nothing has to be asked. */
static bool needs_demo(const struct options *o)
{
    bool all_named = o->obs.images.n > 0;
    for (int i = 0; i < o->obs.images.n; i++) {
        all_named = all_named && strchr(o->obs.images.items[i], '=') != NULL && !gr_fs_is_file(o->obs.images.items[i]);
    }
    return !all_named || o->obs.state == NULL || o->obs.instruction == NULL;
}

/* Says which parts are not the user's: a mix must not be taken for an observation. */
static void note_mix(const struct options *o)
{
    int given = (o->obs.images.n > 0) + (o->obs.state != NULL) + (o->obs.instruction != NULL);
    if (given > 0 && given < 3) {
        gr_log(GR_LOG_INFO, "not given, taken from the service's demo:%s%s%s", o->obs.images.n == 0 ? " image" : "",
               o->obs.state == NULL ? " state" : "", o->obs.instruction == NULL ? " instruction" : "");
    }
}

static enum gr_status write_request(const struct options *o, const struct gr_json *demo, struct gr_buf *out,
                                    struct gr_err *err)
{
    const struct gr_json *request = gr_json_get(demo, "request");
    const char *skip[8];
    int n = 0;
    struct gr_jw w = {.out = out, .compact = true};
    if (o->obs.images.n > 0) {
        skip[n++] = "images";
    }
    if (o->obs.state != NULL) {
        skip[n++] = "state";
    }
    if (o->obs.instruction != NULL) {
        skip[n++] = "instruction";
    }
    if (o->obs.seed.given || o->obs.noise != NULL) {
        skip[n++] = "seed";
        skip[n++] = "noise";
    }
    skip[n] = NULL;
    gr_json_rewrite_members(request, skip, &w);
    if (o->obs.images.n > 0) {
        gr_jw_key(&w, "images");
        GR_TRY(put_images(o, gr_json_get(request, "images"), &w, err));
    }
    if (o->obs.state != NULL) {
        gr_jw_key(&w, "state");
        GR_TRY(put_state(o->obs.state, &w, err));
    }
    if (o->obs.instruction != NULL) {
        gr_jw_put_string(&w, "instruction", o->obs.instruction);
    }
    if (o->obs.seed.given) {
        gr_jw_put_int(&w, "seed", o->obs.seed.value);
    }
    if (o->obs.noise != NULL) {
        gr_jw_key(&w, "noise");
        GR_TRY(put_noise(o->obs.noise, &w, err));
    }
    gr_jw_end_object(&w);
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the request") : GR_OK;
}

/* ---- --print ---- */

static void put_option(const char *name, const char *value, struct gr_buf *out)
{
    if (value != NULL) {
        gr_buf_printf(out, " %s ", name);
        gr_shell_word(value, out);
    }
}

/* The key itself is never on a command line: the shell reads its file when the command runs. */
static void put_curl(const struct options *o, const struct gr_served *s, struct gr_buf *out)
{
    bool local = strncmp(s->url, "unix:", 5) == 0;
    char seed[32];
    snprintf(seed, sizeof seed, "%" PRId64, o->obs.seed.value);
    gr_buf_puts(out, "gr00t curl --dry-run");
    for (int i = 0; i < o->obs.images.n; i++) {
        put_option("--image", o->obs.images.items[i], out);
    }
    put_option("--state", o->obs.state, out);
    put_option("--instruction", o->obs.instruction, out);
    put_option("--seed", o->obs.seed.given ? seed : NULL, out);
    put_option("--noise", o->obs.noise, out);
    put_option("--url", s->url, out);
    put_option("--api-key-file", o->served.api_key_file, out);
    put_option("--ca-file", o->served.ca_file, out);
    gr_buf_puts(out, " |\n    curl -sS --fail-with-body -H 'Content-Type: application/json' -H 'Expect:'");
    if (o->served.api_key_file != NULL) {
        gr_buf_puts(out, " -H \"Authorization: Bearer $(cat ");
        gr_shell_word(o->served.api_key_file, out);
        gr_buf_puts(out, ")\"");
    }
    put_option("--cacert", o->served.ca_file, out);
    put_option("--unix-socket", local ? s->url + 5 : NULL, out);
    struct gr_buf url = {0};
    size_t n = strlen(s->url);
    while (n > 0 && s->url[n - 1] == '/') {
        n--;
    }
    gr_buf_put(&url, local ? "http://localhost" : s->url, local ? strlen("http://localhost") : n);
    gr_buf_puts(&url, "/predict");
    gr_buf_puts(out, " --data-binary @- ");
    gr_shell_word(url.data != NULL ? url.data : "", out);
    gr_buf_puts(out, "\n");
    gr_buf_free(&url);
}

/* ---- the command ---- */

static enum gr_status send(struct gr_cli *cli, const struct options *o, struct gr_served *served,
                           const struct gr_buf *body, struct gr_err *err)
{
    struct gr_client_reply reply;
    struct gr_json *root = NULL;
    struct gr_wire_chunk chunk;
    GR_TRY(gr_served_predict(served, body, &reply, &root, err));
    enum gr_status status = GR_OK;
    if (o->json) {
        gr_buf_append(&cli->out, &reply.body);
        gr_buf_puts(&cli->out, reply.body.len > 0 && reply.body.data[reply.body.len - 1] == '\n' ? "" : "\n");
    } else if ((status = gr_wire_chunk_read(root, "reply of /predict", GR_ERR_NETWORK, &chunk, err)) == GR_OK) {
        gr_wire_chunk_text(&chunk, cli->columns, &cli->out);
        gr_buf_printf(&cli->out, "%.1f ms from here\n", reply.wall_ms);
        gr_wire_chunk_free(&chunk);
    }
    gr_json_free(root);
    gr_buf_free(&reply.body);
    return status;
}

/* Where a service is that `serve TARGET` started, and the certificate to trust. */
static enum gr_status find_service(struct options *o, const char *target, struct gr_running *r, struct gr_err *err)
{
    struct gr_state_dirs dirs;
    if (o->served.url != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "TARGET and --url both say where the service is; leave one out");
    }
    GR_TRY(gr_settings_tool_dirs(&dirs, err));
    bool alive;
    GR_TRY(gr_running_one(&dirs, target, o->profile, r, &alive, err));
    if (!alive) { /* its port may be another service's by now */
        return gr_fail(err, GR_ERR_NETWORK, "%.200s has ended: `gr00t logs` shows why, `gr00t serve` starts it again",
                       target);
    }
    o->served.url = r->url;
    if (r->url[0] == '\0') {
        return gr_fail(err, GR_ERR_NETWORK, "%.200s publishes no port", target);
    }
    if (o->served.ca_file == NULL && r->tls_cert[0] != '\0') {
        o->served.ca_file = r->tls_cert;
        o->served.any_name = true;
    }
    return GR_OK;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    struct options own = *(const struct options *)options;
    const struct options *o = &own;
    const char *base = gr_settings_tool_env("BASE_URL");
    struct gr_running service; /* what `own` points into */
    if (n_words > 0) {
        GR_TRY(find_service(&own, words[0], &service, err));
    } else if (own.profile != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--profile is for a TARGET");
    } else if (own.served.url == NULL) {
        own.served.url = base;
    }
    struct gr_served served = {0};
    struct gr_json *demo = NULL;
    struct gr_buf body = {0};
    enum gr_status status = gr_obs_flags_check(&o->obs, err);
    if (status == GR_OK) {
        status = gr_served_open(&o->served, &served, err);
    }
    if (status != GR_OK) {
        goto out;
    }
    if (o->print) {
        put_curl(o, &served, &cli->out);
        goto out;
    }
    bool ask = needs_demo(o);
    if ((ask || !o->dry_run) && (status = gr_served_ready(&served, err)) != GR_OK) {
        goto out;
    }
    if (ask && (status = gr_served_get(&served, "/demo", &demo, err)) != GR_OK) {
        goto out;
    }
    note_mix(o);
    if ((status = write_request(o, demo, &body, err)) != GR_OK) {
        goto out;
    }
    if (o->dry_run) {
        gr_buf_append(&cli->out, &body);
        gr_buf_puts(&cli->out, "\n");
    } else {
        status = send(cli, o, &served, &body, err);
    }
out:
    gr_json_free(demo);
    gr_buf_free(&body);
    gr_served_close(&served);
    return status;
}

const struct gr_command gr_cmd_curl = {
    .name = "curl",
    .summary = "Send one request to a running service and show the chunk",
    .synopsis = "[TARGET | --url URL] [--image FILE --state FILE --instruction TEXT] [OPTIONS]",
    .more = "Without --image, --state and --instruction the service's demo request is sent.\n\n"
            "TARGET is what `gr00t serve TARGET` started. Without it and --url: TT_MODEL_BASE_URL, else port 20000.\n\n"
            "Examples\n  gr00t curl\n"
            "  gr00t curl --image frame.png --state state.json --instruction \"pick the pear\" --json\n"
            "  gr00t curl --dry-run > request.json",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 1,
    .words = "TARGET",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
