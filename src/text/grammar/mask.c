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

/* How many characters of a slice can come: QN_SLICE_CHARS + 1 when there is no end. 0: nothing is known. chain[n] is
 * where n of them lead, QN_DEAD behind the last. */
static int slice_length(qn_table *t, int32_t config, uint64_t ascii[2], bool *wide, int32_t chain[QN_SLICE_CHARS + 1])
{
    int32_t at = most_lead_to(t, config, ascii);
    if (at < 0) return 0;
    const int32_t beyond = qn__table_step_wide(t, config);
    if (beyond == QN_UNKNOWN) return 0;
    *wide = beyond == at;
    chain[0] = config;
    for (int n = 1; n <= QN_SLICE_CHARS; n++) {
        const int32_t next = at == chain[n - 1] ? at : step_set(t, at, ascii, *wide);
        chain[n] = at;
        if (next == at) {
            while (++n <= QN_SLICE_CHARS) chain[n] = at;
            return QN_SLICE_CHARS + 1;
        }
        if (next == QN_DEAD) {
            for (int k = n + 1; k <= QN_SLICE_CHARS; k++) chain[k] = QN_DEAD;
            return n;
        }
        if (next < 0) return 0;
        at = next;
    }
    return QN_SLICE_CHARS;
}

/* ---- the walk ------------------------------------------------------------------------------------------ */

typedef struct walk {
    qn_matcher *m;
    int32_t *ends, *configs; /* [depth] of the nodes on the way here */
    int32_t depth;
    int32_t chain[QN_SLICE_CHARS + 1]; /* [n_chain] of a slice, QN_DEAD behind its end */
    int n_chain;
    uint32_t *bits;
} walk;

/* A new table, in which the walk stands where it stood. */
static bool collect(walk *w)
{
    int n_chain = 0;
    while (n_chain < w->n_chain && w->chain[n_chain] >= 0) n_chain++;
    int32_t *all = qn__alloc(((size_t)w->depth + 1 + (size_t)n_chain) * sizeof *all), n = w->depth + 1;
    bool ok = all;
    if (ok) {
        memcpy(all, w->configs, (size_t)n * sizeof *all);
        memcpy(all + n, w->chain, (size_t)n_chain * sizeof *all);
        ok = qn__table_collect(w->m->table, all, n + n_chain);
    }
    if (ok) {
        memcpy(w->configs, all, (size_t)n * sizeof *all);
        memcpy(w->chain, all + n, (size_t)n_chain * sizeof *all);
    } else if (!all) {
        w->m->table->failure = QN_NO_MEMORY;
    }
    qn__free(all);
    return ok;
}

/* One step, with a new table if this one is full; QN_DEAD for what would be nested too deep: it cannot come. */
static int32_t careful_step(walk *w, uint8_t byte)
{
    qn_table *t = w->m->table;
    int32_t next = qn__table_step(t, w->configs[w->depth], byte);
    if (next == QN_UNKNOWN && t->failure == QN_TABLE_FULL && collect(w))
        next = qn__table_step(t, w->configs[w->depth], byte);
    if (next == QN_UNKNOWN && t->failure == QN_TOO_DEEP) {
        t->failure = QN_FINE;
        return QN_DEAD;
    }
    return next;
}

/* Sets the bits of tokens that can come, of those in nodes [begin, end), from configs[0]; with `bits`, only of nodes
 * that it names. */
static bool walk_trie(walk *w, const qn_trie *trie, int32_t begin, int32_t end, const uint32_t *bits)
{
    qn_table *t = w->m->table;
    const uint8_t *class_of = t->grammar->class_of;
    w->depth = 0;
    w->ends[0] = end;
    for (int32_t i = begin; i < end;) {
        const qn_trie_node *node = &trie->nodes[i];
        if (bits && !(bits[i / 32] >> i % 32 & 1)) {
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
        for (int32_t k = node->first; k < node->first + node->n; k++)
            w->bits[trie->ids[k] / 32] |= 1u << trie->ids[k] % 32;
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

/* With a slice: it, then what comes behind the first n characters of other tokens, for each n. */
static bool fill_slice(walk *w, qn_token_slice *slice, int length, const int32_t *chain)
{
    const qn_token_trie *trie = w->m->trie;
    qn_table *t = w->m->table;
    const uint32_t *mask = qn__token_slice_mask(w->m->trie, slice, length);
    if (!mask) return false;
    memcpy(w->bits, mask, t->mask_bytes);
    if (slice->rest_bits) {
        const qn_trie *whole = qn__token_trie_whole(trie);
        return walk_trie(w, whole, 0, whole->n_nodes, slice->rest_bits);
    }
    memcpy(w->chain, chain, sizeof w->chain);
    w->n_chain = QN_SLICE_CHARS + 1;
    for (int n = 0; n <= QN_SLICE_CHARS; n++) {
        w->configs[0] = w->chain[n];
        if (w->chain[n] == QN_DEAD) break;
        if (!walk_trie(w, &slice->rest, slice->rest_at[n], slice->rest_at[n + 1], NULL)) return false;
    }
    return true;
}

static bool fill(walk *w)
{
    qn_matcher *m = w->m;
    qn_table *t = m->table;
    uint64_t ascii[2];
    bool wide = false;
    int32_t chain[QN_SLICE_CHARS + 1];
    qn_token_slice *slice = NULL;
    int length = slice_length(t, m->config, ascii, &wide, chain);
    if (t->failure == QN_NO_MEMORY) return false;
    if (t->failure != QN_FINE) length = 0;
    if (t->failure == QN_TABLE_FULL && !qn__table_collect(t, NULL, 0)) return false;
    t->failure = QN_FINE;
    if (length > 0 && !qn__token_slice_acquire(m->trie, ascii, wide, &slice)) return false;
    w->configs[0] = m->config;
    if (!slice) {
        const qn_trie *whole = qn__token_trie_whole(m->trie);
        return walk_trie(w, whole, 0, whole->n_nodes, NULL);
    }
    const bool ok = fill_slice(w, slice, length, chain);
    qn__token_slice_release(m->trie, slice);
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
        if (!fill(&w) && t->failure == QN_FINE) t->failure = QN_NO_MEMORY;
    }
    const bool ok = t->failure == QN_FINE;
    if (ok) {
        const int32_t config = m->config;
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
