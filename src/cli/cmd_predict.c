/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_predict.c: `gr00t predict`: picture files, state.json and an instruction in, a chunk of joint targets out.
 * Of the engine it uses the public header gr00t.h only: what works here works for every user of the library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/chunk_out.h"
#include "cli/cli.h"
#include "cli/obs_files.h"
#include "cli/open_policy.h"
#include "cli/settings.h"
#include "gr00t.h"

struct options {
    const char *model, *state_dtype, *plot, *golden, *out;
    bool json;
    struct gr_obs_flags obs;
    struct gr_engine_flags engine;
};

static const char *const dtypes[] = {"float32", "float64", NULL};
static const struct gr_arg args[] = {
    {.name = "model",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, model),
     .value = "DIR",
     .required = true,
     .help = "snapshot folder"},
    GR_OBS_ARGS(struct options, obs, true, "", "[42]"),
    {.name = "state-dtype",
     .kind = GR_ARG_CHOICE,
     .offset = offsetof(struct options, state_dtype),
     .value = "TYPE",
     .choices = dtypes,
     .help = "float32 or float64: type the state is rounded to [float32]"},
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the chunk as JSON"},
    {.name = "out",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, out),
     .value = "FILE",
     .help = "write the JSON to FILE"},
    {.name = "plot",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, plot),
     .value = "FILE.svg",
     .help = "draw the chunk, one panel per joint"},
    {.name = "golden",
     .kind = GR_ARG_STRING,
     .offset = offsetof(struct options, golden),
     .value = "CASE_DIR",
     .help = "compare with the expected.json of a golden case"},
    GR_ENGINE_ARGS(struct options, engine),
};

/* Complaints that need no model come before the load, which takes seconds. */
static enum gr_status check_files(const struct options *o, struct gr_err *err)
{
    GR_TRY(gr_obs_flags_check(&o->obs, err));
    return o->golden != NULL ? gr_obs_need("--golden", o->golden, true, err) : GR_OK;
}

/* What a request holds besides the options: owned buffers. */
struct request {
    struct gr_obs_images images;
    double *state;
    float *noise;
    struct gr_observation obs;
};

static enum gr_status read_request(const struct options *o, const struct gr_info *info, struct request *r,
                                   struct gr_err *err)
{
    GR_TRY(gr_obs_images_read(&o->obs.images, info, &r->images, err));
    GR_TRY(gr_obs_state_read(o->obs.state, info, &r->state, err));
    if (o->obs.noise != NULL) {
        GR_TRY(gr_obs_noise_read(o->obs.noise, info, &r->noise, err));
    }
    for (int i = 0; i < r->images.n; i++) {
        if (r->images.images[i].exif_orientation != 1) {
            gr_log(GR_LOG_WARN, "%s has EXIF orientation %d, which is not applied: the robot sees the stored pixels",
                   r->images.paths[i], r->images.images[i].exif_orientation);
        }
    }
    r->obs = (struct gr_observation){
        .frames = r->images.frames,
        .n_frames = r->images.n,
        .state = r->state,
        .state_dim = info->state_dim,
        .state_dtype = o->state_dtype != NULL && strcmp(o->state_dtype, "float64") == 0 ? GR_STATE_F64 : GR_STATE_F32,
        .instruction = o->obs.instruction,
        .noise_kind = o->obs.noise != NULL ? GR_NOISE_GIVEN : GR_NOISE_SEED,
        .seed = o->obs.seed.given ? (uint64_t)o->obs.seed.value : GR_DEFAULT_SEED,
        .noise = r->noise,
    };
    return GR_OK;
}

static void free_request(struct request *r)
{
    gr_obs_images_free(&r->images);
    free(r->state);
    free(r->noise);
}

/* Everything that is written to files, and the text for stdout. */
static enum gr_status deliver(struct gr_cli *cli, const struct options *o, const struct gr_chunk_view *view,
                              struct gr_err *err)
{
    struct gr_buf file = {0};
    enum gr_status status = GR_OK;
    if (o->out != NULL) {
        status = gr_chunk_json(view, &file, err);
        status = status == GR_OK ? gr_cli_write_file(o->out, &file, err) : status;
        gr_buf_free(&file);
    }
    if (status == GR_OK && o->plot != NULL) {
        gr_chunk_plot(view, &file);
        status = gr_cli_write_file(o->plot, &file, err);
        gr_buf_free(&file);
    }
    if (!o->json) {
        gr_chunk_text(view, cli->columns, &cli->out);
    } else if (status == GR_OK) {
        status = gr_chunk_json(view, &cli->out, err);
    }
    return status;
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    struct gr_policy *policy = NULL;
    struct gr_chunk *chunk = NULL;
    struct request request = {0};
    float *golden = NULL;
    enum gr_status status = check_files(o, err);
    if (status != GR_OK || (status = gr_cli_open_policy(cli, o->model, &o->engine, &policy, err)) != GR_OK) {
        goto out;
    }
    const struct gr_info *info = gr_policy_info(policy);
    if ((status = read_request(o, info, &request, err)) != GR_OK ||
        (status = gr_chunk_new(policy, &chunk, err)) != GR_OK) {
        goto out;
    }
    if (o->golden != NULL && (status = gr_golden_read(o->golden, info, &golden, err)) != GR_OK) {
        goto out;
    }
    const char *other = o->golden != NULL ? gr_golden_differs(o->golden, info, &request.obs) : NULL;
    if (other != NULL) {
        gr_log(GR_LOG_WARN,
               "--golden %s: %s of this observation is not that of the case: the chunks are not expected to agree",
               o->golden, other);
    }
    if ((status = gr_policy_predict(policy, &request.obs, chunk, err)) != GR_OK) {
        goto out;
    }
    struct gr_chunk_view view = {info, &request.obs, chunk, golden, request.images.decode_ms};
    status = deliver(cli, o, &view, err);
out:
    free(golden);
    free_request(&request);
    gr_chunk_free(chunk);
    gr_policy_close(policy);
    return status;
}

const struct gr_command gr_cmd_predict = {
    .name = "predict",
    .summary = "Compute the action chunk of one observation",
    .synopsis = "--model DIR --image FILE --state FILE --instruction TEXT [OPTIONS]",
    .more = "Example\n  gr00t predict --model DIR --image frame.png --state state.json \\\n"
            "      --instruction \"pick the pear from the counter and place it in the plate\" --plot chunk.svg",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
