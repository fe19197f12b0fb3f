/* SPDX-License-Identifier: Apache-2.0
 *
 * avxvnni.h: functions of the AVX-VNNI set, see kernels.h for their contracts. The set needs AVX2, whose loops it uses. */
#ifndef GR_KERNELS_AVXVNNI_AVXVNNI_H
#define GR_KERNELS_AVXVNNI_AVXVNNI_H

#include "kernels/kernels.h"

void gr_avxvnni_gemm_i8(const struct gr_gemm *g, int p0, int p1, void *scratch);
void gr_avxvnni_gemm_i16(const struct gr_gemm *g, int p0, int p1, void *scratch);
double gr_avxvnni_peak_i8(void);
double gr_avxvnni_peak_i16(void);

#endif
