/* SPDX-License-Identifier: MIT */
/* quern/lens.h -- what a model would say if it ended after each of its layers (nostalgebraist 2020), where its heads
 * look, and which value of which token makes the difference between two texts (Meng et al. 2022).
 *
 *     qn_lens *lens;
 *     qn_lens_create(session, ids, n, NULL, &lens, &err);
 *     const qn_lens_place *place = qn_lens_at(lens, layer, n - 1);
 *     place->top[0].token; place->entropy; place->rank;
 *     qn_lens_destroy(lens);
 *
 * Threads: as qn_session_decode. Taps that the session has (quern/tap.h) act, and stay. */
#ifndef QUERN_LENS_H
#define QUERN_LENS_H

#include <quern/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_LENS_MAX_TOP 64

typedef struct qn_lens_options {
    int32_t n_top;                  /* words of a place; 0: 5, at most QN_LENS_MAX_TOP */
    int32_t first_layer, end_layer; /* layers [first_layer, end_layer); end 0: to the last */
    bool attention;                 /* keeps what each head gives each token to look at */
    bool logits;                    /* keeps all logits: n_vocab floats a place */
    bool has_next;
    qn_token next; /* with has_next: the token that came after the last one; else the one that the model says */
    qn_progress_fn progress; /* layers times tokens; false cancels */
    void *progress_ctx;
} qn_lens_options;

typedef struct qn_lens qn_lens;

/* Feeds n tokens to sequence 0, which is empty, at positions 0 .. n - 1. What a layer gives (resid_post) goes through
 * the last norm and the vocabulary; the last layer's logits are the model's own to the bit. The tokens stay in the
 * sequence. unsupported: an encoder. invalid: no tokens, layers that are not there. limit: what is kept would take more
 * than 4 GiB; fewer layers take less. state: the sequence is not empty. Also fails as qn_session_decode and
 * qn_session_tap_fn. */
QN_API qn_status qn_lens_create(qn_session *session, const qn_token *tokens, int32_t n, const qn_lens_options *options,
                                qn_lens **out, qn_error *err);
QN_API void qn_lens_destroy(qn_lens *lens);

typedef struct qn_lens_info {
    int32_t n_layer;                /* of the model */
    int32_t first_layer, end_layer; /* those that are here */
    int32_t n_tokens, n_top, n_vocab;
    const qn_token *tokens; /* [n_tokens] */
    const qn_token *next;   /* [n_tokens] what came after each; of the last see the options */
} qn_lens_info;
QN_API void qn_lens_get_info(const qn_lens *lens, qn_lens_info *out);

typedef struct qn_lens_word {
    qn_token token;
    float p; /* probability */
} qn_lens_word;
/* A layer at a token. Numbers that are not finite follow from values that are not. */
typedef struct qn_lens_place {
    const qn_lens_word *top; /* [n_top], the most likely first; equal ones in the order of their ids */
    float entropy;           /* bits */
    float p;                 /* of the token that came, */
    int32_t rank;            /* and how many are more likely, + 1 */
    /* of what the layer gave: root mean square, the greatest magnitude, and the channel that has it */
    float rms, max;
    int32_t channel;
} qn_lens_place;
/* NULL when the layer is not here. Borrowed, as all below. */
QN_API const qn_lens_place *qn_lens_at(const qn_lens *lens, int32_t layer, int32_t token);
QN_API const float *qn_lens_logits(const qn_lens *lens, int32_t layer, int32_t token); /* [n_vocab]; NULL: not kept */

/* How many heads there are; 0: attention was not kept, or the layer has none. */
QN_API int32_t qn_lens_n_heads(const qn_lens *lens, int32_t layer);
/* [n_tokens, n_tokens]: a row is what the head gives a token of each token's value, 0 where it does not look. Of the
 * query and the cached keys. With sinks a row adds up to less than 1. */
QN_API const float *qn_lens_attention(const qn_lens *lens, int32_t layer, int32_t head);
/* These rows times the cached values, against what the engine computed: mean square of the difference, by that of the
 * values. What the kernels round. */
QN_API double qn_lens_attention_error(const qn_lens *lens, int32_t layer);

/* ---- patching ---- */

typedef struct qn_lens_patch_options {
    const char *value; /* a value of every layer, "attn_out"; NULL: "resid_post" */
    bool has_words;
    qn_token words[2]; /* with has_words: whose logits' difference is looked at; else what each text is followed by */
    qn_progress_fn progress; /* runs; false cancels */
    void *progress_ctx;
} qn_lens_patch_options;
typedef struct qn_lens_grid {
    int32_t n_layer, n_tokens;
    qn_token words[2];
    /* logit of words[0] less that of words[1], after the last token: of the other text and of this one */
    float other, base;
    const float *difference; /* [n_layer, n_tokens]: the same of this text, with one value taken from the other */
    const bool *there;       /* [n_layer]: the layer has such a value */
} qn_lens_grid;
/* Computes `tokens` once for each layer and token, with the value of that layer and token as it is in `other`, a text
 * of as many tokens. Sequence 0 is empty, and so again afterwards. invalid: one of the texts is empty; both are
 * followed by the same token and no words are given; words that are none. Also fails as qn_lens_create, and where
 * layers with a window forget what has to be computed again: the session's batch is then to be as long as the text.
 * *out is freed with qn_lens_grid_destroy. */
QN_API qn_status qn_lens_patch(qn_session *session, const qn_token *tokens, const qn_token *other, int32_t n,
                               const qn_lens_patch_options *options, qn_lens_grid **out, qn_error *err);
QN_API void qn_lens_grid_destroy(qn_lens_grid *grid);

#ifdef __cplusplus
}
#endif
#endif
