/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/trie.c -- see trie.h. */
#include "text/tokenizer/trie.h"
#include "base/mem.h"

#include <string.h>

static size_t slot_of(const qn_trie *t, uint64_t key)
{
    uint64_t h = key * UINT64_C(0x9E3779B97F4A7C15); /* Fibonacci hashing; the high bits are the good ones */
    h ^= h >> 32;
    size_t i = (size_t)h & (t->n_slots - 1);
    while (t->edges[i] && t->edges[i] != key) i = (i + 1) & (t->n_slots - 1);
    return i;
}

static uint64_t edge_key(uint32_t node, char byte) { return ((uint64_t)node << 8 | (unsigned char)byte) + 1; }

static bool rehash(qn_trie *t, size_t n_slots)
{
    qn_trie next = *t;
    next.n_slots = n_slots;
    next.edges = qn__calloc(n_slots, sizeof *next.edges);
    next.targets = qn__calloc(n_slots, sizeof *next.targets);
    if (!next.edges || !next.targets) {
        qn__free(next.edges);
        qn__free(next.targets);
        return false;
    }
    for (size_t i = 0; i < t->n_slots; i++) {
        if (!t->edges[i]) continue;
        const size_t j = slot_of(&next, t->edges[i]);
        next.edges[j] = t->edges[i];
        next.targets[j] = t->targets[i];
    }
    qn__free(t->edges);
    qn__free(t->targets);
    *t = next;
    return true;
}

/* A new node, with room for its edge in a table at most half full. */
static uint32_t add_node(qn_trie *t)
{
    if (t->n_nodes == t->cap_nodes) {
        const uint32_t cap = t->cap_nodes ? t->cap_nodes * 2 : 256;
        size_t bytes;
        if (cap <= t->cap_nodes || !qn__mul_size(cap, sizeof *t->values, &bytes)) return QN_TRIE_DEAD;
        qn_token *values = qn__realloc(t->values, bytes);
        if (!values) return QN_TRIE_DEAD;
        t->values = values;
        t->cap_nodes = cap;
    }
    if ((size_t)t->n_nodes * 2 >= t->n_slots && !rehash(t, t->n_slots ? t->n_slots * 2 : 512)) return QN_TRIE_DEAD;
    t->values[t->n_nodes] = QN_TOKEN_NONE;
    return t->n_nodes++;
}

qn_trie *qn__trie_create(void)
{
    qn_trie *t = qn__calloc(1, sizeof *t);
    if (t && add_node(t) == QN_TRIE_DEAD) {
        qn__trie_destroy(t);
        t = NULL;
    }
    return t;
}

void qn__trie_destroy(qn_trie *t)
{
    if (!t) return;
    qn__free(t->edges);
    qn__free(t->targets);
    qn__free(t->values);
    qn__free(t);
}

bool qn__trie_insert(qn_trie *t, const char *s, size_t len, qn_token value)
{
    uint32_t node = QN_TRIE_ROOT;
    for (size_t i = 0; i < len; i++) {
        uint32_t next = qn__trie_step(t, node, s[i]);
        if (next == QN_TRIE_DEAD) {
            next = add_node(t);
            if (next == QN_TRIE_DEAD) return false;
            const uint64_t key = edge_key(node, s[i]);
            const size_t slot = slot_of(t, key);
            t->edges[slot] = key;
            t->targets[slot] = next;
        }
        node = next;
    }
    t->values[node] = value;
    return true;
}

uint32_t qn__trie_step(const qn_trie *t, uint32_t node, char byte)
{
    const size_t slot = slot_of(t, edge_key(node, byte));
    return t->edges[slot] ? t->targets[slot] : QN_TRIE_DEAD;
}

qn_token qn__trie_longest(const qn_trie *t, const char *s, size_t n, size_t *len)
{
    qn_token best = QN_TOKEN_NONE;
    uint32_t node = QN_TRIE_ROOT;
    *len = 0;
    for (size_t i = 0; i < n; i++) {
        node = qn__trie_step(t, node, s[i]);
        if (node == QN_TRIE_DEAD) break;
        if (t->values[node] != QN_TOKEN_NONE) {
            best = t->values[node];
            *len = i + 1;
        }
    }
    return best;
}
