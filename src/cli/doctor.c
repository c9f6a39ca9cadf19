/* SPDX-License-Identifier: MIT */
/* src/cli/doctor.c -- quern doctor: the machine as Quern sees it, with measured peaks. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "cli/devices.h"
#include <jansson.h>
#include <pcre2.h>
#include <quern/machine.h>
#include <stdlib.h>
#include <unistd.h>
#include <utf8proc.h>

#define DEVICE_SECONDS 0.5 /* a peak */

static const cli_usage usage = {
    .command = "doctor",
    .arguments = "",
    .summary =
        "Shows what this machine offers: processor level, cores and quota, caches, memory, measured bandwidth and "
        "arithmetic, and devices to compute on.",
    .examples = "For people:\nquern doctor\nFor programs:\nquern doctor --json\n",
};

static double gib(uint64_t bytes) { return (double)bytes / (1024.0 * 1024.0 * 1024.0); }

static void print_devices(const cli_found_devices *f)
{
    for (int i = 0; i < f->n; i++) {
        const qn_device_peaks *p = &f->peaks[i];
        printf("%-14s %s  %s, %.1f GiB%s%s\n", i ? "" : "devices", f->device[i].backend, f->device[i].name,
               gib(f->device[i].memory_bytes), f->device[i].integrated ? " of the host's" : "",
               f->device[i].same_bits ? "" : ", last bits of its own");
        if (f->not_measured[i].status == QN_OK)
            printf("%-14s copies %.1f GB/s, up %.1f, down %.1f; int8 %.0f Gop/s, f16 %.0f Gflop/s\n", "", p->copy_gb_s,
                   p->up_gb_s, p->down_gb_s, p->int8_gops, p->f16_gflops);
        else if (f->not_measured[i].status != QN_STATUS_cancelled)
            printf("%-14s not measured: %s\n", "", f->not_measured[i].text);
    }
    if (f->n == 0) printf("devices        none%s%s\n", f->why.status != QN_OK ? ": " : "", f->why.text);
    if (f->n > 0 && f->why.status != QN_OK) printf("%-14s others: %s\n", "", f->why.text);
}

static json_t *devices_json(const cli_found_devices *f)
{
    json_t *list = json_array();
    for (int i = 0; list && i < f->n; i++) {
        const qn_device *d = &f->device[i];
        const qn_device_peaks *p = &f->peaks[i];
        json_t *row = json_pack("{s:s, s:s, s:I, s:b, s:b}", "backend", d->backend, "name", d->name, "memory_bytes",
                                (json_int_t)d->memory_bytes, "integrated", d->integrated, "same_bits", d->same_bits);
        if (row && f->not_measured[i].status == QN_OK)
            json_object_set_new(row, "peaks",
                                json_pack("{s:f, s:f, s:f, s:f, s:f}", "copy_gb_s", p->copy_gb_s, "up_gb_s", p->up_gb_s,
                                          "down_gb_s", p->down_gb_s, "int8_gops", p->int8_gops, "f16_gflops",
                                          p->f16_gflops));
        json_array_append_new(list, row);
    }
    return list;
}

static void print_text(const qn_machine *m, const qn_machine_peaks *peaks, const cli_found_devices *devices,
                       const char *pcre)
{
    printf("processor      %s\n", m->cpu_name);
    printf("features       %s\n", m->features);
    printf("level          %s  (the highest here of %s)\n", qn_cpu_level_name(m->level), QN_CPU_LEVEL_NAMES);
    printf("cores          %d online, %d usable, %d physical", m->logical_cpus, m->usable_cpus, m->physical_cores);
    if (m->quota_cpus > 0) printf(", quota %.2f", m->quota_cpus);
    printf("\nthreads        %d by default\n", m->default_threads);
    printf("caches         L1d %llu KiB, L2 %llu KiB, L3 %llu KiB\n", (unsigned long long)(m->l1d_bytes >> 10),
           (unsigned long long)(m->l2_bytes >> 10), (unsigned long long)(m->l3_bytes >> 10));
    printf("memory         %.1f GiB, %.1f GiB available", gib(m->memory_bytes), gib(m->memory_free_bytes));
    if (m->memory_limit_bytes) printf(", limited to %.1f GiB", gib(m->memory_limit_bytes));
    printf("\nread bandwidth %.1f GB/s\nint8 peak      %.0f Gop/s\nf32 peak       %.0f Gflop/s, with weights of bf16 "
           "%.0f  (measured with %d threads)\n",
           peaks->read_gb_s, peaks->int8_gops, peaks->f32_gflops, peaks->bf16_gflops, peaks->threads);
    print_devices(devices);
    printf("libraries      PCRE2 %s, utf8proc %s, jansson %s\n", pcre, utf8proc_version(), JANSSON_VERSION);
}

static int print_json(const qn_machine *m, const qn_machine_peaks *peaks, const cli_found_devices *devices,
                      const char *pcre)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:f, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, "
                             "s:f, s:i, s:{s:s, s:s, s:s}}",
                             "cpu_name", m->cpu_name, "features", m->features, "cpu_level", qn_cpu_level_name(m->level),
                             "logical_cpus", m->logical_cpus, "usable_cpus", m->usable_cpus, "physical_cores",
                             m->physical_cores, "quota_cpus", m->quota_cpus, "default_threads", m->default_threads,
                             "l1d_bytes", (json_int_t)m->l1d_bytes, "l2_bytes", (json_int_t)m->l2_bytes, "l3_bytes",
                             (json_int_t)m->l3_bytes, "memory_bytes", (json_int_t)m->memory_bytes, "memory_free_bytes",
                             (json_int_t)m->memory_free_bytes, "memory_limit_bytes", (json_int_t)m->memory_limit_bytes,
                             "read_gb_s", peaks->read_gb_s, "int8_gops", peaks->int8_gops, "f32_gflops",
                             peaks->f32_gflops, "bf16_gflops", peaks->bf16_gflops, "threads", peaks->threads,
                             "libraries", "pcre2", pcre, "utf8proc", utf8proc_version(), "jansson", JANSSON_VERSION);
    if (root) json_object_set_new(root, "devices", devices_json(devices));
    char *text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!text) return cli_no_memory("out of memory");
    puts(text);
    free(text);
    return CLI_OK;
}

int cli_command_doctor(int argc, char **argv)
{
    bool json = false, devices_too = false;
    int32_t threads = 0;
    const cli_option options[] = {
        {"json", 0, CLI_FLAG, &json, NULL, "print JSON", 0, 0, NULL},
        {"devices", 0, CLI_FLAG, &devices_too, NULL, "measure devices whose memory is the host's too", 0, 0, NULL},
        {"threads", 't', CLI_INT, &threads, "N", "threads to measure with", 1, 256, NULL},
    };
    const char *none = NULL;
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &none, &n_args);
    if (status >= 0) return status;
    qn_machine machine;
    qn_machine_peaks peaks;
    cli_found_devices devices;
    qn_error err;
    char pcre[64] = "?";
    (void)pcre2_config(PCRE2_CONFIG_VERSION, pcre); /* under 64 bytes by its manual */
    qn_machine_get(&machine);
    cli_find_devices(devices_too, DEVICE_SECONDS, &devices); /* before there are threads */
    if (qn_machine_measure(machine.level, threads, 1.5, &peaks, &err) != QN_OK) return cli_fail_error(&err);
    if (json)
        status = print_json(&machine, &peaks, &devices, pcre);
    else
        print_text(&machine, &peaks, &devices, pcre), status = CLI_OK;
    return status == CLI_OK ? cli_finish_output() : status;
}
