/* SPDX-License-Identifier: Apache-2.0
 *
 * process_facts.c: /proc/self in numbers. */
#include "server/process_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The first n - 1 bytes of a file of /proc, which one read gives whole. */
static const char *read_proc(const char *path, char *text, size_t n)
{
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return text;
    }
    ssize_t got = read(fd, text, n - 1);
    (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    return text;
}

double gr_process_resident_bytes(void)
{
    char text[256], *end;
    (void)read_proc("/proc/self/statm", text, sizeof text);
    (void)strtoull(text, &end, 10); /* size */
    return (double)strtoull(end, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

double gr_process_open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL) {
        return 0;
    }
    int n = -1; /* the folder's own descriptor */
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(dir);
    return n > 0 ? n : 0;
}

double gr_process_cpu_s(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0) {
        return 0;
    }
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec +
           ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec) / 1e6;
}

double gr_process_start_time_s(void)
{
    char text[1024];
    (void)read_proc("/proc/self/stat", text, sizeof text);
    const char *p = strrchr(text, ')'); /* the name may hold blanks and brackets */
    struct timespec up, now;
    if (p == NULL || clock_gettime(CLOCK_BOOTTIME, &up) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return 0;
    }
    /* starttime is field 22 and ')' ends field 2: it is the 20th word behind it. */
    for (int i = 0; i < 20 && p != NULL; i++) {
        p = strchr(p + 1, ' ');
    }
    if (p == NULL) {
        return 0;
    }
    const double since_boot = (double)strtoull(p, NULL, 10) / (double)sysconf(_SC_CLK_TCK);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9 - ((double)up.tv_sec + (double)up.tv_nsec / 1e9) + since_boot;
}
