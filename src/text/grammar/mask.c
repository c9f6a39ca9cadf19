/* SPDX-License-Identifier: MIT */
/* src/text/grammar/mask.c -- which tokens can come next: one walk over the bytes of all tokens as a trie, which leaves
 * a branch as soon as no stack survives it. The trie lies in order of its walk: a node, then its children, and where to
 * go on without them. */
#include "text/grammar/match.h"
#include "text/tokenizer/models.h"

#include <stdlib.h>
#include <string.h>

typedef struct trie_node {
    uint8_t byte;
    int32_t end;   /* the node behind the last one below this */
    int32_t token; /* the first that ends here, + 1 */
} trie_node;

typedef struct entry {
    const char *bytes;
    uint32_t n;
    qn_token token;
} entry;

struct qn_token_trie {
    trie_node *nodes;
    int32_t n_nodes;
    int32_t *same; /* [n_tokens] the next token of the same bytes, + 1 */
    int32_t max_depth;
    char *bytes;    /* what the entries point to */
    entry *entries; /* [n_entries] tokens in order of their bytes */
    qn_token *ids;  /* [n_entries] the same */
    int32_t n_entries;
};

static int by_bytes(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    const int c = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
    return c ? c : a->n != b->n ? (a->n > b->n) - (a->n < b->n) : (a->token > b->token) - (a->token < b->token);
}

/* Entries in order -> nodes in order. */
static void build(qn_token_trie *t, const entry *entries, int32_t n, int32_t *open)
{
    int32_t depth = 0; /* open[0 .. depth) are the nodes on the way to the last entry */
    for (int32_t i = 0; i < n; i++) {
        const entry *e = &entries[i];
        int32_t shared = 0;
        while (shared < depth && shared < (int32_t)e->n && t->nodes[open[shared]].byte == (uint8_t)e->bytes[shared])
            shared++;
        while (depth > shared) t->nodes[open[--depth]].end = t->n_nodes;
        for (; depth < (int32_t)e->n; depth++) {
            open[depth] = t->n_nodes;
            t->nodes[t->n_nodes++] = (trie_node){.byte = (uint8_t)e->bytes[depth]};
        }
        trie_node *last = &t->nodes[open[depth - 1]];
        t->same[e->token] = last->token;
        last->token = e->token + 1;
        if (depth > t->max_depth) t->max_depth = depth;
    }
    while (depth > 0) t->nodes[open[--depth]].end = t->n_nodes;
}

qn_status qn__token_trie_create(const qn_tokenizer *tok, qn_token_trie **out, qn_error *err)
{
    const int32_t n = qn_tokenizer_n_tokens(tok);
    const size_t most = qn_tokenizer_max_piece(tok) + 8;
    size_t total = 0;
    char *scratch = qn__alloc(most);
    for (qn_token i = 0; scratch && i < n; i++) total += qn__token_bytes(tok, i, scratch);
    qn_token_trie *t = qn__calloc(1, sizeof *t);
    int32_t *open = qn__alloc(most * sizeof *open);
    if (t) {
        t->entries = qn__calloc((size_t)n + 1, sizeof *t->entries);
        t->ids = qn__calloc((size_t)n + 1, sizeof *t->ids);
        t->bytes = qn__alloc(total + 1);
        t->nodes = qn__alloc((total + 1) * sizeof *t->nodes);
        t->same = qn__calloc((size_t)n + 1, sizeof *t->same);
    }
    const bool ok = scratch && t && t->entries && t->ids && t->bytes && open && t->nodes && t->same;
    if (ok) {
        size_t at = 0;
        for (qn_token i = 0; i < n; i++) {
            const size_t len = qn__token_bytes(tok, i, scratch);
            if (len == 0 || qn_tokenizer_is_eog(tok, i)) continue;
            memcpy(t->bytes + at, scratch, len);
            t->entries[t->n_entries++] = (entry){t->bytes + at, (uint32_t)len, i};
            at += len;
        }
        qsort(t->entries, (size_t)t->n_entries, sizeof *t->entries, by_bytes);
        for (int32_t i = 0; i < t->n_entries; i++) t->ids[i] = t->entries[i].token;
        build(t, t->entries, t->n_entries, open);
    }
    qn__free(scratch);
    qn__free(open);
    if (!ok) {
        qn__token_trie_destroy(t);
        return QN_FAIL(err, nomem, "out of memory: %d tokens as a trie", n);
    }
    *out = t;
    return QN_OK;
}

void qn__token_trie_destroy(qn_token_trie *t)
{
    if (!t) return;
    qn__free(t->entries);
    qn__free(t->ids);
    qn__free(t->bytes);
    qn__free(t->nodes);
    qn__free(t->same);
    qn__free(t);
}

/* The first entry that is not before these bytes, or, with `behind`, not before anything that begins with them. */
static int32_t lower_bound(const qn_token_trie *t, const char *bytes, size_t len, bool behind)
{
    int32_t lo = 0, hi = t->n_entries;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        const entry *e = &t->entries[mid];
        const int c = memcmp(e->bytes, bytes, e->n < len ? e->n : len);
        if (c < 0 || (c == 0 && (e->n <= len || behind)))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const qn_token *qn__token_trie_beginning(const qn_token_trie *t, const char *bytes, size_t len, size_t *n)
{
    const int32_t begin = lower_bound(t, bytes, len, false), end = lower_bound(t, bytes, len, true);
    *n = (size_t)(end - begin);
    return t->ids + begin;
}

bool qn__token_trie_mask(const qn_token_trie *t, qn_matcher *m, int32_t config, uint32_t *bits)
{
    typedef struct level {
        int32_t end, config;
    } level;
    level *stack = qn__alloc(((size_t)t->max_depth + 1) * sizeof *stack);
    if (!stack) return m->nomem = true, false;
    int32_t depth = 0;
    bool ok = true;
    stack[0] = (level){t->n_nodes, config};
    for (int32_t i = 0; i < t->n_nodes;) {
        while (i >= stack[depth].end) depth--;
        const trie_node *node = &t->nodes[i];
        const int32_t next = qn__matcher_step(m, stack[depth].config, node->byte);
        if (next == QN_UNKNOWN) {
            if (!m->too_deep) {
                ok = false;
                break;
            }
            m->too_deep = false; /* such a token cannot come */
        }
        if (next < 0) {
            i = node->end;
            continue;
        }
        for (int32_t token = node->token; token; token = t->same[token - 1])
            bits[(token - 1) / 32] |= 1u << (token - 1) % 32;
        if (node->end > i + 1) stack[++depth] = (level){node->end, next};
        i++;
    }
    qn__free(stack);
    return ok;
}
