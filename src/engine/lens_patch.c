/* SPDX-License-Identifier: MIT */
/* src/engine/lens_patch.c -- which value of which token makes the difference between two texts: one is computed again
 * for each layer and token, with that one value taken from the other. From the last token to the first, so that what
 * lies before the token is in the cache as it was. */
#include "engine/lens.h"
#include <stdio.h>
#include <string.h>

typedef enum mode { TAKE, LOOK_ON, PATCH } mode;
typedef struct patching {
    qn_session *s;
    const qn_lens_patch_options *o;
    const qn_token *tokens;
    qn_lens_grid *grid;
    float *difference; /* the grid's */
    bool *there;
    mode mode;
    int32_t layer, pos; /* PATCH */
    float **taken;      /* [n_layer]: [n_tokens, width[layer]] of the other text */
    int64_t *width;     /* [n_layer] */
    qn_batch_item *items;
} patching;

/* ---- values ---- */

static qn_status take(patching *p, const qn_tap_value *v, qn_error *err)
{
    const size_t row = (size_t)v->row_size * sizeof(float);
    if (!p->taken[v->layer]) {
        p->taken[v->layer] = qn__calloc((size_t)p->grid->n_tokens, row);
        if (!p->taken[v->layer]) return QN_FAIL_NOMEM(err, (size_t)p->grid->n_tokens * row);
        p->width[v->layer] = v->row_size;
        p->there[v->layer] = true;
    }
    for (int64_t r = 0; r < v->n_rows; r++)
        if (v->rows[r].seq == 0 && v->rows[r].pos < p->grid->n_tokens)
            memcpy(p->taken[v->layer] + v->rows[r].pos * v->row_size, v->data + r * v->row_size, row);
    return QN_OK;
}

static qn_status on_value(void *ctx, qn_tap_value *v, qn_error *err)
{
    patching *p = ctx;
    if (v->layer < 0 || v->layer >= p->grid->n_layer || !v->rows || p->mode == LOOK_ON) return QN_OK;
    if (p->mode == TAKE) return take(p, v, err);
    if (v->layer != p->layer || !p->taken[v->layer] || p->width[v->layer] != v->row_size) return QN_OK;
    for (int64_t r = 0; r < v->n_rows; r++) {
        if (v->rows[r].seq != 0 || v->rows[r].pos != p->pos) continue;
        memcpy(v->data + r * v->row_size, p->taken[v->layer] + (int64_t)p->pos * v->row_size,
               (size_t)v->row_size * sizeof(float));
        v->changed = true;
    }
    return QN_OK;
}

/* ---- runs ---- */

/* From position `from` on; what was there is gone before. */
static qn_status compute(patching *p, const qn_token *tokens, int32_t from, const float **logits, qn_error *err)
{
    qn_session *s = p->s;
    const int32_t n = p->grid->n_tokens;
    int32_t n_items = 0;
    QN_TRY(qn_session_seq_remove(s, 0, from, -1, err));
    for (int32_t i = from; i < n; i++) p->items[n_items++] = (qn_batch_item){tokens[i], i, 0, i + 1 == n};
    QN_TRY(qn_session_decode(s, p->items, n_items, err));
    *logits = qn_session_logits(s, -1);
    return QN_OK;
}

static float difference(const patching *p, const float *logits)
{
    return logits[p->grid->words[0]] - logits[p->grid->words[1]];
}

/* Both texts as they are, and the words. */
static qn_status compute_both(patching *p, const qn_token *other, qn_error *err)
{
    const float *logits = NULL;
    qn_lens_grid *g = p->grid;
    const int32_t n_vocab = p->s->engine->info.n_vocab;
    const size_t bytes = (size_t)n_vocab * sizeof(float);
    float *kept = qn__alloc(bytes);
    if (!kept) return QN_FAIL_NOMEM(err, bytes);
    p->mode = TAKE;
    qn_status status = compute(p, other, 0, &logits, err);
    if (status == QN_OK) memcpy(kept, logits, bytes);
    p->mode = LOOK_ON;
    if (status == QN_OK) status = compute(p, p->tokens, 0, &logits, err);
    if (status == QN_OK) {
        g->words[0] = p->o->has_words ? p->o->words[0] : qn__most_likely(kept, n_vocab);
        g->words[1] = p->o->has_words ? p->o->words[1] : qn__most_likely(logits, n_vocab);
        g->other = difference(p, kept);
        g->base = difference(p, logits);
    }
    qn__free(kept);
    if (status != QN_OK || g->words[0] != g->words[1]) return status;
    return QN_FAIL(err, invalid, "both texts are followed by token %d; say which two words to compare (words)",
                   g->words[0]);
}

/* Tokens that see what comes after them depend on all of the text. */
static qn_status compute_patched(patching *p, qn_error *err)
{
    const qn_lens_grid *g = p->grid;
    const bool ahead = p->s->engine->model->sees_ahead;
    uint64_t done = 0;
    p->mode = PATCH;
    for (p->pos = g->n_tokens - 1; p->pos >= 0; p->pos--) {
        for (p->layer = 0; p->layer < g->n_layer; p->layer++) {
            const float *logits = NULL;
            float *to = &p->difference[(int64_t)p->layer * g->n_tokens + p->pos];
            *to = g->base;
            if (!p->there[p->layer]) continue;
            QN_TRY(compute(p, p->tokens, ahead ? 0 : p->pos, &logits, err));
            *to = difference(p, logits);
            if (p->o->progress &&
                !p->o->progress(p->o->progress_ctx, ++done, (uint64_t)g->n_tokens * (uint64_t)g->n_layer))
                return QN_FAIL(err, cancelled, "patching was cancelled");
        }
    }
    return QN_OK;
}

/* ---- the whole ---- */

static qn_status check(const qn_session *s, const qn_token *const texts[2], int32_t n, const qn_lens_patch_options *o,
                       qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    if (s->engine->info.encoder || s->shape.embeddings)
        return QN_FAIL(err, unsupported, "patching needs logits, which this %s does not have",
                       s->engine->info.encoder ? "model" : "session");
    if (n < 1) return QN_FAIL(err, invalid, "no tokens to patch");
    if (qn_session_seq_len(s, 0) > 0) return QN_FAIL(err, state, "sequence 0 is not empty");
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < n; i++) QN_TRY(qn__session_check_token(s, i, texts[k][i], err));
    for (int k = 0; k < 2 && o->has_words; k++) QN_TRY(qn__session_check_token(s, k, o->words[k], err));
    return qn__session_at_once(s, (size_t)n, err);
}

static qn_status run(patching *p, const qn_token *other, qn_error *err)
{
    char pattern[96];
    const char *value = p->o->value ? p->o->value : "resid_post";
    if ((size_t)snprintf(pattern, sizeof pattern, "%s-*", value) >= sizeof pattern)
        return QN_FAIL(err, invalid, "\"%.64s\" is no value's name", value);
    QN_TRY(qn_session_tap_fn(p->s, pattern, true, on_value, p, err));
    qn_status status = compute_both(p, other, err);
    if (status == QN_OK) status = compute_patched(p, err);
    (void)qn_session_seq_remove(p->s, 0, 0, -1, NULL);
    qn__taps_remove(p->s, p);
    return status;
}

static qn_lens_grid *make_grid(int32_t n_layer, int32_t n, float **difference, bool **there)
{
    qn_lens_grid *g = qn__calloc(1, sizeof *g);
    *difference = qn__calloc((size_t)n_layer * (size_t)n, sizeof **difference);
    *there = qn__calloc((size_t)n_layer, sizeof **there);
    if (g && *difference && *there) {
        *g = (qn_lens_grid){.n_layer = n_layer, .n_tokens = n, .difference = *difference, .there = *there};
        return g;
    }
    qn__free(g);
    qn__free(*difference);
    qn__free(*there);
    return NULL;
}

qn_status qn_lens_patch(qn_session *s, const qn_token *tokens, const qn_token *other, int32_t n,
                        const qn_lens_patch_options *options, qn_lens_grid **out, qn_error *err)
{
    static const qn_lens_patch_options defaults;
    const int32_t n_layer = (int32_t)s->engine->model->hp.n_layer;
    patching p = {.s = s, .o = options ? options : &defaults, .tokens = tokens};
    QN_TRY(check(s, (const qn_token *const[]){tokens, other}, n, p.o, err));
    p.grid = make_grid(n_layer, n, &p.difference, &p.there);
    p.items = qn__calloc((size_t)n, sizeof *p.items);
    p.taken = qn__calloc((size_t)n_layer, sizeof *p.taken);
    p.width = qn__calloc((size_t)n_layer, sizeof *p.width);
    qn_status status = p.grid && p.items && p.taken && p.width
                           ? run(&p, other, err)
                           : QN_FAIL(err, nomem, "out of memory for a grid of %d layers and %d tokens", n_layer, n);
    for (int32_t i = 0; p.taken && i < n_layer; i++) qn__free(p.taken[i]);
    qn__free(p.taken);
    qn__free(p.width);
    qn__free(p.items);
    if (status != QN_OK) {
        qn_lens_grid_destroy(p.grid);
        return status;
    }
    *out = p.grid;
    return QN_OK;
}

void qn_lens_grid_destroy(qn_lens_grid *g)
{
    if (!g) return;
    qn__free((float *)g->difference);
    qn__free((bool *)g->there);
    qn__free(g);
}
