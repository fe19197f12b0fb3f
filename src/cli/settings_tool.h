/* SPDX-License-Identifier: Apache-2.0
 *
 * settings_tool.h: what the verbs about packages and the Hub take from the environment, in one place: address, token, limits and cache of the
 * Hub, the tool's state folders. An empty variable counts as not set. */
#ifndef GR_CLI_SETTINGS_TOOL_H
#define GR_CLI_SETTINGS_TOOL_H

#include "hub/hub.h"
#include "launch/launch_state.h"

struct gr_tool_hub {
    struct gr_hub *hub;          /* open; its notes go to the log as warnings; see gr_settings_tool_catch */
    char cache[GR_PATH_BYTES];   /* root of the Hub cache (gr_settings_hub_root); need not exist yet */
    char hf_home[GR_PATH_BYTES]; /* HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface */
    struct gr_state_dirs dirs;
    bool has_token; /* one was found, wherever; it is inside the hub */
    bool offline;   /* HF_HUB_OFFLINE: 1, on, yes, true, in any case; GR_ERR_USAGE: no such word, also none for off */
};

/* Reads HF_ENDPOINT, HF_TOKEN (else the file HF_TOKEN_PATH, else HF_HOME/token), HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT, SSL_CERT_FILE and the
 * folders; opens the hub. GR_ERR_USAGE: a variable with an impossible value, HOME not set; GR_ERR_IO: a token file that cannot be read. Free with
 * gr_tool_hub_free, also after a failure. */
enum gr_status gr_settings_tool_hub(struct gr_tool_hub *out, struct gr_err *err);
void gr_tool_hub_free(struct gr_tool_hub *t);

/* HF_HUB_OFFLINE alone. GR_ERR_USAGE. */
enum gr_status gr_settings_tool_offline(bool *out, struct gr_err *err);
/* Only the tool's state folders; for verbs that never talk to the Hub. GR_ERR_USAGE: HOME is not set. */
enum gr_status gr_settings_tool_dirs(struct gr_state_dirs *out, struct gr_err *err);
/* Where `login` keeps the token: HF_TOKEN_PATH, else hf_home/token. */
enum gr_status gr_settings_tool_token_file(char out[GR_PATH_BYTES], struct gr_err *err);
/* "BASE_URL": TT_MODEL_BASE_URL, else TT_KERNEL_BASE_URL, else NULL. */
const char *gr_settings_tool_env(const char *name);

/* From now on SIGINT, SIGTERM and SIGHUP set the flag that every hub of this process stops at, so that a transfer can end in order; the second one
 * ends the process at once. gr_settings_tool_cancelled: one has come; end with gr_settings_tool_interrupted then, which says `kept` and exits with
 * 130. */
void gr_settings_tool_catch(void);
bool gr_settings_tool_cancelled(void);
_Noreturn void gr_settings_tool_interrupted(const char *kept);

#endif
