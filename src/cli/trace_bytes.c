/* SPDX-License-Identifier: MIT */
/* src/cli/trace_bytes.c -- of stats: bytes that steps touched against bytes read from disk, what lies in memory for
 * nothing, and the order of layers against the order of the file. What the system doesn't tell is "not measured". */
#include "cli/trace.h"
#include <stdlib.h>
#include <string.h>

#define NEAR 65536 /* bytes: a gap that read-ahead crosses */

static int by_use(const void *a, const void *b)
{
    const qn_trace_extent *x = *(const qn_trace_extent *const *)a, *y = *(const qn_trace_extent *const *)b;
    return (x->order > y->order) - (x->order < y->order);
}

void trace_bytes_sum(qn_trace *t, const qn_trace_info *info, trace_byte_sums *out)
{
    qn_error err;
    *out = (trace_byte_sums){.read = info->read_bytes, .faults = info->sampled ? 0 : -1, .fault_ns = -1};
    if (qn_trace_get_extents(t, &out->extents, &out->n, &err) != QN_OK) out->n = 0;
    const qn_trace_extent **order = calloc((size_t)out->n + 1, sizeof *order);
    int64_t used = 0;
    for (int64_t i = 0; i < out->n; i++) {
        const qn_trace_extent *x = &out->extents[i];
        out->touched += x->touched;
        out->ever += (double)x->ever;
        if (order && x->order >= 0) order[used++] = x;
        if (x->faults < 0) continue;
        out->faults += x->faults;
        out->fault_ns = (out->fault_ns < 0 ? 0 : out->fault_ns) + x->fault_ns;
    }
    out->n_used = used;
    if (order) qsort(order, (size_t)used, sizeof *order, by_use);
    for (int64_t i = 1; order && i < used; i++) {
        const qn_trace_extent *a = order[i - 1], *b = order[i];
        const uint64_t end = a->offset + a->bytes;
        out->jumps += a->file != b->file || b->offset < end || b->offset - end > NEAR;
    }
    free(order);
}

/* Of steps whose reading is known: bytes read, and touched. */
static bool amplification(const qn_trace_info *info, int phase, double *read, double *touched)
{
    *read = *touched = 0;
    for (int64_t i = 0; i < info->n_steps; i++) {
        const qn_trace_step *s = &info->steps[i];
        if (s->phase != phase || s->read_bytes < 0) continue;
        *read += (double)s->read_bytes;
        *touched += trace_touched_in(s);
    }
    return *touched > 0;
}

static bool add_touch(void *ctx, const qn_trace_touch *touch)
{
    *(double *)ctx += touch->touched;
    return true;
}

double trace_touched_in(const qn_trace_step *step)
{
    double bytes = 0;
    qn_trace_touches(step, add_touch, &bytes);
    return bytes;
}

static bool whole_file(qn_trace *t, const qn_trace_info *info, const qn_trace_file *f, qn_trace_cell *cell)
{
    qn_error err;
    return info->n_steps > 0 && f->bytes > 0 &&
           qn_trace_get_cells(t, f->id, 0, f->bytes, 1, 0, info->n_steps, cell, &err) == QN_OK;
}

static bool is_used(const trace_byte_sums *b, const qn_trace_file *f)
{
    for (int64_t i = 0; i < b->n; i++)
        if (b->extents[i].file == f->id) return true;
    return false;
}

/* ---- text ---- */

static void print_amount(const char *name, double bytes, const char *text)
{
    if (bytes < 0)
        printf("%16s  %s\n", "not measured", text);
    else
        printf("%13.3f MB  %s%s\n", bytes * 1e-6, name, text);
}

static void print_files(qn_trace *t, const qn_trace_info *info, const trace_byte_sums *b)
{
    char safe[256];
    for (int i = 0; i < info->n_files; i++) {
        const qn_trace_file *f = &info->files[i];
        qn_trace_cell cell = {.resident = -1, .unused = -1};
        if (!is_used(b, f)) continue;
        (void)whole_file(t, info, f, &cell);
        printf("%s, %.3f MB (what of it is in memory says: %s)\n", trace_safe(safe, sizeof safe, f->path),
               (double)f->bytes * 1e-6, f->residency);
        print_amount("", cell.resident, "in memory at the end");
        print_amount("", cell.unused, "in memory, and touched by no step");
    }
}

static void print_phase_reads(const qn_trace_info *info)
{
    for (int i = 0; i < QN_TRACE_PHASE_COUNT; i++) {
        double read, touched;
        if (amplification(info, i, &read, &touched))
            printf("%16.4f  bytes read from disk for each that was touched, %s\n", read / touched,
                   qn_trace_phase_name(i));
    }
}

static int by_loss(const void *a, const void *b)
{
    const qn_trace_extent *x = *(const qn_trace_extent *const *)a, *y = *(const qn_trace_extent *const *)b;
    if (x->fault_ns != y->fault_ns) return x->fault_ns < y->fault_ns ? 1 : -1;
    if (x->grown != y->grown) return x->grown < y->grown ? 1 : -1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void print_number(int64_t x, double scale, const char *format)
{
    if (x < 0)
        printf(" %12s", "-");
    else
        printf(format, (double)x * scale);
}

static void print_tensors(const trace_byte_sums *b, int32_t top)
{
    const qn_trace_extent **order = calloc((size_t)b->n + 1, sizeof *order);
    char safe[128];
    if (!order) return;
    for (int64_t i = 0; i < b->n; i++) order[i] = &b->extents[i];
    qsort(order, (size_t)b->n, sizeof *order, by_loss);
    printf("\n%-36s %12s %12s %12s %12s %12s %12s\n", "tensor", "MB", "touched MB", "came in MB", "unused MB", "faults",
           "paging ms");
    for (int64_t i = 0; i < b->n && i < top; i++) {
        const qn_trace_extent *x = order[i];
        printf("%-36.64s %12.3f %12.3f", trace_safe(safe, sizeof safe, x->weight->name), (double)x->bytes * 1e-6,
               x->touched * 1e-6);
        print_number(x->grown, 1e-6, " %12.3f");
        print_number(x->unused, 1e-6, " %12.3f");
        print_number(x->faults, 1, " %12.0f");
        print_number(x->fault_ns, 1e-6, " %12.3f");
        printf("\n");
    }
    if (b->n > top) printf("and %lld more (--top)\n", (long long)(b->n - top));
    free(order);
}

void trace_bytes_print(qn_trace *t, const qn_trace_info *info, int32_t top)
{
    trace_byte_sums b;
    char safe[512];
    trace_bytes_sum(t, info, &b);
    const char *how = qn_trace_find_note(t, "faults"), *less = qn_trace_find_note(t, "faults_incomplete");
    printf("\nWhere bytes come from\nfaults: %s\n", how ? trace_safe(safe, sizeof safe, how) : "not measured");
    if (less) printf("faults: %s\n", trace_safe(safe, sizeof safe, less));
    if (info->samples_lost)
        printf("faults: %llu samples found no room in the kernel's memory\n", (unsigned long long)info->samples_lost);
    if (b.n == 0) {
        printf("no step reads weights from a mapped file\n");
        return;
    }
    print_amount("", b.touched, "of weights touched by all steps");
    print_amount("", b.ever, "of them different ones");
    print_amount("", b.read < 0 ? -1 : (double)b.read, "read from disk by the process while it was recorded");
    print_phase_reads(info);
    if (b.faults >= 0)
        printf("%16lld  page faults in tensors, which took %.3f ms of the threads' time\n", (long long)b.faults,
               (double)(b.fault_ns > 0 ? b.fault_ns : 0) * 1e-6);
    printf("%16lld  jumps in the file a step, over %lld tensors in the order of use\n", (long long)b.jumps,
           (long long)b.n_used);
    print_files(t, info, &b);
    print_tensors(&b, top);
}

/* ---- JSON ---- */

static void put_number(FILE *out, const char *name, double x)
{
    fprintf(out, ", \"%s\": ", name);
    if (x < 0)
        fprintf(out, "null");
    else
        fprintf(out, "%.0f", x);
}

static void json_files(FILE *out, qn_trace *t, const qn_trace_info *info, const trace_byte_sums *b)
{
    fprintf(out, ", \"files\": [");
    for (int i = 0, n = 0; i < info->n_files; i++) {
        const qn_trace_file *f = &info->files[i];
        qn_trace_cell cell = {.resident = -1, .unused = -1};
        if (!is_used(b, f)) continue;
        (void)whole_file(t, info, f, &cell);
        fprintf(out, "%s{\"path\": ", n++ ? ", " : "");
        trace_put_json(out, f->path);
        fprintf(out, ", \"bytes\": %llu, \"residency\": \"%s\"", (unsigned long long)f->bytes, f->residency);
        put_number(out, "resident", cell.resident);
        put_number(out, "unused", cell.unused);
        fprintf(out, "}");
    }
    fprintf(out, "]");
}

void trace_bytes_json(FILE *out, qn_trace *t, const qn_trace_info *info)
{
    trace_byte_sums b;
    trace_bytes_sum(t, info, &b);
    const char *how = qn_trace_find_note(t, "faults");
    fprintf(out, ", \"bytes\": {\"sampled\": %s, \"how\": ", info->sampled ? "true" : "false");
    trace_put_json(out, how ? how : "not measured");
    fprintf(out, ", \"samples_lost\": %llu, \"jumps\": %lld", (unsigned long long)info->samples_lost,
            (long long)b.jumps);
    put_number(out, "touched", b.touched);
    put_number(out, "different", b.ever);
    put_number(out, "read", b.read < 0 ? -1 : (double)b.read);
    put_number(out, "faults", (double)b.faults);
    put_number(out, "fault_ns", (double)b.fault_ns);
    fprintf(out, ", \"amplification\": {");
    for (int i = 0, n = 0; i < QN_TRACE_PHASE_COUNT; i++) {
        double read, touched;
        if (amplification(info, i, &read, &touched))
            fprintf(out, "%s\"%s\": %.6f", n++ ? ", " : "", qn_trace_phase_name(i), read / touched);
    }
    fprintf(out, "}");
    json_files(out, t, info, &b);
    fprintf(out, ", \"tensors\": [");
    for (int64_t i = 0; i < b.n; i++) {
        const qn_trace_extent *x = &b.extents[i];
        fprintf(out, "%s\n  {\"name\": ", i ? "," : "");
        trace_put_json(out, x->weight->name);
        fprintf(out, ", \"file\": %d, \"order\": %d, \"offset\": %llu, \"bytes\": %llu", x->file, x->order,
                (unsigned long long)x->offset, (unsigned long long)x->bytes);
        put_number(out, "touched", x->touched);
        put_number(out, "ever", (double)x->ever);
        put_number(out, "resident", (double)x->resident);
        put_number(out, "unused", (double)x->unused);
        put_number(out, "grown", (double)x->grown);
        put_number(out, "faults", (double)x->faults);
        put_number(out, "fault_ns", (double)x->fault_ns);
        fprintf(out, "}");
    }
    fprintf(out, "]}");
}
