/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_job.h: one `serve TARGET` under way, and what is made ready before the start: host, image, tokenizer, weights. */
#ifndef GR_CLI_LAUNCH_JOB_H
#define GR_CLI_LAUNCH_JOB_H

#include "cli/boot_view.h"
#include "cli/cmd_launch.h"
#include "cli/launch_target.h"

struct gr_job {
    struct gr_cli *cli;
    const struct gr_launch_request *req;
    const struct gr_launch_flags *flags;
    struct gr_boot_view view;
    struct gr_tool_hub tool;
    struct gr_launch_target target;
    struct gr_native_root root;
    struct gr_launch launch;
    struct gr_profile profile; /* of a package */
    bool has_profile;
    struct gr_env *env;
    char **environment;
    const char **words;
    struct gr_buf service, weights; /* of struct gr_boot_words */
    int first_port;                 /* without --port: where the search begins */
    char chips[GR_CHIPS_BYTES];     /* "": not chosen */
    char engine[16], user[32], program[GR_PATH_BYTES], snapshot[GR_PATH_BYTES];
};

/* The command is printed only: nothing is fetched, shown or asked of the host. */
bool gr_job_prints(const struct gr_job *j);
/* A card profile in a container needs what the line mounts. GR_ERR_DEVICE. */
enum gr_status gr_job_host(struct gr_job *j, struct gr_err *err);
/* The chips of a card profile in a container, into j->chips: under the start's lock, so that two starts take different ones. */
enum gr_status gr_job_chips(struct gr_job *j, struct gr_err *err);
/* dir: of weights that are here, or NULL; w: those that are fetched next, or NULL. */
enum gr_status gr_job_tokenizer(struct gr_job *j, const char *dir, const struct gr_weights_ref *w, struct gr_err *err);
/* Once the target and its profile are known. */
enum gr_status gr_job_find_tokenizer(struct gr_job *j, struct gr_err *err);
enum gr_status gr_job_image(struct gr_job *j, struct gr_err *err);
enum gr_status gr_job_weights(struct gr_job *j, struct gr_err *err);

#endif
