/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_state.h: what the tool remembers between runs, where the vendor's tool keeps it too (docs/PACKAGES.md): installed.json, pulled manifests, running
 * services. Root: ~/.cache/tt-model (older ~/.cache/tt-kernel when only that exists); installed.json under XDG_CACHE_HOME when set. */
#ifndef GR_LAUNCH_LAUNCH_STATE_H
#define GR_LAUNCH_LAUNCH_STATE_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "hub/hub.h"
#include "package/manifest.h"

struct gr_state_dirs {
    char tools[GR_PATH_BYTES];     /* <home>/.cache/tt-model */
    char installed[GR_PATH_BYTES]; /* installed.json */
};
/* home: the user's; xdg: XDG_CACHE_HOME or NULL. GR_ERR_USAGE. */
enum gr_status gr_state_dirs(const char *home, const char *xdg, struct gr_state_dirs *out, struct gr_err *err);
/* pulled/<ns>__<name>/tt_kernel_manifest.json of a repository. GR_ERR_USAGE: id is none. */
enum gr_status gr_state_pulled(const struct gr_state_dirs *d, const char *id, char out[GR_PATH_BYTES],
                               struct gr_err *err);

/* <tools>/<name>: root, caches and logs of a package. GR_ERR_FORMAT: no safe name, or that of a file or folder which the tool itself keeps there. */
enum gr_status gr_state_package(const struct gr_state_dirs *d, const char *name, char out[GR_PATH_BYTES],
                                struct gr_err *err);

struct gr_installed {
    char id[GR_HUB_ID_BYTES], revision[GR_HUB_COMMIT_BYTES], arch[32], image[256], image_digest[80],
        image_loaded_id[80], manifest[GR_PATH_BYTES], profile[64];
    struct gr_strings profiles; /* of the list, until gr_installed_free */
};
struct gr_installed_list {
    struct gr_installed *items; /* in the order of the file */
    int n;
    void *memory;
};
/* A missing file is an empty list; a damaged one GR_ERR_FORMAT. A text that is missing or no text is "". */
enum gr_status gr_installed_read(const struct gr_state_dirs *d, struct gr_installed_list *out, struct gr_err *err);
void gr_installed_free(struct gr_installed_list *l);
/* The entry of `id`, NULL: none. */
const struct gr_installed *gr_installed_find(const struct gr_installed_list *l, const char *id);
/* Under a lock: adds or replaces the entry of item->id; removes that of `id`. Other entries stay as they are, fields that are not ours
 * included. */
enum gr_status gr_installed_put(const struct gr_state_dirs *d, const struct gr_installed *item, struct gr_err *err);
enum gr_status gr_installed_remove(const struct gr_state_dirs *d, const char *id, struct gr_err *err);

/* run/tt-model-<name>-<profile>.json. */
enum { GR_RUN_NAME_BYTES = 128 };
struct gr_running {
    char name[GR_RUN_NAME_BYTES]; /* tt-model-<name>-<profile> */
    char target[GR_PATH_BYTES], package[128], profile[64];
    char engine[16]; /* "native", "docker", "podman" */
    pid_t pid;       /* native */
    uint64_t
        start; /* of the process in clock ticks since boot (/proc/PID/stat): a pid alone may be another program's by now */
    char boot[40]; /* id of the machine's boot that `start` counts from; "" when unknown */
    int port;
    bool cards;      /* a container that holds card devices */
    char image[256]; /* of a container */
    char log[GR_PATH_BYTES];
    char url[256];
    char tls_cert[GR_PATH_BYTES]; /* of a native https service: its certificate, which its clients here trust; "" */
    bool other; /* another tool's container, found by its labels: there is no state file, and `target` may be "" */
};
enum gr_status gr_running_write(const struct gr_state_dirs *d, const struct gr_running *r, struct gr_err *err);
/* GR_ERR_INPUT: no such file. GR_ERR_FORMAT: it says nothing that can be used; nothing is signalled on its word. */
enum gr_status gr_running_read(const struct gr_state_dirs *d, const char *name, struct gr_running *out,
                               struct gr_err *err);
void gr_running_remove(const struct gr_state_dirs *d, const char *name);
/* Names of all state files, sorted; free(*names), which is NULL for none and after a failure. */
enum gr_status gr_running_list(const struct gr_state_dirs *d, char (**names)[GR_RUN_NAME_BYTES], int *n,
                               struct gr_err *err);
/* tt-model-<letters, digits, "._-">, as profiles may be called: what becomes a file name, a container name or an argument passes here. */
bool gr_is_run_name(const char *name);

/* What was stopped: run/tt-model-<name>-<profile>.stopped, the same record, so that its log can still be found. */
enum gr_status gr_stopped_write(const struct gr_state_dirs *d, const struct gr_running *r, struct gr_err *err);
enum gr_status gr_stopped_read(const struct gr_state_dirs *d, const char *name, struct gr_running *out,
                               struct gr_err *err);
enum gr_status gr_stopped_list(const struct gr_state_dirs *d, char (**names)[GR_RUN_NAME_BYTES], int *n,
                               struct gr_err *err);
/* Forgets what was stopped of that target and profile (NULL: any). logs: their log files go too, unless a service of that name runs again. */
void gr_stopped_forget(const struct gr_state_dirs *d, const char *target, const char *profile, bool logs);

/* <tools>/run, made; for nobody else to read, whatever the umask. */
enum gr_status gr_state_run(const struct gr_state_dirs *d, char out[GR_PATH_BYTES], struct gr_err *err);
/* A file of the state, complete or not at all; for nobody else to read, whatever the umask. */
enum gr_status gr_state_write(const char *path, const struct gr_buf *text, struct gr_err *err);
/* <tools>/run/<name><end>, the folder made. GR_ERR_INPUT: `name` is no name of a service. */
enum gr_status gr_running_path(const struct gr_state_dirs *d, const char *name, const char *end,
                               char out[GR_PATH_BYTES], struct gr_err *err);
/* Waits for the lock of `path` (a file beside it); *fd: close it to let go. */
enum gr_status gr_state_lock(const char *path, int *fd, struct gr_err *err);

/* Start time of a process; 0: no such process. */
uint64_t gr_process_start(pid_t pid);
/* It is there, has this start time in this boot, and is no zombie. */
bool gr_process_runs(pid_t pid, uint64_t start, const char *boot);
/* Id of this boot of the machine; "" when the system does not say. */
void gr_process_boot(char out[40]);

#endif
