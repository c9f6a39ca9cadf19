/* SPDX-License-Identifier: MIT */
/* src/text/grammar/mask.c -- which tokens can come next. In the middle of a JSON string, say, most of a vocabulary can:
 * tokens of plain characters. Where characters lead from one configuration to one and the same, all tokens made of
 * them are known without a look (a slice of the vocabulary), and only the others are walked, as a trie: a branch is
 * left as soon as nothing survives it. */
#include "text/grammar/match.h"

#include <string.h>

#define MIN_SLICE 20 /* characters of ASCII that a slice must have to be worth it */

/* ---- slices -------------------------------------------------------------------------------------------- */

/* The configuration to which most of ASCII leads, and which bytes do. */
static int32_t most_lead_to(qn_table *t, int32_t config, uint64_t ascii[2])
{
    const qn_grammar *g = t->grammar;
    int32_t best = QN_DEAD, targets[128], n_best = 0;
    for (int b = 0; b < 128; b++) {
        targets[b] = qn__table_step(t, config, (uint8_t)b);
        if (targets[b] == QN_UNKNOWN) return QN_UNKNOWN;
    }
    for (int b = 0; b < 128; b++) {
        int32_t n = 0;
        if (targets[b] < 0 || targets[b] == best || (b > 0 && g->class_of[b] == g->class_of[b - 1])) continue;
        for (int k = b; k < 128; k++) n += targets[k] == targets[b];
        if (n > n_best) {
            n_best = n;
            best = targets[b];
        }
    }
    ascii[0] = ascii[1] = 0;
    for (int b = 0; b < 128 && n_best >= MIN_SLICE; b++)
        if (targets[b] == best) ascii[b / 64] |= UINT64_C(1) << b % 64;
    return n_best >= MIN_SLICE ? best : QN_DEAD;
}

/* Where all of these characters lead; QN_MIXED: not to one place. */
static int32_t step_set(qn_table *t, int32_t config, const uint64_t ascii[2], bool wide)
{
    int32_t to = wide ? qn__table_step_wide(t, config) : QN_UNKNOWN;
    if (wide && (to == QN_MIXED || to == QN_UNKNOWN)) return to;
    for (int b = 0; b < 128; b++) {
        if (!(ascii[b / 64] >> b % 64 & 1)) continue;
        const int32_t next = qn__table_step(t, config, (uint8_t)b);
        if (next == QN_UNKNOWN) return QN_UNKNOWN;
        if (to != QN_UNKNOWN && to != next) return QN_MIXED;
        to = next;
    }
    return to;
}

/* How many characters of a slice can come: QN_SLICE_CHARS + 1 when there is no end. 0: nothing is known. */
static int slice_length(qn_table *t, int32_t config, uint64_t ascii[2], bool *wide)
{
    int32_t at = most_lead_to(t, config, ascii);
    if (at < 0) return 0;
    const int32_t beyond = qn__table_step_wide(t, config);
    if (beyond == QN_UNKNOWN) return 0;
    *wide = beyond == at;
    if (at == config) return QN_SLICE_CHARS + 1;
    for (int n = 1; n <= QN_SLICE_CHARS; n++) {
        const int32_t next = step_set(t, at, ascii, *wide);
        if (next == QN_DEAD) return n;
        if (next < 0) return 0;
        if (next == at) return QN_SLICE_CHARS + 1;
        at = next;
    }
    return QN_SLICE_CHARS;
}

/* ---- the walk ------------------------------------------------------------------------------------------ */

typedef struct walk {
    qn_matcher *m;
    int32_t *ends, *configs; /* [depth] of the nodes on the way here */
    int32_t depth;
    uint32_t *bits;
} walk;

/* One step, with a new table if this one is full; QN_DEAD for what would be nested too deep: it cannot come. */
static int32_t careful_step(walk *w, uint8_t byte)
{
    qn_table *t = w->m->table;
    int32_t next = qn__table_step(t, w->configs[w->depth], byte);
    if (next == QN_UNKNOWN && t->failure == QN_TABLE_FULL && qn__table_collect(t, w->configs, w->depth + 1))
        next = qn__table_step(t, w->configs[w->depth], byte);
    if (next == QN_UNKNOWN && t->failure == QN_TOO_DEEP) {
        t->failure = QN_FINE;
        return QN_DEAD;
    }
    return next;
}

/* Sets the bits of tokens that can come; those whose nodes `rest` (NULL: all) names. */
static bool walk_trie(walk *w, const uint32_t *rest)
{
    const qn_token_trie *trie = w->m->trie;
    qn_table *t = w->m->table;
    const uint8_t *class_of = t->grammar->class_of;
    int32_t n;
    const qn_trie_node *nodes = qn__token_trie_nodes(trie, &n);
    w->depth = 0;
    w->ends[0] = n;
    for (int32_t i = 0; i < n;) {
        const qn_trie_node *node = &nodes[i];
        if (rest && !(rest[i / 32] >> i % 32 & 1)) {
            i = node->end;
            continue;
        }
        while (i >= w->ends[w->depth]) w->depth--;
        const int32_t *to = t->s.configs[w->configs[w->depth]].to;
        int32_t next = to ? to[class_of[node->byte]] : QN_UNKNOWN;
        if (next == QN_UNKNOWN && (next = careful_step(w, node->byte)) == QN_UNKNOWN) return false;
        if (next < 0) {
            i = node->end;
            continue;
        }
        for (int32_t token = node->token; token; token = qn__token_trie_same(trie, token - 1))
            w->bits[(token - 1) / 32] |= 1u << (token - 1) % 32;
        if (node->end > i + 1) {
            w->ends[++w->depth] = node->end;
            w->configs[w->depth] = next;
        }
        i++;
    }
    return true;
}

/* ---- the mask ------------------------------------------------------------------------------------------ */

/* What can come as a token and not as text. */
static void mask_tokens(const qn_matcher *m, int32_t config, uint32_t *bits)
{
    const qn_table *t = m->table;
    const qn_grammar *g = t->grammar;
    const qn_config *c = &t->s.configs[config];
    const int32_t n = qn_tokenizer_n_tokens(m->tok);
    for (int32_t i = 0; i < g->n_tokens; i++) bits[t->tokens[i] / 32] &= ~(1u << t->tokens[i] % 32);
    for (int32_t i = 0; i < c->n && g->n_tokens; i++) {
        for (int32_t e = g->first[t->s.items[t->s.members[c->begin + i]].state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            if (edge->kind != QN_EDGE_token && edge->kind != QN_EDGE_not_token) continue;
            const qn_token it = t->tokens[edge->rule];
            if (edge->kind == QN_EDGE_token) bits[it / 32] |= 1u << it % 32;
            for (qn_token k = 0; edge->kind == QN_EDGE_not_token && k < n; k++)
                if (k != it && !qn_tokenizer_is_eog(m->tok, k)) bits[k / 32] |= 1u << k % 32;
        }
    }
}

static bool fill(walk *w)
{
    qn_matcher *m = w->m;
    qn_table *t = m->table;
    uint64_t ascii[2];
    bool wide = false;
    qn_token_slice *slice = NULL;
    const uint32_t *mask = NULL;
    const int length = slice_length(t, w->configs[0], ascii, &wide);
    if (t->failure == QN_NO_MEMORY) return false;
    if (t->failure == QN_TABLE_FULL && !qn__table_collect(t, w->configs, 1)) return false;
    t->failure = QN_FINE;
    if (length > 0 && !qn__token_slice_acquire(m->trie, ascii, wide, &slice)) return false;
    if (slice && !(mask = qn__token_slice_mask(m->trie, slice, length))) {
        qn__token_slice_release(m->trie, slice);
        return false;
    }
    if (mask) memcpy(w->bits, mask, t->mask_bytes);
    const bool ok = walk_trie(w, mask ? slice->rest : NULL);
    if (slice) qn__token_slice_release(m->trie, slice);
    return ok;
}

bool qn__matcher_make_mask(qn_matcher *m)
{
    qn_table *t = m->table;
    const size_t depth = (size_t)qn__token_trie_depth(m->trie) + 2;
    walk w = {.m = m, .bits = qn__calloc(1, t->mask_bytes), .ends = qn__alloc(2 * depth * sizeof *w.ends)};
    if (!w.bits || !w.ends) t->failure = QN_NO_MEMORY;
    if (t->failure == QN_FINE) {
        w.configs = w.ends + depth;
        w.configs[0] = m->config;
        if (!fill(&w) && t->failure == QN_FINE) t->failure = QN_NO_MEMORY;
    }
    const bool ok = t->failure == QN_FINE;
    if (ok) {
        const int32_t config = w.configs[0];
        int32_t n_eog;
        const qn_token *eog = qn__token_trie_eog(m->trie, &n_eog);
        for (int32_t i = 0; t->s.configs[config].may_end && i < n_eog; i++) w.bits[eog[i] / 32] |= 1u << eog[i] % 32;
        mask_tokens(m, config, w.bits);
        t->s.configs[config].mask = w.bits;
        t->s.row_bytes += t->mask_bytes;
    } else {
        qn__free(w.bits);
    }
    qn__free(w.ends);
    return ok;
}
