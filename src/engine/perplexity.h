/* SPDX-License-Identifier: MIT */
/* src/engine/perplexity.h -- files of log-probabilities, as llama-perplexity writes them (docs/FORMATS.md). */
#ifndef QN_ENGINE_PERPLEXITY_H
#define QN_ENGINE_PERPLEXITY_H

#include "base/error.h"
#include "base/file.h"
#include <quern/perplexity.h>

/* Of a chunk of n_ctx tokens the rows from this one on count, but for the last, behind which nothing comes. */
static inline int32_t qn__chunk_first(int32_t n_ctx) { return n_ctx / 2; }
static inline int32_t qn__chunk_rows(int32_t n_ctx) { return n_ctx - 1 - qn__chunk_first(n_ctx); }

/* A row: ln p of token i is scale * code[i] + least. Codes are little-endian. */
typedef struct qn_logprob_row {
    float scale, least;
    const uint8_t *codes;
} qn_logprob_row;
static inline uint32_t qn__logprob_code(const qn_logprob_row *r, int32_t i)
{
    return (uint32_t)r->codes[2 * (size_t)i] | (uint32_t)r->codes[2 * (size_t)i + 1] << 8;
}
static inline double qn__logprob(const qn_logprob_row *r, int32_t i)
{
    return (double)r->scale * qn__logprob_code(r, i) + (double)r->least;
}

/* Bytes of a row in a file. */
uint64_t qn__logprob_row_bytes(int32_t n_vocab);
/* x: logits, whose largest is max and the logarithm of whose sum of exponentials is lse. out: of a row's bytes. */
void qn__logprob_pack(const float *x, int32_t n_vocab, double max, double lse, uint8_t *out);

typedef struct qn_logprob_file {
    qn_map map;
    qn_perplexity_file_info info;
} qn_logprob_file;
/* Everything but the rows' numbers is checked: format. */
qn_status qn__logprob_file_open(const char *path, qn_logprob_file *out, qn_error *err);
void qn__logprob_file_close(qn_logprob_file *f);
qn_token qn__logprob_file_token(const qn_logprob_file *f, int64_t i);
qn_logprob_row qn__logprob_file_row(const qn_logprob_file *f, int32_t chunk, int32_t row);
/* What stands before the rows. */
void qn__logprob_write_header(qn_writer *w, const qn_perplexity_file_info *info, const qn_token *tokens);

#endif
