/* SPDX-License-Identifier: Apache-2.0
 *
 * kernel_images.h: the rv32 programs of kernels/, one flat binary a core, written into arrays by tools/embed.c at build time. Without an
 * rv32 compiler there are none (GR_HAVE_BH_KERNELS). */
#ifndef GR_BLACKHOLE_KERNEL_IMAGES_H
#define GR_BLACKHOLE_KERNEL_IMAGES_H

#include <stddef.h>

#define GR_KERNEL_IMAGE(name)                        \
    extern const unsigned char gr_embed_bh_##name[]; \
    extern const size_t gr_embed_bh_##name##_size

GR_KERNEL_IMAGE(interpret_B);
GR_KERNEL_IMAGE(interpret_N);
GR_KERNEL_IMAGE(interpret_T0);
GR_KERNEL_IMAGE(interpret_T1);
GR_KERNEL_IMAGE(interpret_T2);
GR_KERNEL_IMAGE(hello_B);
GR_KERNEL_IMAGE(hello_N);
GR_KERNEL_IMAGE(hello_T0);
GR_KERNEL_IMAGE(hello_T1);
GR_KERNEL_IMAGE(hello_T2);
GR_KERNEL_IMAGE(memory_B);

#endif
