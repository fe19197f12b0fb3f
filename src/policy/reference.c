/* SPDX-License-Identifier: Apache-2.0
 *
 * reference.c: one chunk of the exact network on the CPU. */
#include "policy/reference.h"

#include "model/weights.h"

enum gr_status gr_reference_predict(const struct gr_reference *r, const struct gr_model_input *in, float *action,
                                    struct gr_timing *time, const char **kernels, struct gr_err *err)
{
    struct gr_device *cpu = NULL;
    struct gr_weights *w = NULL;
    struct gr_device_cfg cfg = r->device;
    struct gr_model_input exact = *in;
    cfg.policy = "exact";
    cfg.half = NULL;
    cfg.cache_dir = NULL; /* used once: gigabytes that nobody would read again */
    exact.reference = false;
    GR_TRY(gr_weights_open(r->snapshot, r->config, NULL, NULL, &w, err));
    enum gr_status status = gr_device_cpu.open(&cfg, &cpu, err);
    if (status == GR_OK) {
        status = gr_device_cpu.load(cpu, w, NULL, err);
    }
    if (status == GR_OK) {
        *kernels = gr_device_cpu.isa(cpu);
        status = gr_device_cpu.predict(cpu, &exact, action, time, NULL, err);
    }
    if (cpu != NULL) {
        gr_device_cpu.close(cpu);
    }
    gr_weights_free(w);
    return status;
}
