/* SPDX-License-Identifier: MIT */
/* quern/perplexity.h -- how well a model foretells a text, and how far its probabilities are from another model's: what
 * a quantization costs.
 *
 *     qn_perplexity_result r;
 *     qn_perplexity(session, ids, n, &(qn_perplexity_options){.base = session_of_the_original}, &r, &err);
 *     printf("%g +- %g, KL divergence %g\n", r.ppl.value, r.ppl.error, r.kld.value);
 *
 * As llama-perplexity does it, so that numbers can be compared: the text is cut into chunks of n_ctx tokens, each
 * computed by itself, and of each the tokens of the second half count, which have at least n_ctx / 2 tokens before
 * them. Where the vocabulary asks for a first token (qn_tokenizer_add_bos) each chunk has it in the place of its own
 * first.
 *
 * Threads: as qn_session_decode. Numbers are the same to the bit whatever the thread count and the batch are. */
#ifndef QUERN_PERPLEXITY_H
#define QUERN_PERPLEXITY_H

#include <quern/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A mean, or what is computed from one, and its standard error: of n values x it is sqrt(var(x) / (n - 1)), carried on
 * to first order by what is computed of the mean. */
typedef struct qn_measured {
    double value, error;
} qn_measured;

/* What part of the values is at most so large: ROW(NAME, PART). Between two values lies a straight line. */
/* clang-format off */
#define QN_QUANTILE_ROWS(ROW) \
    ROW(min, 0) ROW(p0_1, 0.001) ROW(p1, 0.01) ROW(p5, 0.05) ROW(p10, 0.1) ROW(p25, 0.25) ROW(median, 0.5) \
    ROW(p75, 0.75) ROW(p90, 0.9) ROW(p95, 0.95) ROW(p99, 0.99) ROW(p99_9, 0.999) ROW(max, 1)
/* clang-format on */
typedef enum qn_quantile {
#define QN_QUANTILE_ENUM(name, part) QN_QUANTILE_##name,
    QN_QUANTILE_ROWS(QN_QUANTILE_ENUM)
#undef QN_QUANTILE_ENUM
        QN_QUANTILE_COUNT
} qn_quantile;

/* p and q are the probabilities that the model and the base give the token that came; logarithms are natural. */
typedef struct qn_perplexity_result {
    int32_t n_chunks, n_chunks_done; /* all, and those that these numbers are of */
    int64_t n_tokens;                /* that count */
    qn_measured nll;                 /* mean of -ln p */
    qn_measured ppl;                 /* exp of it */

    /* beside a base; all 0 without one */
    bool compared;
    qn_measured base_nll, base_ppl;
    qn_measured ln_ratio, ratio, difference; /* ln(ppl / base_ppl), ppl / base_ppl, ppl - base_ppl */
    double correlation;                      /* of -ln p and -ln q, -1 to 1; 0 where one of them doesn't vary */
    qn_measured kld;                         /* sum over the vocabulary of q ln(q / p), for each token that counts */
    qn_measured p_difference;                /* of p - q */
    qn_measured p_rms;                       /* root of the mean square of p - q */
    qn_measured same_top;                    /* part of the tokens at which both find the same one most likely */
    /* of the tokens' values; only at the end, before it 0 */
    double kld_at[QN_QUANTILE_COUNT], p_difference_at[QN_QUANTILE_COUNT];
} qn_perplexity_result;

/* Called after each chunk; false cancels. */
typedef bool (*qn_perplexity_fn)(void *ctx, const qn_perplexity_result *so_far);

typedef struct qn_perplexity_options {
    int32_t n_ctx;    /* of a chunk; 0: 512, or the base file's; at least 4 */
    int32_t n_chunks; /* at most; 0: all of the text, or of the base file */
    qn_session *base; /* computes the same tokens beside, and is compared with; NULL: none */
    const char *file; /* a file of log-probabilities that is compared with instead; NULL: none */
    const char *save; /* writes one of this model (docs/FORMATS.md); NULL: none. "-" is standard output */
    qn_perplexity_fn each;
    void *ctx;
} qn_perplexity_options;

/* The session, and the base, have an empty sequence 0, and room for a chunk in their contexts; afterwards it is empty
 * again. `tokens`: of the whole text; with `file` they are taken from there, and `tokens`
 * is NULL. What is left behind the last whole chunk doesn't count.
 *
 * invalid: a token that is not in the vocabulary; fewer tokens than a chunk has, with both numbers; n_ctx of the option
 * and of the file differ; both a base and a file. format: the file is none, is damaged, or is of another vocabulary; so
 * is a base with another. unsupported: a model without logits, or whose tokens see what comes after them. limit: a
 * chunk is longer than the context. state: sequence 0 is not empty. cancelled. Also fails as qn_session_decode, and by
 * what writing `save` says; a file is there only after success. Memory: besides the sessions' own a few floats a token
 * that counts. */
QN_API qn_status qn_perplexity(qn_session *session, const qn_token *tokens, size_t n,
                               const qn_perplexity_options *options, qn_perplexity_result *out, qn_error *err);

/* Of a file of log-probabilities: tokens of a chunk, chunks, vocabulary. format as above. */
typedef struct qn_perplexity_file_info {
    int32_t n_ctx, n_chunks, n_vocab;
} qn_perplexity_file_info;
QN_API qn_status qn_perplexity_file_get_info(const char *path, qn_perplexity_file_info *out, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
