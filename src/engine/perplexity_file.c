/* SPDX-License-Identifier: MIT */
/* src/engine/perplexity_file.c -- files of log-probabilities: 16 bits a token of the vocabulary, of the rows that count
 * in each chunk of a text. */
#include "engine/perplexity.h"
#include <math.h>
#include <string.h>

#define MAGIC "_logits_"
enum { MAGIC_BYTES = 8, HEADER_BYTES = MAGIC_BYTES + 12, ROW_HEADER_BYTES = 8, MAX_CODE = 65535 };
/* What is less likely than the likeliest by more than e^16 is written as if it were no less. */
static const double SPAN = 16;

static uint32_t load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void store_u32(uint8_t *at, uint32_t x)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(x >> (8 * i));
}

static float load_f32(const uint8_t *at)
{
    const uint32_t bits = load_u32(at);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void store_f32(uint8_t *at, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    store_u32(at, bits);
}

uint64_t qn__logprob_row_bytes(int32_t n_vocab) { return ROW_HEADER_BYTES + ((uint64_t)n_vocab + 1) / 2 * 4; }

void qn__logprob_pack(const float *x, int32_t n_vocab, double max, double lse, uint8_t *out)
{
    double min = max;
    for (int32_t i = 0; i < n_vocab; i++)
        if ((double)x[i] < min) min = (double)x[i];
    if (min < max - SPAN) min = max - SPAN;
    const double step = (max - min) / MAX_CODE;
    memset(out, 0, (size_t)qn__logprob_row_bytes(n_vocab));
    store_f32(out, (float)step);
    store_f32(out + 4, (float)(min - lse));
    if (!(step > 0)) return;
    for (int32_t i = 0; i < n_vocab; i++) {
        const double code = ((double)x[i] - min) / step + 0.5;
        const uint32_t c = code >= MAX_CODE ? MAX_CODE : code > 0 ? (uint32_t)code : 0; /* 0 of what is no number */
        out[ROW_HEADER_BYTES + 2 * (size_t)i] = (uint8_t)c;
        out[ROW_HEADER_BYTES + 2 * (size_t)i + 1] = (uint8_t)(c >> 8);
    }
}

/* ---- reading ---- */

static const uint8_t *tokens_of(const qn_logprob_file *f) { return f->map.data + HEADER_BYTES; }

static int64_t n_tokens_of(const qn_logprob_file *f) { return (int64_t)f->info.n_ctx * f->info.n_chunks; }

qn_token qn__logprob_file_token(const qn_logprob_file *f, int64_t i)
{
    return (qn_token)load_u32(tokens_of(f) + 4 * (size_t)i);
}

qn_logprob_row qn__logprob_file_row(const qn_logprob_file *f, int32_t chunk, int32_t row)
{
    const uint64_t at = (uint64_t)chunk * (uint64_t)qn__chunk_rows(f->info.n_ctx) + (uint64_t)row;
    const uint8_t *p = tokens_of(f) + 4 * (uint64_t)n_tokens_of(f) + at * qn__logprob_row_bytes(f->info.n_vocab);
    return (qn_logprob_row){load_f32(p), load_f32(p + 4), p + ROW_HEADER_BYTES};
}

static qn_status check_size(const qn_logprob_file *f, const char *path, qn_error *err)
{
    const qn_perplexity_file_info *i = &f->info;
    const uint64_t before = HEADER_BYTES + 4 * (uint64_t)n_tokens_of(f), row = qn__logprob_row_bytes(i->n_vocab),
                   rows = (uint64_t)i->n_chunks * (uint64_t)qn__chunk_rows(i->n_ctx);
    const uint64_t there = f->map.size < before ? 0 : (f->map.size - before) / row;
    if (there < rows)
        return QN_FAIL(
            err, format,
            "%s: the file has %llu rows of log-probabilities, where %d chunks of %d tokens have %llu: it was "
            "not written to its end",
            path, (unsigned long long)there, i->n_chunks, i->n_ctx, (unsigned long long)rows);
    if (f->map.size != before + rows * row)
        return QN_FAIL(err, format, "%s: %llu bytes follow the last row", path,
                       (unsigned long long)(f->map.size - before - rows * row));
    return QN_OK;
}

static qn_status check(qn_logprob_file *f, const char *path, qn_error *err)
{
    const uint8_t *p = f->map.data;
    qn_perplexity_file_info *i = &f->info;
    if (f->map.size < HEADER_BYTES || memcmp(p, MAGIC, MAGIC_BYTES) != 0)
        return QN_FAIL(err, format, "%s: no file of log-probabilities: it should begin with \"%s\"", path, MAGIC);
    *i = (qn_perplexity_file_info){(int32_t)load_u32(p + 8), (int32_t)load_u32(p + 16), (int32_t)load_u32(p + 12)};
    if (i->n_ctx < 4 || i->n_chunks < 1 || i->n_vocab < 1)
        return QN_FAIL(err, format, "%s: %d chunks of %d tokens, a vocabulary of %d: these can't be", path, i->n_chunks,
                       i->n_ctx, i->n_vocab);
    QN_TRY(check_size(f, path, err));
    for (int64_t k = 0; k < n_tokens_of(f); k++)
        if (qn__logprob_file_token(f, k) < 0 || qn__logprob_file_token(f, k) >= i->n_vocab)
            return QN_FAIL(err, format, "%s: token %lld is %d; 0 to %d are in the vocabulary", path, (long long)k,
                           qn__logprob_file_token(f, k), i->n_vocab - 1);
    return QN_OK;
}

qn_status qn__logprob_file_open(const char *path, qn_logprob_file *out, qn_error *err)
{
    QN_TRY(qn__map_open(path, &out->map, err));
    const qn_status status = check(out, path, err);
    if (status != QN_OK) qn__map_close(&out->map);
    return status;
}

void qn__logprob_file_close(qn_logprob_file *f) { qn__map_close(&f->map); }

qn_status qn_perplexity_file_get_info(const char *path, qn_perplexity_file_info *out, qn_error *err)
{
    qn_logprob_file f;
    QN_TRY(qn__logprob_file_open(path, &f, err));
    *out = f.info;
    qn__logprob_file_close(&f);
    return QN_OK;
}

/* ---- writing ---- */

void qn__logprob_write_header(qn_writer *w, const qn_perplexity_file_info *info, const qn_token *tokens)
{
    uint8_t header[HEADER_BYTES] = MAGIC, bytes[4];
    store_u32(header + 8, (uint32_t)info->n_ctx);
    store_u32(header + 12, (uint32_t)info->n_vocab);
    store_u32(header + 16, (uint32_t)info->n_chunks);
    qn__writer_put(w, header, sizeof header);
    for (int64_t i = 0; i < (int64_t)info->n_ctx * info->n_chunks; i++) {
        store_u32(bytes, (uint32_t)tokens[i]);
        qn__writer_put(w, bytes, sizeof bytes);
    }
}
