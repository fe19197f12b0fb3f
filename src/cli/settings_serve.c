/* SPDX-License-Identifier: Apache-2.0
 *
 * settings_serve.c: the options of `gr00t serve`. Everything that can be refused without opening the weights is refused here, before
 * a port is taken. */
#include "cli/settings_serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "cli/settings_card.h"
#include "model/config.h"
#include "policy/selfcheck.h"

enum {
    QUEUE = 8,
    CONNECTIONS = 4096,
    HEAD_BYTES = 16 << 10,
    WARMUP_RUNS = 3,
    PEM_MAX = 1 << 20,
    TEXT_GR1 = 24,
    TEXT_GR1_LONG = 152,
    TEXT_AUTO = 8000,     /* 2,000 characters of four bytes, a token each */
    IMAGE_TOKENS = 81,    /* of the layouts gr1 and gr1_long_text */
    TEMPLATE_TOKENS = 64, /* more than the prompt has around text and pictures */
    MARKER_TOKENS = 16    /* and around each picture */
};
#define BODY_BYTES ((int64_t)96 << 20)
#define BODIES_BYTES ((size_t)512 << 20)
#define WARMUP_PCC_MIN 0.999
#define HEAD_S 10.0
#define BODY_S 30.0
#define IDLE_S 60.0
#define DRAIN_S 8.0
#define SECONDS_MAX 86400.0

static const char *flag_or_env(const char *flag, const char *name)
{
    return flag != NULL ? flag : gr_settings_env(name);
}

/* ---- variables ---- */

/* For gr_settings_card_variables. */
static const char *card_flag(const void *user, const char *name)
{
    const struct gr_serve_flags *f = user;
    const struct {
        const char *name, *flag;
    } flags[] = {{"GR00T_VERSION", f->model_version},
                 {"GR00T_TRACE_LAYOUT", f->trace_layout},
                 {"GR00T_DIT_BACKEND", f->engine.dit_backend},
                 {"GR00T_NUM_CQS", f->engine.num_cqs},
                 {"TT_MESH_SHAPE", f->mesh_shape},
                 {"TT_DEVICE_ID", f->engine.device_id},
                 {"TT_METAL_VISIBLE_DEVICES", f->visible_devices}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return flags[i].flag;
        }
    }
    return NULL;
}

static enum gr_status check_card_variables(const struct gr_serve_flags *f, struct gr_err *err)
{
    const char *device;
    GR_TRY(gr_settings_device(f->engine.device, &device, err));
    return gr_settings_card_variables(device, card_flag, f, err);
}

/* ---- numbers ---- */

static enum gr_status seconds(const char *option, const char *text, double fallback, double *out, struct gr_err *err)
{
    *out = fallback;
    return text == NULL ? GR_OK : gr_settings_real(option, text, 0.0, SECONDS_MAX, out, err);
}

static enum gr_status set_limits(const struct gr_serve_flags *f, struct gr_server_config *c, struct gr_err *err)
{
    int64_t body = f->body_limit.given ? f->body_limit.value : BODY_BYTES;
    c->limits = (struct gr_httpd_limits){.connections = f->connections.given ? (int)f->connections.value : CONNECTIONS,
                                         .head_bytes = HEAD_BYTES,
                                         .body_bytes = (size_t)body,
                                         .bodies_bytes = (size_t)body > BODIES_BYTES ? (size_t)body : BODIES_BYTES};
    c->queue = f->queue.given ? (int)f->queue.value : QUEUE;
    GR_TRY(seconds("--head-s", f->head_s, HEAD_S, &c->limits.head_s, err));
    GR_TRY(seconds("--body-s", f->body_s, BODY_S, &c->limits.body_s, err));
    GR_TRY(seconds("--idle-s", f->idle_s, IDLE_S, &c->limits.idle_s, err));
    GR_TRY(seconds("--drain-s", f->drain_s, DRAIN_S, &c->drain_s, err));
    const char *runs = gr_settings_env("GR00T_WARMUP_RUNS"), *pcc = gr_settings_env("GR00T_WARMUP_PCC_MIN");
    long n = WARMUP_RUNS;
    if (!f->warmup_runs.given && runs != NULL) {
        GR_TRY(gr_settings_int("GR00T_WARMUP_RUNS", runs, 1, GR_WARMUP_RUNS_MAX, &n, err));
    }
    c->warmup_runs = f->warmup_runs.given ? (int)f->warmup_runs.value : (int)n;
    c->warmup_pcc_min = WARMUP_PCC_MIN;
    if (f->warmup_pcc_min != NULL) {
        return gr_settings_real("--warmup-pcc-min", f->warmup_pcc_min, 0.0, 1.0, &c->warmup_pcc_min, err);
    }
    return pcc == NULL ? GR_OK : gr_settings_real("GR00T_WARMUP_PCC_MIN", pcc, 0.0, 1.0, &c->warmup_pcc_min, err);
}

/* ---- files ---- */

/* A PEM file with a block whose first line ends with `block`. */
static enum gr_status read_pem(const char *option, const char *path, const char *block, const char *what, char **out,
                               struct gr_err *err)
{
    size_t n = 0;
    GR_TRY(gr_fs_read(path, PEM_MAX, out, &n, err));
    const char *begin = strstr(*out, "-----BEGIN ");
    while (begin != NULL && strncmp(begin + strcspn(begin, "\n") - strlen(block), block, strlen(block)) != 0) {
        begin = strstr(begin + 1, "-----BEGIN ");
    }
    return begin != NULL ? GR_OK
                         : gr_fail(err, GR_ERR_USAGE, "%s %s holds no %s (expected PEM: \"-----BEGIN ... %s\")", option,
                                   path, what, block);
}

static enum gr_status set_tls(const struct gr_serve_flags *f, struct gr_serve_settings *out, struct gr_err *err)
{
    struct gr_err why = {0};
    if ((f->tls_cert != NULL) != (f->tls_key != NULL)) {
        return gr_fail(err, GR_ERR_USAGE, "--tls-cert and --tls-key belong together");
    }
    if (f->tls_cert == NULL) {
        return GR_OK;
    }
    GR_TRY(read_pem("--tls-cert", f->tls_cert, "CERTIFICATE-----", "certificate", &out->tls_cert, err));
    GR_TRY(read_pem("--tls-key", f->tls_key, "PRIVATE KEY-----", "private key", &out->tls_key, err));
    enum gr_status status = gr_httpd_check_tls(out->tls_cert, out->tls_key, &why);
    return status == GR_OK
               ? GR_OK
               : gr_fail(err, status, "--tls-cert %s with --tls-key %s: %s", f->tls_cert, f->tls_key, why.msg);
}

static enum gr_status set_access(const struct gr_serve_flags *f, struct gr_serve_settings *out, struct gr_err *err)
{
    struct gr_server_config *c = &out->server;
    const char *origin = f->cors_origin;
    GR_TRY(set_tls(f, out, err));
    if (origin != NULL && strcmp(origin, "*") == 0 && f->api_key_file != NULL) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "--cors-origin \"*\" opens the service to every web page, which a key is to prevent; name the page's origin");
    }
    bool url = origin != NULL && (strncmp(origin, "http://", 7) == 0 || strncmp(origin, "https://", 8) == 0);
    for (const char *p = origin; p != NULL && *p != '\0'; p++) {
        url = url && *p > ' ' && *p < 127 && *p != ',';
    }
    if (origin != NULL && strcmp(origin, "*") != 0 && !url) {
        return gr_fail(err, GR_ERR_USAGE, "--cors-origin is \"%.80s\", expected \"*\" or http://HOST[:PORT]", origin);
    }
    if (f->api_key_file != NULL) {
        struct stat st;
        GR_TRY(gr_settings_key(f->api_key_file, &out->api_key, err));
        if (stat(f->api_key_file, &st) == 0 && (st.st_mode & S_IROTH) != 0) {
            gr_log(GR_LOG_WARN, "%s can be read by every user of this machine; chmod 600 %s", f->api_key_file,
                   f->api_key_file);
        }
    }
    c->tls_cert = out->tls_cert;
    c->tls_key = out->tls_key;
    c->api_key = out->api_key;
    c->cors_origin = origin;
    return GR_OK;
}

static enum gr_status set_listen(const struct gr_serve_flags *f, struct gr_server_config *c, struct gr_err *err)
{
    if (f->unix_path != NULL && (f->host != NULL || f->port.given)) {
        return gr_fail(err, GR_ERR_USAGE, "--unix excludes --host and --port");
    }
    const char *colon = f->host != NULL ? strchr(f->host, ':') : NULL;
    if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--host is \"%.80s\": a host only; the port is --port %.10s", f->host,
                       colon + 1);
    }
    c->listen = (struct gr_listen_config){
        .host = f->host, .port = f->port.given ? (int)f->port.value : 0, .unix_path = f->unix_path, .inherited_fd = -1};
    c->notify_socket = gr_settings_env("NOTIFY_SOCKET");
    return gr_listen_inherited(gr_settings_env("LISTEN_PID"), gr_settings_env("LISTEN_FDS"), &c->listen.inherited_fd,
                               err);
}

/* ---- layout ---- */

/* L_max of the layout. The fixed ones are the card's: one camera, one frame, 81 image tokens. */
static enum gr_status set_layout(const struct gr_serve_flags *f, struct gr_serve_settings *out, struct gr_err *err)
{
    const char *layout = flag_or_env(f->layout, "GR00T_LAYOUT");
    struct gr_config *config = NULL;
    struct gr_options *engine = &out->engine.engine;
    layout = layout != NULL ? layout : "gr1";
    if (!gr_settings_one_of(layout, "gr1", "gr1_long_text", "auto")) {
        return gr_fail(err, GR_ERR_USAGE, "%s is \"%.80s\", expected gr1, gr1_long_text or auto",
                       f->layout != NULL ? "--layout" : "GR00T_LAYOUT", layout);
    }
    out->server.layout = layout;
    GR_TRY(gr_config_open(out->weights.dir, engine->embodiment, &config, err));
    const int frames = config->emb.n_cameras * config->emb.frames_per_camera, tokens = config->dims.vit.tokens;
    gr_config_free(config);
    const bool card = gr_settings_on_card(engine->device);
    if (card && frames != 1) {
        return gr_fail(err, GR_ERR_USAGE,
                       "a card takes one picture an observation, embodiment %s of this snapshot has %d",
                       engine->embodiment, frames);
    }
    if (strcmp(layout, "auto") == 0 && card) { /* the program has one length, which is computed whatever is asked */
        engine->max_text_tokens = TEXT_GR1;
        return GR_OK;
    }
    if (strcmp(layout, "auto") == 0) {
        int rest = GR_MAX_POSITIONS - frames * (tokens + MARKER_TOKENS) - TEMPLATE_TOKENS;
        engine->max_text_tokens = rest < 1 ? 1 : rest < TEXT_AUTO ? rest : TEXT_AUTO;
        return GR_OK;
    }
    if (frames != 1 || tokens != IMAGE_TOKENS) {
        return gr_fail(
            err, GR_ERR_USAGE,
            "layout %s takes one picture of %d tokens, embodiment %s of this snapshot has %d of %d: use --layout auto",
            layout, IMAGE_TOKENS, engine->embodiment, frames, tokens);
    }
    engine->max_text_tokens = strcmp(layout, "gr1") == 0 ? TEXT_GR1 : TEXT_GR1_LONG;
    return GR_OK;
}

/* ---- all ---- */

static enum gr_status set_engine(const struct gr_serve_flags *f, struct gr_serve_settings *out, struct gr_err *err)
{
    struct gr_server_config *c = &out->server;
    const struct gr_weights_flags weights = {f->model, f->hf_model, f->revision};
    unsigned cpu_flags = gr_cpu_detect();
    GR_TRY(gr_settings_weights(&weights, &out->weights, err));
    GR_TRY(gr_settings_engine(out->weights.dir, &f->engine, &out->engine, err));
    struct gr_options *engine = &out->engine.engine;
    if (!gr_settings_on_card(engine->device)) {
        GR_TRY(gr_settings_policy(f->engine.policy, flag_or_env(f->engine.mk_arena_dtype, "GR00T_MK_ARENA_DTYPE"),
                                  &engine->precision, err));
    }
    struct gr_err why = {0};
    if (gr_cpu_mask(engine->cpu, &cpu_flags, &why) != GR_OK) {
        return gr_fail(err, why.code, "%s: %s", f->engine.cpu != NULL ? "--cpu" : "GR00T_CPU", why.msg);
    }
    int count = gr_cpu_count_why(out->threads_reason);
    if (engine->threads > 0) {
        snprintf(out->threads_reason, sizeof out->threads_reason, "set by %s",
                 f->engine.threads.given ? "--threads" : "GR00T_THREADS");
    }
    engine->threads = engine->threads > 0 ? engine->threads : count;
    if (engine->cache_dir == NULL && f->engine.cache == NULL && gr_settings_env("GR00T_CACHE") == NULL &&
        gr_settings_env("GR00T_TT_CACHE") == NULL) {
        gr_log(GR_LOG_WARN,
               "no folder for packed weights (HOME is not set): every start packs them again; --cache DIR names one");
    }
    GR_TRY(set_layout(f, out, err));
    c->engine = *engine;
    c->snapshot_dir = out->weights.dir;
    c->weights_repo = out->weights.repo[0] != '\0' ? out->weights.repo : NULL;
    c->weights_revision = out->weights.revision[0] != '\0' ? out->weights.revision : NULL;
    c->threads_reason = out->threads_reason;
    return GR_OK;
}

enum gr_status gr_settings_serve(const struct gr_serve_flags *flags, struct gr_serve_settings *out, struct gr_err *err)
{
    memset(out, 0, sizeof *out);
    gr_settings_unknown_variables();
    GR_TRY(set_limits(flags, &out->server, err));
    GR_TRY(set_listen(flags, &out->server, err));
    GR_TRY(set_access(flags, out, err));
    GR_TRY(check_card_variables(flags, err));
    return set_engine(flags, out, err);
}

void gr_serve_settings_free(struct gr_serve_settings *s)
{
    if (s->api_key != NULL) {
        explicit_bzero(s->api_key, strlen(s->api_key));
    }
    if (s->tls_key != NULL) {
        explicit_bzero(s->tls_key, strlen(s->tls_key));
    }
    free(s->api_key);
    free(s->tls_key);
    free(s->tls_cert);
    memset(s, 0, sizeof *s);
}
