/* SPDX-License-Identifier: Apache-2.0
 *
 * obs_files.c: reads what one observation consists of. Names are matched exactly and never by position: a wrong camera or joint
 * group must not move a robot. */
#include "cli/obs_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "server/request_state.h"

/* 4096 x 4096 16-bit RGBA without compression is 134 MB. */
enum { IMAGE_MAX_BYTES = 160 << 20, STATE_MAX_BYTES = 1 << 20, NOISE_MAX_BYTES = 64 << 20, LIST_BYTES = 320 };

enum gr_status gr_obs_need(const char *option, const char *path, bool dir, struct gr_err *err)
{
    struct gr_err why = {0};
    enum gr_status status = dir ? gr_fs_need_dir(path, GR_ERR_IO, &why) : gr_fs_need_file(path, GR_ERR_IO, &why);
    return status == GR_OK ? GR_OK : gr_fail(err, status, "%s %s", option, why.msg);
}

enum gr_status gr_obs_flags_check(const struct gr_obs_flags *f, struct gr_err *err)
{
    if (f->seed.given && f->noise != NULL) {
        return gr_fail(err, GR_ERR_USAGE, "--seed and --noise exclude each other");
    }
    for (int i = 0; i < f->images.n; i++) {
        const char *value = f->images.items[i], *equals = strchr(value, '=');
        if (equals == NULL || gr_fs_is_file(value)) {
            GR_TRY(gr_obs_need("--image", value, false, err));
        } else {
            GR_TRY(gr_obs_need("--image CAMERA=FILE:", equals + 1, false, err));
        }
    }
    if (f->state != NULL) {
        GR_TRY(gr_obs_need("--state", f->state, false, err));
    }
    return f->noise != NULL ? gr_obs_need("--noise", f->noise, false, err) : GR_OK;
}

static void append(char list[LIST_BYTES], const char *text)
{
    size_t used = strlen(list);
    snprintf(list + used, LIST_BYTES - used, "%s%s", used > 0 ? ", " : "", text);
}

static const char *camera_list(const struct gr_info *info, char list[LIST_BYTES])
{
    list[0] = '\0';
    for (int c = 0; c < info->n_cameras; c++) {
        append(list, info->cameras[c]);
    }
    return list;
}

/* Splits "CAMERA=FILE". A value without a known camera in front is a plain path; that is only clear when there is one camera. */
static enum gr_status camera_of(const char *value, const struct gr_info *info, int *camera, const char **path,
                                struct gr_err *err)
{
    char list[LIST_BYTES];
    const char *equals = strchr(value, '=');
    for (int c = 0; equals != NULL && c < info->n_cameras; c++) {
        size_t n = strlen(info->cameras[c]);
        if ((size_t)(equals - value) == n && memcmp(value, info->cameras[c], n) == 0) {
            *camera = c;
            *path = equals + 1;
            return GR_OK;
        }
    }
    if (info->n_cameras == 1 && (equals == NULL || gr_fs_is_file(value))) {
        *camera = 0;
        *path = value;
        return GR_OK;
    }
    return gr_fail(err, GR_ERR_INPUT, "--image %s names no camera of %s, expected CAMERA=FILE with CAMERA one of: %s",
                   value, info->embodiment, camera_list(info, list));
}

enum gr_status gr_obs_image_read(const char *path, struct gr_image *out, struct gr_err *err)
{
    char *bytes = NULL;
    size_t n = 0;
    GR_TRY(gr_fs_read(path, IMAGE_MAX_BYTES, &bytes, &n, err));
    struct gr_err inner = {0};
    enum gr_status status = gr_image_decode(bytes, n, out, &inner);
    free(bytes);
    return status == GR_OK ? GR_OK : gr_fail(err, status, "image %s: %s", path, inner.msg);
}

/* Sorts the values into time-major slots; complains when a camera has too few or too many pictures. */
static enum gr_status assign(const struct gr_arg_list *list, const struct gr_info *info, struct gr_obs_images *out,
                             struct gr_err *err)
{
    int cameras = info->n_cameras;
    for (int i = 0; i < list->n; i++) {
        int camera, time = 0;
        const char *path;
        GR_TRY(camera_of(list->items[i], info, &camera, &path, err));
        while (time < info->frames_per_camera && out->paths[time * cameras + camera] != NULL) {
            time++;
        }
        if (time == info->frames_per_camera) {
            return gr_fail(err, GR_ERR_INPUT, "camera %s has more than %d picture%s (--image %s)",
                           info->cameras[camera], info->frames_per_camera, info->frames_per_camera == 1 ? "" : "s",
                           list->items[i]);
        }
        out->paths[time * cameras + camera] = path;
    }
    for (int i = 0; i < out->n; i++) {
        if (out->paths[i] == NULL) {
            return gr_fail(err, GR_ERR_INPUT, "camera %s has no picture %d of %d; give --image %s=FILE (oldest first)",
                           info->cameras[i % cameras], i / cameras + 1, info->frames_per_camera,
                           info->cameras[i % cameras]);
        }
    }
    return GR_OK;
}

enum gr_status gr_obs_images_read(const struct gr_arg_list *list, const struct gr_info *info, struct gr_obs_images *out,
                                  struct gr_err *err)
{
    size_t n = (size_t)info->n_cameras * (size_t)info->frames_per_camera;
    out->n = (int)n;
    out->images = calloc(n, sizeof *out->images);
    out->frames = calloc(n, sizeof *out->frames);
    out->paths = calloc(n, sizeof *out->paths);
    if (out->images == NULL || out->frames == NULL || out->paths == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu pictures", n);
    }
    GR_TRY(assign(list, info, out, err));
    double start = gr_clock_ms();
    for (int i = 0; i < out->n; i++) {
        GR_TRY(gr_obs_image_read(out->paths[i], &out->images[i], err));
        out->frames[i] = (struct gr_frame){out->images[i].rgb, out->images[i].height, out->images[i].width};
    }
    out->decode_ms = gr_clock_ms() - start;
    return GR_OK;
}

void gr_obs_images_free(struct gr_obs_images *images)
{
    for (int i = 0; images->images != NULL && i < images->n; i++) {
        gr_image_free(&images->images[i]);
    }
    free(images->images);
    free(images->frames);
    free(images->paths);
    *images = (struct gr_obs_images){0};
}

enum gr_status gr_obs_state_parse(const struct gr_json *groups, const char *what, const struct gr_info *info,
                                  double *state, struct gr_err *err)
{
    struct gr_request_error why;
    struct gr_err inner = {0};
    enum gr_status status = gr_request_state(groups, info, false, state, &why, &inner);
    return status == GR_OK ? GR_OK : gr_fail(err, GR_ERR_INPUT, "%s: %s", what, inner.msg);
}

static bool has_group(const struct gr_info *info, const char *name)
{
    for (int g = 0; g < info->n_state_groups; g++) {
        if (strcmp(info->state_groups[g].name, name) == 0) {
            return true;
        }
    }
    return false;
}

enum gr_status gr_obs_state_read(const char *path, const struct gr_info *info, double **state, struct gr_err *err)
{
    struct gr_json *root = NULL;
    GR_TRY(gr_json_read(path, STATE_MAX_BYTES, GR_ERR_INPUT, &root, err));
    const struct gr_json *groups = root, *inner = gr_json_get(root, "state");
    if (inner != NULL && !has_group(info, "state")) {
        groups = inner; /* the shape of a recorded observation */
    }
    double *values = calloc((size_t)info->state_dim + 1, sizeof *values);
    enum gr_status status = values == NULL ? gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the state", path)
                                           : gr_obs_state_parse(groups, path, info, values, err);
    gr_json_free(root);
    if (status != GR_OK) {
        free(values);
        return status;
    }
    *state = values;
    return GR_OK;
}

enum gr_status gr_obs_npy_read(const char *path, struct gr_npy *npy, const size_t **shape, int *ndim,
                               struct gr_err *err)
{
    char *bytes = NULL;
    size_t n = 0;
    *npy = (struct gr_npy){0};
    GR_TRY(gr_fs_read(path, NOISE_MAX_BYTES, &bytes, &n, err));
    enum gr_status status = gr_npy_parse(bytes, n, path, npy, err);
    free(bytes);
    GR_TRY(status);
    bool batch = npy->ndim == 3 && npy->shape[0] == 1;
    *shape = npy->shape + batch;
    *ndim = npy->ndim - batch;
    return GR_OK;
}

enum gr_status gr_obs_noise_read(const char *path, const struct gr_info *info, float **noise, struct gr_err *err)
{
    const size_t rows = (size_t)info->horizon, cols = (size_t)info->max_action_dim, *shape;
    struct gr_npy npy;
    int ndim;
    GR_TRY(gr_obs_npy_read(path, &npy, &shape, &ndim, err));
    if (ndim != 2 || shape[0] != rows || shape[1] != cols) {
        char found[128] = "";
        for (int i = 0; i < npy.ndim; i++) {
            size_t used = strlen(found);
            snprintf(found + used, sizeof found - used, "%s%zu", i > 0 ? ", " : "", npy.shape[i]);
        }
        gr_npy_free(&npy);
        return gr_fail(err, GR_ERR_INPUT, "%s: noise has shape [%s], expected [%zu, %zu]", path, found, rows, cols);
    }
    for (size_t i = 0; i < rows * cols; i++) {
        if (!isfinite(npy.values[i])) {
            gr_npy_free(&npy);
            return gr_fail(err, GR_ERR_INPUT, "%s: noise[%zu, %zu] is not finite", path, i / cols, i % cols);
        }
    }
    *noise = npy.values; /* malloc'ed by the reader; ownership moves to the caller */
    npy.values = NULL;
    gr_npy_free(&npy);
    return GR_OK;
}
