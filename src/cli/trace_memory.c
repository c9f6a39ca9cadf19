/* SPDX-License-Identifier: MIT */
/* src/cli/trace_memory.c -- what a token of decoding takes with less memory: bytes as the trace's steps, played, would
 * read them, and rates of a disk.
 *
 *     by page faults   computing + bytes / fault; of what is read after a jump bytes / around, and dropping it
 *     with --memory    the longer of bytes / ahead and computing + processor time of reading, + experts / scattered
 *
 * Reading ahead takes time from who computes only where each core has a thread that computes. */
#include "cli/trace.h"
#include <quern/machine.h>
#include <string.h>

/* The largest file that steps read from. */
static const char *model_of(const qn_trace_info *info)
{
    const qn_trace_file *f = NULL;
    for (int i = 0; i < info->n_files; i++)
        if (!f || info->files[i].bytes > f->bytes) f = &info->files[i];
    return f ? f->path : NULL;
}

static int measure(const qn_trace_info *info, trace_disk *out)
{
    qn_disk_rates r;
    qn_error err;
    const char *path = model_of(info);
    if (!path) return cli_fail("--disk measure: the trace says of no file that it was read");
    if (qn_disk_measure(path, &r, &err) != QN_OK) return cli_fail_error(&err);
    *out = (trace_disk){.ahead = r.ahead_gb_s,
                        .fault = r.fault_gb_s,
                        .around = r.around_gb_s,
                        .scattered = r.scattered_gb_s,
                        .cpu = r.ahead_cpu_s_gb,
                        .read_ahead = r.read_ahead_bytes,
                        .from = "measured now on the model's file"};
    return CLI_OK;
}

int trace_disk_init(const qn_trace_info *info, const char *asked, trace_disk *out)
{
    double x = 0;
    const char *path = model_of(info);
    *out = (trace_disk){.from = "given", .read_ahead = path ? qn_disk_read_ahead(path) : 0};
    if (!asked) return CLI_OK;
    if (strcmp(asked, "measure") == 0) return measure(info, out);
    if (!cli_parse_float(asked, 0, 1000, &x) || x <= 0)
        return cli_bad_usage("--disk: \"%.32s\" is neither measure nor a number of GB/s up to 1000", asked);
    out->ahead = out->fault = out->around = out->scattered = x;
    return CLI_OK;
}

/* What is read around a page is small pages, which take the kernel time to drop again: 0.2 s a GB on an Emerald Rapids.
 */
#define DROP_NS 0.2

static double faults_ns(const trace_disk *disk, double bytes, double jumps)
{
    return (bytes - jumps) / disk->fault + jumps * (1 / disk->around + DROP_NS);
}

qn_status trace_memory_cost(qn_trace *t, const trace_disk *disk, uint64_t memory, double compute_ns, bool all_cores,
                            trace_memory *out, qn_error *err)
{
    *out = (trace_memory){.memory = memory};
    const qn_status status = qn_trace_get_paging(t, memory, disk->read_ahead, &out->paging, err);
    if (status != QN_OK || disk->fault <= 0 || compute_ns < 0) return status;
    const qn_trace_paging *p = &out->paging;
    const double read = p->ahead_bytes / disk->ahead;
    out->alone_ns = compute_ns + faults_ns(disk, p->kernel_bytes, p->kernel_jump_bytes);
    out->alone_least_ns = compute_ns + faults_ns(disk, p->kernel_least_bytes, p->kernel_least_jump_bytes);
    out->lost_ns = all_cores ? p->ahead_bytes * disk->cpu : 0;
    out->kept_ns = read > compute_ns + out->lost_ns ? read : compute_ns + out->lost_ns;
    if (p->expert_bytes > 0) out->kept_ns += p->expert_bytes / disk->scattered;
    return QN_OK;
}
