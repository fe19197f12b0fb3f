/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c: which process a number in a state file means. A pid is given out again once its process is gone, and after a reboot all are: the start
 * time and the boot it counts from tell them apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/launch_state.h"

/* State letter and start time (fields 3 and 22) of /proc/PID/stat; the second field is a name in parentheses that may itself hold blanks and
 * parentheses. */
static bool read_stat(pid_t pid, char *letter, uint64_t *start)
{
    enum { STATE = 3, START = 22 };
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = pid > 0 ? fopen(path, "re") : NULL;
    if (f == NULL) {
        return false;
    }
    const size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ') {
        return false;
    }
    *letter = at[2];
    for (int field = STATE - 1; at != NULL && field < START; field++) {
        at = strchr(at + 1, ' ');
    }
    *start = at != NULL ? strtoull(at, NULL, 10) : 0;
    return *start > 0;
}

uint64_t gr_process_start(pid_t pid)
{
    char letter;
    uint64_t start;
    return read_stat(pid, &letter, &start) ? start : 0;
}

void gr_process_boot(char out[40])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    out[0] = '\0';
    if (f != NULL) {
        if (fgets(out, 40, f) == NULL) {
            out[0] = '\0';
        }
        (void)fclose(f);
        out[strcspn(out, "\n")] = '\0';
    }
}

bool gr_process_runs(pid_t pid, uint64_t start, const char *boot)
{
    char letter, now[40];
    uint64_t found;
    gr_process_boot(now);
    if (boot[0] != '\0' && now[0] != '\0' && strcmp(boot, now) != 0) {
        return false;
    }
    return read_stat(pid, &letter, &found) && found == start && letter != 'Z' && letter != 'X';
}
