/* SPDX-License-Identifier: Apache-2.0
 *
 * killed.c: whether a killed service ran out of memory, and what limit it had: the engine says so of a container, the control group (v2) of a child,
 * which is in the same one as this process. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/container.h"

enum { TEXT_BYTES = 4096 };

/* Start of the file; false: there is none. */
static bool read_text(const char *dir, const char *name, char out[TEXT_BYTES])
{
    char path[GR_PATH_BYTES];
    struct gr_err ignored;
    FILE *f = gr_path_join(path, dir, name, &ignored) == GR_OK ? fopen(path, "re") : NULL;
    out[0] = '\0';
    if (f == NULL) {
        return false;
    }
    out[fread(out, 1, TEXT_BYTES - 1, f)] = '\0';
    (void)fclose(f);
    return true;
}

void gr_killed_group(const char *root, const char *group, struct gr_killed *out)
{
    char dir[GR_PATH_BYTES], text[TEXT_BYTES];
    *out = (struct gr_killed){0};
    if ((size_t)snprintf(dir, sizeof dir, "%s%s", root, group) >= sizeof dir) {
        return;
    }
    const char *kills = read_text(dir, "memory.events", text) ? strstr(text, "oom_kill ") : NULL;
    out->memory = kills != NULL && atoll(kills + strlen("oom_kill ")) > 0;
    while (strlen(dir) >= strlen(root)) { /* the tightest limit on the way up counts; "max" is none */
        const uint64_t limit = read_text(dir, "memory.max", text) ? strtoull(text, NULL, 10) : 0;
        out->limit = limit > 0 && (out->limit == 0 || limit < out->limit) ? limit : out->limit;
        char *slash = strrchr(dir, '/');
        if (slash == NULL) {
            break;
        }
        *slash = '\0';
    }
}

void gr_launch_killed(const struct gr_running *r, char *const *environment, struct gr_killed *out)
{
    static const char *const format = "{{.State.OOMKilled}} {{.HostConfig.Memory}}";
    char text[TEXT_BYTES], word[8] = "";
    *out = (struct gr_killed){0};
    if (strcmp(r->engine, "native") != 0) {
        const char *const words[] = {"container", "inspect", "--format", format, r->name, NULL};
        if (gr_container_answer(r->engine, words, environment, text, sizeof text) &&
            sscanf(text, "%7s %" SCNu64, word, &out->limit) >= 1) {
            out->memory = strcmp(word, "true") == 0;
        }
        return;
    }
    char *group = read_text("/proc/self", "cgroup", text) ? strstr(text, "0::/") : NULL;
    if (group != NULL) {
        group += strlen("0::");
        group[strcspn(group, "\n")] = '\0';
        gr_killed_group("/sys/fs/cgroup", group, out);
    }
}
