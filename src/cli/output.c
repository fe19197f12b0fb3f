/* SPDX-License-Identifier: Apache-2.0
 *
 * output.c: results to stdout and to files, and small facts about this process. A write that fails is an error like any other:
 * a full disk must not look like success. Only a reader that went away is no news to anybody (main.c). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "cli/cli.h"

enum gr_status gr_cli_flush(struct gr_cli *cli, struct gr_err *err)
{
    if (cli->out.failed) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the output");
    }
    for (size_t done = 0; done < cli->out.len;) {
        ssize_t n = write(STDOUT_FILENO, cli->out.data + done, cli->out.len - done);
        if (n < 0 && errno != EINTR) {
            cli->closed_pipe = errno == EPIPE;
            return gr_fail_errno(err, GR_ERR_IO, errno, "cannot write to stdout");
        }
        done += n > 0 ? (size_t)n : 0;
    }
    cli->out.len = 0;
    return GR_OK;
}

enum gr_status gr_cli_write_file(const char *path, const struct gr_buf *buf, struct gr_err *err)
{
    if (buf->failed) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %s", path);
    }
    char target[GR_PATH_BYTES];
    GR_TRY(gr_fs_follow(target, path, err));
    return gr_fs_write(target, buf->data, buf->len, err);
}

size_t gr_peak_rss_bytes(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    size_t kib = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "VmHWM: %zu kB", &kib) == 1) {
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return kib * 1024;
}

const char *gr_human_bytes(char out[32], double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;
    while (bytes >= 999.5 && u < 4) {
        bytes /= 1000.0;
        u++;
    }
    snprintf(out, 32, "%.*f %s", u == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2, bytes, units[u]);
    return out;
}
