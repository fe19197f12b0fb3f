/* SPDX-License-Identifier: Apache-2.0
 *
 * labels.c: slugs, board labels and mesh shapes of manifests. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "package/manifest.h"

bool gr_is_slug(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
    return name[0] != '\0' && strchr(first, name[0]) != NULL && strlen(name) < 128 &&
           name[strspn(name, rest)] == '\0' && strstr(name, "..") == NULL;
}

/* "p150", "p150a", "P300x2" */
int gr_hardware_chips(const char *hardware)
{
    static const struct {
        const char *board;
        int chips;
    } boards[] = {{"p100", 1}, {"p150", 1}, {"n150", 1}, {"e150", 1}, {"p300", 2}, {"n300", 2}};
    for (size_t i = 0; i < sizeof boards / sizeof boards[0]; i++) {
        const size_t n = strlen(boards[i].board);
        if (strncasecmp(hardware, boards[i].board, n) != 0) {
            continue;
        }
        const char *at = hardware + n;
        if (isalpha((unsigned char)at[0]) && !((at[0] == 'x' || at[0] == 'X') && isdigit((unsigned char)at[1]))) {
            at++;
        }
        if (at[0] == '\0') {
            return boards[i].chips;
        }
        char *end;
        const long times =
            (at[0] == 'x' || at[0] == 'X') && isdigit((unsigned char)at[1]) ? strtol(at + 1, &end, 10) : 0;
        return times >= 1 && times <= 1024 && *end == '\0' ? boards[i].chips * (int)times : 0;
    }
    return 0;
}

bool gr_mesh_shape(const char *mesh, int *rows, int *cols)
{
    static const struct {
        const char *name;
        int rows, cols;
    } meshes[] = {{"N150", 1, 1},   {"P100", 1, 1},   {"P150", 1, 1}, {"P150x2", 1, 2},   {"N300", 1, 2},
                  {"P300", 1, 2},   {"N150x4", 1, 4}, {"T3K", 1, 8},  {"P150x4", 1, 4},   {"P150x8", 1, 8},
                  {"P300x2", 1, 4}, {"QB2", 2, 2},    {"TG", 4, 8},   {"BH-Galaxy", 4, 8}};
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        if (strcmp(mesh, meshes[i].name) == 0) {
            *rows = meshes[i].rows;
            *cols = meshes[i].cols;
            return true;
        }
    }
    int end = 0;
    return sscanf(mesh, " (%4d ,%4d )%n", rows, cols, &end) == 2 && end > 0 && mesh[end] == '\0' && *rows > 0 &&
           *cols > 0;
}
