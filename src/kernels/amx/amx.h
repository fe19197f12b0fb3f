/* SPDX-License-Identifier: Apache-2.0
 *
 * amx.h: functions of the AMX set, see kernels.h for their contracts. */
#ifndef GR_KERNELS_AMX_H
#define GR_KERNELS_AMX_H

#include "kernels/kernels.h"

void gr_gemm_i8_amx(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_gemm_bf16p_amx(const struct gr_gemm *g, int p0, int p1, void *scratch);
double gr_peak_i8_amx(void);
double gr_peak_bf16p_amx(void);

#endif
