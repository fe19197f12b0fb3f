/* SPDX-License-Identifier: Apache-2.0
 *
 * boot_fixture.h: what a start of the server finds out, on the demo snapshot: policy, demo observation, a self-check whose golden
 * is the chunk itself. Made once for a test program. */
#ifndef GR_BOOT_FIXTURE_H
#define GR_BOOT_FIXTURE_H

#include "server/service.h"

struct gr_boot_fixture {
    struct gr_boot_facts facts;
    struct gr_service_config config;
    struct gr_policy *policy;
    struct gr_demo demo;
    struct gr_selfcheck check;
};

/* 0, or -1 with a line on stderr: suitable for a group setup. Memory is never given back before gr_boot_fixture_free. */
int gr_boot_fixture_make(struct gr_boot_fixture *f);
void gr_boot_fixture_free(struct gr_boot_fixture *f);

#endif
