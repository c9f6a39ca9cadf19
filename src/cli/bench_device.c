/* SPDX-License-Identifier: MIT */
/* src/cli/bench_device.c -- quern bench on devices: which of them computes a model, and what they can do at most. */
#include "cli/bench.h"
#include "cli/devices.h"
#include <string.h>

#define DEVICE_SECONDS 0.3

static bool is_processor(const char *backend) { return strncmp(backend, "cpu", 3) == 0; }

/* The entry of a device; the first time it is measured. */
static int device_of(bench_table *t, const char *name, int *index)
{
    qn_error err;
    for (*index = 0; *index < t->n_devices; ++*index)
        if (strcmp(t->devices[*index].name, name) == 0) return CLI_OK;
    if (t->n_devices == BENCH_MAX_DEVICES) return cli_fail("more than %d devices", BENCH_MAX_DEVICES);
    bench_device *d = &t->devices[t->n_devices];
    if (qn_device_measure(name, DEVICE_SECONDS, &d->peaks, &err) != QN_OK) return cli_fail_error(&err);
    snprintf(d->name, sizeof(d->name), "%s", name);
    t->n_devices++;
    return CLI_OK;
}

int bench_place(const qn_engine *engine, const cli_model_options *m, bench_table *t, bench_row *row)
{
    qn_engine_info info;
    const char *name, *device = NULL;
    int n = 0;
    qn_engine_get_info(engine, &info);
    row->device = -1;
    row->backends[0] = '\0';
    for (int i = 0; (name = qn_engine_backend_name(engine, i)); i++) {
        const size_t len = strlen(row->backends);
        snprintf(row->backends + len, sizeof(row->backends) - len, "%s%s", i ? "+" : "", name);
        if (!is_processor(name) && n++ == 0) device = name;
    }
    if (!device) row->backends[0] = '\0';
    if (!device) return CLI_OK;
    const bool by_layers = m->gpu_layers || m->devices;
    const bool whole = by_layers ? info.gpu_layers >= info.n_layer : !is_processor(qn_engine_backend_name(engine, 0));
    row->divided = n > 1 || !whole;
    if (row->divided) return CLI_OK;
    snprintf(row->backends, sizeof(row->backends), "%s", device);
    return device_of(t, device, &row->device);
}

/* Of a list with commas between. */
static int measure_list(const char *list, bench_table *t)
{
    char name[32];
    const char *p = list;
    int status = CLI_OK, index;
    do {
        const size_t len = strcspn(p, ",");
        if (len == 0 || len >= sizeof(name)) return cli_bad_usage("\"%.64s\" is no list of devices", list);
        memcpy(name, p, len);
        name[len] = '\0';
        if (!is_processor(name)) status = device_of(t, name, &index);
        p += len + 1;
    } while (p[-1] && status == CLI_OK); /* the comma before, or the end */
    return status;
}

int bench_devices(const cli_model_options *m, bench_table *t)
{
    if (m->devices) return measure_list(m->devices, t);
    if (m->backends) return measure_list(m->backends, t);
    cli_found_devices found;
    cli_find_devices(false, DEVICE_SECONDS, &found);
    for (int i = 0; i < found.n && t->n_devices < BENCH_MAX_DEVICES; i++) {
        bench_device *d = &t->devices[t->n_devices];
        if (found.not_measured[i].status == QN_STATUS_cancelled) continue;
        if (found.not_measured[i].status != QN_OK) {
            fprintf(stderr, "quern bench: %s is not measured: %s\n", found.device[i].backend,
                    found.not_measured[i].text);
            continue;
        }
        *d = (bench_device){.peaks = found.peaks[i]};
        snprintf(d->name, sizeof(d->name), "%s", found.device[i].backend);
        t->n_devices++;
    }
    return CLI_OK;
}

qn_machine_peaks bench_device_limit(const qn_device_peaks *p)
{
    return (qn_machine_peaks){.read_gb_s = p->copy_gb_s,
                              .int8_gops = p->int8_gops,
                              .f32_gflops = p->f16_gflops,
                              .bf16_gflops = p->f16_gflops};
}
