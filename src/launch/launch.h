/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h: a package or a snapshot as a running service and back: natively as a child process, or in a container of docker or podman. Watches the
 * boot line by line (watch.h). `environment` is always the caller's, "K=V", NULL-terminated. */
#ifndef GR_LAUNCH_LAUNCH_H
#define GR_LAUNCH_LAUNCH_H

#include "launch/launch_state.h"
#include "launch/watch.h"
#include "package/oci.h"

enum { GR_LAUNCH_PORT = 20000, GR_LAUNCH_PORTS = 100 };

/* What runs natively: the image's own program, unpacked. Zero-initialise; free with gr_native_root_free. */
struct gr_native_root {
    char dir[GR_PATH_BYTES]; /* <tools>/<name>/root-<12 hex> */
    struct gr_oci_run run;
};
/* Unpacks image_dir unless that digest is there already; other roots of the package that no running service uses are removed. GR_ERR_FORMAT,
 * GR_ERR_IO. */
enum gr_status gr_native_root(const struct gr_state_dirs *d, const char *name, const char *image_dir,
                              struct gr_native_root *out, struct gr_err *err);
void gr_native_root_free(struct gr_native_root *r);

struct gr_launch {
    const struct gr_state_dirs *dirs;
    const char *target;                 /* folder, manifest or repository; absolute or an id */
    const struct gr_manifest *manifest; /* of a package; NULL: a bare snapshot folder */
    const struct gr_native_root *root;  /* native, of a package with an image; NULL: `program` serves it */
    const char *snapshot; /* native: weights folder; NULL: the service finds them by HF_MODEL in the Hub cache */
    const char *name;     /* of a bare snapshot: a slug */
    const char *profile;  /* NULL: the default one */
    const char *engine;   /* "native", "docker", "podman" */
    const char *program;  /* native without a root: a gr00t, absolute */
    const char *user;     /* container: "U:G" */
    int port;
    const char *host; /* NULL: 127.0.0.1 */
    const char *hf_home,
        *hub_cache;           /* mounted, and handed on as HF_HOME, HF_HUB_CACHE; hub_cache below hf_home or not */
    bool has_token;           /* HF_TOKEN is in the environment: handed on by name only */
    const struct gr_env *env; /* --env K=V, over the profile's */
    int n_env;
    const char *const *words; /* behind the target: to the service */
    int n_words;
    const char *devices; /* "0,1", NULL: all */
    bool cards;          /* mount card devices and huge pages */
    bool detach;         /* container: --detach in the line */
    char *const *environment;
};

/* The command as an argument vector: of the container engine, or of the native process. Zero-initialise; free with gr_command_line_free. */
struct gr_command_line {
    char **argv; /* NULL-terminated */
    int argc;
    struct gr_env *env; /* environment on top of the caller's, sorted by name; of an engine: tokens */
    int n_env;
    char name[GR_RUN_NAME_BYTES]; /* tt-model-<name>-<profile> */
    char package[128], profile[64];
    char image[256]; /* container */
    int port;
    bool failed; /* no memory */
};
/* GR_ERR_USAGE (profile, a variable), GR_ERR_FORMAT (an image whose program cannot run natively), GR_ERR_NOMEM. */
enum gr_status gr_launch_compose(const struct gr_launch *l, struct gr_command_line *out, struct gr_err *err);
void gr_command_line_free(struct gr_command_line *c);
/* A variable whose value is a token: it goes through the environment only, never on a command line or into a printed one. */
bool gr_is_secret_variable(const char *name);
/* One word for a POSIX shell, quoted as Python's shlex.quote does when it must be. */
void gr_shell_word(const char *text, struct gr_buf *out);
/* The line a shell would read, of such words, into out; *** for a token. */
void gr_command_line_text(const struct gr_command_line *c, struct gr_buf *out);
/* Words and variables, copied; a refused allocation sets `failed`. For gr_launch_compose and its tests. */
void gr_command_line_word(struct gr_command_line *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void gr_command_line_env(struct gr_command_line *c, const char *name, const char *value); /* replaces; keeps order */

/* True when the profile computes on the host's CPU (GR00T_DEVICE=cpu): no card is needed. */
bool gr_launch_on_cpu(const struct gr_profile *p, const struct gr_env *env, int n_env);

/* One start at a time chooses a port and writes its state file. *fd: close it to let go. */
enum gr_status gr_launch_lock(const struct gr_state_dirs *d, int *fd, struct gr_err *err);
/* First port from `first` (GR_LAUNCH_PORT or later) on that can be bound on all addresses and that no running service of ours is about to take; none
 * from GR_LAUNCH_PORT + GR_LAUNCH_PORTS on. GR_ERR_BUSY. */
enum gr_status gr_launch_port(const struct gr_state_dirs *d, int first, int *port, struct gr_err *err);
/* GR_ERR_USAGE: in use. */
enum gr_status gr_launch_port_free(int port, struct gr_err *err);
/* Starts it in a session of its own with its log in a file; the state file is written before the service runs, so that none runs unrecorded whenever this
 * process is killed. c->name gets a number behind it when a service of another target has that name. GR_ERR_BUSY: runs already. */
enum gr_status gr_launch_start(const struct gr_launch *l, struct gr_command_line *c, struct gr_running *out,
                               struct gr_err *err);
/* False when the service is gone, or when the engine does not answer. */
bool gr_launch_alive(const struct gr_running *r, char *const *environment);

/* Of a service that ended by SIGKILL, unasked. */
struct gr_killed {
    bool memory;    /* out of memory, say the engine or the kernel */
    uint64_t limit; /* bytes; 0: none known */
};
void gr_launch_killed(const struct gr_running *r, char *const *environment, struct gr_killed *out);
/* The same of a control group below the folder `root`. */
void gr_killed_group(const char *root, const char *group, struct gr_killed *out);

enum gr_stop_kind {
    GR_STOP_NOTHING, /* it was gone already */
    GR_STOP_CLEAN,
    GR_STOP_KILLED,
    GR_STOP_KILLED_RESET,     /* and the cards were reset */
    GR_STOP_KILLED_NO_RESET,  /* the reset failed */
    GR_STOP_KILLED_LEFT_ALONE /* no reset: another container has cards */
};
/* SIGTERM, grace_s, SIGKILL; the state file becomes that of a stopped service, whose log stays. Signals only a process with the recorded start time. */
enum gr_status gr_launch_stop(const struct gr_state_dirs *d, const struct gr_running *r, char *const *environment,
                              double grace_s, enum gr_stop_kind *how, struct gr_err *err);

/* A new log; that of the run before is kept beside it. For nobody else to read, whatever the umask. close(*fd). */
enum gr_status gr_launch_log_new(const char *path, int *fd, struct gr_err *err);
/* The log as a stream of bytes: a file, or the output of the engine. */
struct gr_log_stream {
    int fd;
    pid_t child; /* 0: none */
};
enum gr_status gr_launch_log_open(const struct gr_running *r, char *const *environment, bool follow,
                                  struct gr_log_stream *out, struct gr_err *err);
void gr_launch_log_close(struct gr_log_stream *s);

/* ---- engines ---- */

/* The image that the manifest names is in the engine, under its recorded id, else it is loaded from image_dir. *loaded: it was. loaded_id: what the
 * engine calls it, to be remembered; in: what was remembered. GR_ERR_INPUT: neither there nor to be loaded. */
enum gr_status gr_container_image(const char *engine, const struct gr_manifest *m, const char *image_dir,
                                  char *const *environment, char loaded_id[80], bool *loaded, struct gr_err *err);
/* Container of that name that runs. */
bool gr_container_runs(const char *engine, const char *name, char *const *environment);
/* What a container that ended gave; -1: there is none. */
int gr_container_exit_code(const char *engine, const char *name, char *const *environment);
/* Running containers of packages that the vendor's tool may have started, by its labels; docker's, which it always calls. Without an engine there
 * are none. free(*items). GR_ERR_NOMEM. */
/* GR_ERR_BUSY: the engine hangs. */
enum gr_status gr_container_others(char *const *environment, struct gr_running **items, int *n, struct gr_err *err);
/* docker and the card nodes are fit for a card in a container: server 25 or later, as the vendor's tool wants it; under a rootless engine nodes that
 * the caller may read and write as the plain user. GR_ERR_DEVICE. */
enum gr_status gr_container_fit(const char *engine, const char *nodes, char *const *environment, struct gr_err *err);
/* Chips of a start: the lowest `want` free numbers of the nodes, or those given ("0,1"; GR_ERR_USAGE: not `want` distinct ones). GR_ERR_DEVICE: there
 * are none such, or too few are free: a chip is taken by any running container in the host's IPC namespace that has its node, the whole
 * folder or all devices. */
enum { GR_CHIPS_BYTES = 128 };
enum gr_status gr_container_chips(const char *engine, const char *nodes, const char *given, int want,
                                  char *const *environment, char out[GR_CHIPS_BYTES], struct gr_err *err);
/* "U:G": the caller's, "0:0" under a rootless engine. GR_ERR_DEVICE: the engine does not answer. */
enum gr_status gr_container_user(const char *engine, char *const *environment, char out[32], struct gr_err *err);
/* Reference that `run` gets. GR_ERR_FORMAT: the manifest names no image. */
enum gr_status gr_container_image_ref(const struct gr_manifest *m, char out[256], struct gr_err *err);

#endif
