/* SPDX-License-Identifier: MIT */
/* src/cli/bench_limit.c -- how fast a test could be on this machine: a roofline over what must be read and multiplied
 * at least.
 *
 * Reading: all weights (of a mixture's experts those that so many tokens choose, if all are as likely) once for each
 * chunk of a prompt or step of a decode, and the keys and values of every position that its sequences see. Arithmetic:
 * two operations for each weight and token, at the 8-bit peak for block types and the peak of their own for others;
 * attention's own products are left out. The larger of the two times bounds the chunk or step. Whatever else is done
 * only lowers the share. */
#include "cli/bench.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static double at_least_tiny(double x)
{
    return x > 1e-9 ? x : 1e-9; /* a peak that came out as zero bounds nothing, but must not divide */
}

/* ---- weights ---- */

static void count(bench_part *part, const qn_gguf_tensor *t)
{
    part->bytes += (double)t->size_bytes;
    if (t->shape.rank < 2) return; /* a norm's weight or a bias: read, but no product over a row */
    const double n = (double)qn_shape_numel(&t->shape);
    if (qn_dtype_get(t->dtype)->class_ == QN_CLASS_block)
        part->int8_macs += n;
    else if (t->dtype == QN_DTYPE_BF16)
        part->bf16_macs += n;
    else if (t->dtype == QN_DTYPE_F16)
        part->f16_macs += n;
    else
        part->f32_macs += n;
}

static double number(const qn_gguf *file, const char *key)
{
    char name[128];
    qn_gguf_str arch;
    uint64_t value = 0;
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, "general.architecture");
    if (!kv || qn_gguf_get_str(file, kv, 0, &arch, NULL) != QN_OK) return 0;
    snprintf(name, sizeof name, "%.*s.%s", (int)arch.len, arch.data, key);
    kv = qn_gguf_kv_find(file, name);
    return kv && qn_gguf_get_u64(file, kv, 0, &value, NULL) == QN_OK ? (double)value : 0;
}

static bench_part *part_of(bench_weights *w, const qn_gguf_tensor *t, bool table)
{
    if (table || strcmp(t->name, "output.weight") == 0) return &w->out;
    return strstr(t->name, "_exps.") ? &w->experts : &w->body;
}

void bench_count_weights(const qn_gguf *file, bench_weights *out)
{
    const double n_expert = number(file, "expert_count");
    *out = (bench_weights){.share = n_expert > 0 ? number(file, "expert_used_count") / n_expert : 1};
    const bool tied = !qn_gguf_tensor_find(file, "output.weight");
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        const bool table = strcmp(t->name, "token_embd.weight") == 0;
        if (table && !tied) continue;
        count(part_of(out, t, table), t);
    }
}

/* ---- the limit ---- */

typedef struct bench_cost {
    double bytes, ops, seconds;
} bench_cost; /* seconds: of arithmetic */

/* share: of the part, that a token uses */
static void add_part(bench_cost *cost, const bench_part *part, double share, double n_tokens,
                     const qn_machine_peaks *peaks)
{
    if (n_tokens <= 0) return;
    cost->bytes += part->bytes * (1 - pow(1 - share, n_tokens));
    /* three products of bfloat16 where BF16 takes two (cpu/kernel/act.h) */
    const double f16_by_bf16 = peaks->bf16_gflops * 2 / 3;
    const struct {
        double macs, peak;
    } kind[] = {{part->int8_macs, peaks->int8_gops},
                {part->f32_macs, peaks->f32_gflops},
                {part->bf16_macs, peaks->bf16_gflops},
                {part->f16_macs, f16_by_bf16 > peaks->f32_gflops ? f16_by_bf16 : peaks->f32_gflops}};
    for (size_t i = 0; i < sizeof kind / sizeof kind[0]; i++) {
        cost->ops += 2 * kind[i].macs * share * n_tokens;
        cost->seconds += 2 * kind[i].macs * share * n_tokens / (at_least_tiny(kind[i].peak) * 1e9);
    }
}

bench_limit bench_limit_of(const bench_row *row, const qn_machine_peaks *peaks)
{
    const double read = at_least_tiny(peaks->read_gb_s) * 1e9;
    const int32_t chunk = row->prompt ? row->chunk : 1;
    double seconds = 0, reading = 0, computing = 0;
    bench_limit limit = {0};
    for (int32_t at = 0; at < row->n; at += chunk) {
        const int32_t n = row->n - at < chunk ? row->n - at : chunk;
        const double n_tokens = (double)n * row->batch, seen = (double)row->depth + at + n;
        const bool logits = !row->prompt || at + n == row->n;
        bench_cost cost = {.bytes = row->batch * seen * row->cell_bytes};
        add_part(&cost, &row->weights.body, 1, n_tokens, peaks);
        add_part(&cost, &row->weights.experts, row->weights.share, n_tokens, peaks);
        add_part(&cost, &row->weights.out, 1, !logits ? 0 : row->prompt ? 1 : n_tokens, peaks);
        const double to_read = cost.bytes / read, to_compute = cost.seconds;
        seconds += to_read > to_compute ? to_read : to_compute;
        reading += to_read;
        computing += to_compute;
        limit.bytes += cost.bytes;
        limit.ops += cost.ops;
    }
    limit.by_memory = reading >= computing;
    limit.tokens_per_second = (double)row->n * row->batch / at_least_tiny(seconds);
    return limit;
}
