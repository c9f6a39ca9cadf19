/* SPDX-License-Identifier: MIT */
/* src/engine/lens.h -- inside the lens: what it keeps, and what it needs while it is made. */
#ifndef QN_ENGINE_LENS_H
#define QN_ENGINE_LENS_H

#include "engine/tap.h"
#include <quern/lens.h>

/* Attention of a layer. */
typedef struct qn_lens_heads {
    int32_t n;          /* 0: none was seen */
    float *rows;        /* [n, n_tokens, n_tokens] */
    double off, square; /* sums of squares: of the difference from what the engine computed, and of that */
} qn_lens_heads;

/* Values of nodes as float32: grown as they are needed. */
typedef struct qn_lens_buffer {
    float *x;
    int64_t n;
} qn_lens_buffer;
enum { QN_LENS_SOURCES = 6 }; /* of attention */

struct qn_lens {
    qn_lens_info info;
    qn_session *session;
    int32_t n_kept;        /* layers */
    qn_token *tokens;      /* [n_tokens] */
    qn_token *next;        /* [n_tokens] */
    qn_lens_place *places; /* [n_kept, n_tokens] */
    qn_lens_word *words;   /* [n_kept, n_tokens, n_top] */
    float *logits;         /* [n_kept, n_tokens, n_vocab], or NULL */
    qn_lens_heads *heads;  /* [n_kept], or NULL */
    /* while it is made */
    int32_t batch, first; /* tokens of a chunk; the position of its first */
    int64_t width;        /* of what a layer gives; 0: not known yet */
    float *stream;        /* [n_kept, batch, width] */
    bool *there;          /* [n_kept] in this chunk */
    float *row;           /* [QN_LENS_ROWS, n_vocab] */
    qn_lens_buffer of[QN_LENS_SOURCES];
    uint8_t *raw;
    int64_t n_raw;
    double *weights; /* [n cells of a list] */
};
enum { QN_LENS_ROWS = 16 }; /* that go through the vocabulary at once */

/* The first of the greatest. */
static inline qn_token qn__most_likely(const float *logits, int32_t n)
{
    qn_token best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* ---- lens_attention.c ---- */
/* A qn_tap_fn on attention of a layer that is kept; the lens is its context. */
qn_status qn__lens_attention(void *lens, qn_tap_value *value, qn_error *err);

#endif
