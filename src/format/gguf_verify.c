/* SPDX-License-Identifier: MIT */
/* src/format/gguf_verify.c -- reading every tensor once, looking for numbers that are not finite.
 *
 * Blocks are unpacked chunk by chunk, so a NaN or infinite scale shows as the elements that it spoils, in any format
 * and either byte order. Overlaps and bounds were settled when the file was opened. */
#include "format/gguf_file.h"
#include "format/native.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Divisible by every block size; the raw bytes of a chunk stay within 8 bytes an element. */
enum { CHUNK = 2048, CHUNK_BYTES = CHUNK * 8 };

typedef struct verifier {
    const qn_gguf *file;
    qn_gguf_found_fn found;
    void *ctx;
    uint64_t n_found;
} verifier;

/* What was seen in one tensor. */
typedef struct tally {
    int64_t nan, inf, first;
    bool first_is_nan;
} tally;

static void report(verifier *v, const qn_gguf_tensor *t, const char *text)
{
    v->n_found++;
    if (v->found) v->found(v->ctx, t->name, text);
}

static void count_f32(tally *seen, const float *x, int64_t n, int64_t base)
{
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(x[i])) continue;
        if (seen->nan + seen->inf == 0) {
            seen->first = base + i;
            seen->first_is_nan = isnan(x[i]);
        }
        if (isnan(x[i]))
            seen->nan++;
        else
            seen->inf++;
    }
}

/* float32 can't tell a large double from an infinite one, so doubles are looked at as they are. */
static void narrow_f64(const uint8_t *raw, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, raw + 8 * i, sizeof d);
        x[i] = isfinite(d) ? 0.0f : isnan(d) ? NAN : INFINITY;
    }
}

static qn_status scan(const qn_gguf_part *part, const qn_gguf_tensor *t, tally *seen, qn_error *err)
{
    const qn_dtype_info *info = qn_dtype_get(t->dtype);
    const int64_t total = qn_shape_numel(&t->shape);
    const uint8_t *src = t->data;
    _Alignas(8) uint8_t raw[CHUNK_BYTES];
    float x[CHUNK];
    for (int64_t done = 0; done < total; done += CHUNK) {
        const int64_t n = total - done < CHUNK ? total - done : CHUNK;
        const size_t blocks = (size_t)(n / info->block_elems), bytes = blocks * (size_t)info->block_bytes;
        const uint8_t *chunk = src;
        if (part->swap) {
            memcpy(raw, src, bytes);
            qn__swap_blocks(t->dtype, raw, blocks);
            chunk = raw;
        }
        if (t->dtype == QN_DTYPE_F64)
            narrow_f64(chunk, x, n);
        else
            QN_TRY(qn_unpack(t->dtype, chunk, x, n, err));
        count_f32(seen, x, n, done);
        src += bytes;
    }
    return QN_OK;
}

/* "[1,2]" of the element with this number in row-major order. */
static const char *print_position(const qn_shape *shape, int64_t number, char *buf, size_t size)
{
    qn_shape at = {.rank = shape->rank};
    for (int i = shape->rank - 1; i >= 0; i--) {
        at.dim[i] = number % shape->dim[i];
        number /= shape->dim[i];
    }
    return qn_shape_print(&at, buf, size);
}

static qn_status verify_tensor(verifier *v, const qn_gguf_tensor *t, qn_error *err)
{
    const qn_gguf_part *part = &v->file->parts[t->part];
    const qn_dtype_info *info = qn_dtype_get(t->dtype);
    char text[300], position[200];
    if (!t->data) {
        snprintf(text, sizeof text, "its %llu bytes at offset %llu are not in the file, which ends at %llu",
                 (unsigned long long)t->size_bytes, (unsigned long long)t->file_offset, (unsigned long long)part->size);
        report(v, t, text);
        return QN_OK;
    }
    if (info->class_ != QN_CLASS_real && info->class_ != QN_CLASS_block) return QN_OK; /* every integer is a good one */
    tally seen = {0};
    QN_TRY(scan(part, t, &seen, err));
    if (seen.nan + seen.inf == 0) return QN_OK;
    const uint64_t block = (uint64_t)(seen.first / info->block_elems) * (uint64_t)info->block_bytes;
    snprintf(text, sizeof text, "%lld NaN and %lld infinite of %lld elements, the first %s at %s (offset %llu)",
             (long long)seen.nan, (long long)seen.inf, (long long)qn_shape_numel(&t->shape),
             seen.first_is_nan ? "a NaN" : "an infinity",
             print_position(&t->shape, seen.first, position, sizeof position),
             (unsigned long long)(t->file_offset + block));
    report(v, t, text);
    return QN_OK;
}

qn_status qn_gguf_verify(const qn_gguf *file, qn_gguf_found_fn found, void *ctx, qn_error *err)
{
    verifier v = {file, found, ctx, 0};
    for (size_t i = 0; i < file->n_tensors; i++) QN_TRY(verify_tensor(&v, &file->tensors[i].pub, err));
    if (v.n_found == 0) return QN_OK;
    return QN_FAIL(err, format,
                   "found %llu tensors with missing data or values that are not finite, expected none of %zu",
                   (unsigned long long)v.n_found, file->n_tensors);
}
