/* SPDX-License-Identifier: Apache-2.0
 *
 * format.c: names of the number formats, as plans, reports and flags spell them. */
#include <string.h>

#include "kernels/kernels.h"

static const char *const names[GR_MAT_FORMATS] = {
    [GR_MAT_F32] = "f32", [GR_MAT_BF16] = "bf16", [GR_MAT_I8] = "i8",
    [GR_MAT_I16] = "i16", [GR_MAT_F16] = "f16",   [GR_MAT_BF16P] = "bf16p",
};

const char *gr_format_name(enum gr_mat_format format) { return names[format]; }

bool gr_format_find(const char *name, enum gr_mat_format *out)
{
    for (int i = 0; i < GR_MAT_FORMATS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = (enum gr_mat_format)i;
            return true;
        }
    }
    return false;
}
