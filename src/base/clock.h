/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h: monotonic time. */
#ifndef GR_BASE_CLOCK_H
#define GR_BASE_CLOCK_H

/* Milliseconds of CLOCK_MONOTONIC. */
double gr_clock_ms(void);

#endif
