/* SPDX-License-Identifier: Apache-2.0
 *
 * process_facts.h: what the system says about this process, for /metrics. Never fails: 0 when /proc is not there. */
#ifndef GR_SERVER_PROCESS_FACTS_H
#define GR_SERVER_PROCESS_FACTS_H

double gr_process_resident_bytes(void);
double gr_process_open_fds(void);
double gr_process_cpu_s(void);
double gr_process_start_time_s(void); /* Unix time */

#endif
