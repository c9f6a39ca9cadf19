/* SPDX-License-Identifier: MIT */
/* src/text/grammar/token_trie.c -- the trie of a vocabulary's bytes, and slices of it. */
#include "text/grammar/token_trie.h"
#include "base/thread.h"
#include "text/tokenizer/models.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *bytes;
    uint32_t n;
    qn_token token;
} entry;

/* What a token is made of. */
typedef struct content {
    uint64_t ascii[2];
    uint8_t n_chars; /* 255: that many or more */
    bool wide, broken;
} content;

struct qn_token_trie {
    uint64_t id;
    int32_t n_tokens, n_nodes, n_entries, n_eog, max_depth;
    qn_trie_node *nodes;
    int32_t *parents;  /* [n_nodes] -1 */
    int32_t *node_of;  /* [n_tokens] -1: no text */
    int32_t *same;     /* [n_tokens] */
    entry *entries;    /* [n_entries] in order of their bytes */
    qn_token *ids;     /* [n_entries] the same */
    content *contents; /* [n_entries] */
    qn_token *eog;
    char *bytes; /* what entries point to, in their order */
    size_t n_bytes;
    qn_mutex mutex; /* of what follows */
    uint64_t clock;
    int32_t n_slices;
    qn_token_slice *slices[QN_TOKEN_SLICES];
};

/* ---- the trie -------------------------------------------------------------------------------------------- */

static int by_bytes(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    const int c = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
    return c ? c : a->n != b->n ? (a->n > b->n) - (a->n < b->n) : (a->token > b->token) - (a->token < b->token);
}

static int32_t shared_bytes(const entry *a, const entry *b)
{
    uint32_t n = 0;
    while (n < a->n && n < b->n && a->bytes[n] == b->bytes[n]) n++;
    return (int32_t)n;
}

static size_t count_nodes(const qn_token_trie *t)
{
    size_t n = 1;
    for (int32_t i = 0; i < t->n_entries; i++)
        n += t->entries[i].n - (size_t)(i ? shared_bytes(&t->entries[i - 1], &t->entries[i]) : 0);
    return n;
}

/* Entries in order -> nodes in order. */
static void build(qn_token_trie *t, int32_t *open)
{
    int32_t depth = 0; /* open[0 .. depth) are the nodes on the way to the last entry */
    for (int32_t i = 0; i < t->n_entries; i++) {
        const entry *e = &t->entries[i];
        const int32_t shared = i ? shared_bytes(e - 1, e) : 0;
        while (depth > shared) t->nodes[open[--depth]].end = t->n_nodes;
        for (; depth < (int32_t)e->n; depth++) {
            open[depth] = t->n_nodes;
            t->parents[t->n_nodes] = depth ? open[depth - 1] : -1;
            t->nodes[t->n_nodes++] = (qn_trie_node){.byte = (uint8_t)e->bytes[depth]};
        }
        qn_trie_node *last = &t->nodes[open[depth - 1]];
        t->same[e->token] = last->token;
        last->token = e->token + 1;
        t->node_of[e->token] = open[depth - 1];
        if (depth > t->max_depth) t->max_depth = depth;
    }
    while (depth > 0) t->nodes[open[--depth]].end = t->n_nodes;
}

static content content_of(const char *s, size_t n)
{
    content c = {0};
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        const int len = qn__utf8_decode(s + i, n - i, &cp);
        if (len == 0) c.broken = true;
        if (len == 1) c.ascii[cp / 64] |= UINT64_C(1) << cp % 64;
        if (len > 1) c.wide = true;
        if (c.n_chars < 255) c.n_chars++;
        i += (size_t)(len ? len : 1);
    }
    return c;
}

/* Bytes of all tokens, sorted: what is unsorted is given back. */
static bool sort_entries(qn_token_trie *t, const qn_tokenizer *tok, char *scratch)
{
    char *unsorted = qn__alloc(t->n_bytes + 1);
    size_t at = 0;
    if (!unsorted) return false;
    for (qn_token i = 0; i < t->n_tokens; i++) {
        const size_t len = qn__token_bytes(tok, i, scratch);
        if (qn_tokenizer_is_eog(tok, i)) t->eog[t->n_eog++] = i;
        if (len == 0 || qn_tokenizer_is_eog(tok, i)) continue;
        memcpy(unsorted + at, scratch, len);
        t->entries[t->n_entries++] = (entry){unsorted + at, (uint32_t)len, i};
        at += len;
    }
    qsort(t->entries, (size_t)t->n_entries, sizeof *t->entries, by_bytes);
    t->n_bytes = 0;
    for (int32_t i = 0; i < t->n_entries; i++) {
        entry *e = &t->entries[i];
        memcpy(t->bytes + t->n_bytes, e->bytes, e->n);
        e->bytes = t->bytes + t->n_bytes;
        t->n_bytes += e->n;
        t->ids[i] = e->token;
        t->contents[i] = content_of(e->bytes, e->n);
    }
    qn__free(unsorted);
    return true;
}

static qn_status create(const qn_tokenizer *tok, qn_token_trie **out, qn_error *err)
{
    static _Atomic uint64_t ids;
    const int32_t n = qn_tokenizer_n_tokens(tok);
    const size_t most = qn_tokenizer_max_piece(tok) + 8, room = (size_t)n + 1;
    char *scratch = qn__alloc(most);
    int32_t *open = qn__alloc(most * sizeof *open);
    qn_token_trie *t = qn__calloc(1, sizeof *t);
    bool ok = scratch && open && t;
    if (ok) {
        qn__mutex_init(&t->mutex);
        t->id = atomic_fetch_add(&ids, 1) + 1;
        t->n_tokens = n;
        for (qn_token i = 0; i < n; i++) t->n_bytes += qn__token_bytes(tok, i, scratch);
        t->entries = qn__calloc(room, sizeof *t->entries);
        t->ids = qn__calloc(room, sizeof *t->ids);
        t->contents = qn__calloc(room, sizeof *t->contents);
        t->eog = qn__calloc(room, sizeof *t->eog);
        t->same = qn__calloc(room, sizeof *t->same);
        t->node_of = qn__alloc(room * sizeof *t->node_of);
        t->bytes = qn__alloc(t->n_bytes + 1);
        ok = t->entries && t->ids && t->contents && t->eog && t->same && t->node_of && t->bytes;
    }
    ok = ok && sort_entries(t, tok, scratch);
    if (ok) {
        const size_t nodes = count_nodes(t);
        t->nodes = qn__alloc(nodes * sizeof *t->nodes);
        t->parents = qn__alloc(nodes * sizeof *t->parents);
        ok = t->nodes && t->parents;
    }
    if (ok) {
        memset(t->node_of, 0xFF, room * sizeof *t->node_of);
        build(t, open);
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

qn_status qn__token_trie(const qn_tokenizer *tok, qn_token_trie **out, qn_error *err)
{
    /* Immutable but for this: whoever comes first makes it, and what a second one made meanwhile goes again. */
    _Atomic(qn_token_trie *) *place = &((qn_tokenizer *)tok)->token_trie;
    qn_token_trie *there = atomic_load_explicit(place, memory_order_acquire), *made = NULL;
    if (!there) {
        QN_TRY(create(tok, &made, err));
        if (atomic_compare_exchange_strong_explicit(place, &there, made, memory_order_acq_rel, memory_order_acquire))
            there = made;
        else
            qn__token_trie_destroy(made);
    }
    *out = there;
    return QN_OK;
}

static void slice_destroy(qn_token_slice *s)
{
    if (!s) return;
    for (int i = 0; i <= QN_SLICE_CHARS; i++) qn__free(s->by_length[i]);
    qn__free(s->mask);
    qn__free(s->rest);
    qn__free(s);
}

void qn__token_trie_destroy(qn_token_trie *t)
{
    if (!t) return;
    for (int32_t i = 0; i < t->n_slices; i++) slice_destroy(t->slices[i]);
    qn__mutex_deinit(&t->mutex);
    qn__free(t->entries);
    qn__free(t->ids);
    qn__free(t->contents);
    qn__free(t->eog);
    qn__free(t->same);
    qn__free(t->node_of);
    qn__free(t->bytes);
    qn__free(t->nodes);
    qn__free(t->parents);
    qn__free(t);
}

uint64_t qn__token_trie_id(const qn_token_trie *t) { return t->id; }
int32_t qn__token_trie_depth(const qn_token_trie *t) { return t->max_depth; }
int32_t qn__token_trie_same(const qn_token_trie *t, int32_t token) { return t->same[token]; }
const qn_trie_node *qn__token_trie_nodes(const qn_token_trie *t, int32_t *n)
{
    *n = t->n_nodes;
    return t->nodes;
}
const qn_token *qn__token_trie_eog(const qn_token_trie *t, int32_t *n)
{
    *n = t->n_eog;
    return t->eog;
}

/* ---- looking for bytes --------------------------------------------------------------------------------- */

/* The first entry behind these bytes, or, with `all`, behind everything that begins with them. */
static int32_t behind(const qn_token_trie *t, const char *bytes, size_t len, bool all)
{
    int32_t lo = 0, hi = t->n_entries;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        const entry *e = &t->entries[mid];
        const int c = memcmp(e->bytes, bytes, e->n < len ? e->n : len);
        if (c < 0 || (c == 0 && (e->n <= len || all)))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const qn_token *qn__token_trie_beginning(const qn_token_trie *t, const char *bytes, size_t len, size_t *n)
{
    const int32_t begin = behind(t, bytes, len, false), end = behind(t, bytes, len, true);
    *n = (size_t)(end - begin);
    return t->ids + begin;
}

/* The entry that the byte at this address is of. */
static int32_t entry_at(const qn_token_trie *t, const char *byte)
{
    int32_t lo = 0, hi = t->n_entries - 1;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo + 1) / 2;
        if (t->entries[mid].bytes <= byte)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

bool qn__token_trie_inside(const qn_token_trie *t, const char *bytes, size_t len, bool (*found)(void *ctx, qn_token id),
                           void *ctx)
{
    const char *at = t->bytes, *end = t->bytes + t->n_bytes;
    while ((size_t)(end - at) > len) {
        const char *hit = memchr(at, bytes[0], (size_t)(end - at) - len + 1);
        if (!hit) break;
        at = hit + 1;
        if (memcmp(hit, bytes, len) != 0) continue;
        const entry *e = &t->entries[entry_at(t, hit)];
        if (hit + len >= e->bytes + e->n) continue; /* of two tokens, or at the end of one */
        if (!found(ctx, e->token)) return false;
        at = e->bytes + e->n;
    }
    return true;
}

/* ---- slices -------------------------------------------------------------------------------------------------- */

static bool is_in(const qn_token_slice *s, const content *c)
{
    return !(c->ascii[0] & ~s->ascii[0]) && !(c->ascii[1] & ~s->ascii[1]) && !c->broken && (s->wide || !c->wide);
}

static qn_token_slice *slice_create(const qn_token_trie *t, const uint64_t ascii[2], bool wide)
{
    qn_token_slice *s = qn__calloc(1, sizeof *s);
    if (!s) return NULL;
    s->ascii[0] = ascii[0];
    s->ascii[1] = ascii[1];
    s->wide = wide;
    s->mask = qn__calloc((size_t)t->n_tokens / 32 + 1, sizeof *s->mask);
    s->rest = qn__calloc((size_t)t->n_nodes / 32 + 1, sizeof *s->rest);
    if (!s->mask || !s->rest) {
        slice_destroy(s);
        return NULL;
    }
    for (int32_t i = 0; i < t->n_entries; i++) {
        const bool in = is_in(s, &t->contents[i]);
        const qn_token id = t->ids[i];
        if (in) s->mask[id / 32] |= 1u << id % 32;
        s->n_tokens += in;
        if (in && t->contents[i].n_chars <= QN_SLICE_CHARS) continue;
        for (int32_t k = t->node_of[id]; k >= 0 && !(s->rest[k / 32] >> k % 32 & 1); k = t->parents[k])
            s->rest[k / 32] |= 1u << k % 32;
    }
    return s;
}

/* Known, or made in a free place or in that of the one that was not used for longest. */
static bool find_slice(qn_token_trie *t, const uint64_t ascii[2], bool wide, qn_token_slice **out)
{
    int32_t place = -1;
    *out = NULL;
    for (int32_t i = 0; i < t->n_slices; i++) {
        qn_token_slice *s = t->slices[i];
        if (s->ascii[0] == ascii[0] && s->ascii[1] == ascii[1] && s->wide == wide) {
            *out = s;
            return true;
        }
        if (s->n_users == 0 && (place < 0 || s->last_use < t->slices[place]->last_use)) place = i;
    }
    const bool grows = t->n_slices < QN_TOKEN_SLICES;
    if (!grows && place < 0) return true;
    if (!(*out = slice_create(t, ascii, wide))) return false;
    if (grows)
        place = t->n_slices++;
    else
        slice_destroy(t->slices[place]);
    t->slices[place] = *out;
    return true;
}

bool qn__token_slice_acquire(qn_token_trie *t, const uint64_t ascii[2], bool wide, qn_token_slice **out)
{
    qn__mutex_lock(&t->mutex);
    const bool ok = find_slice(t, ascii, wide, out);
    if (*out) {
        (*out)->n_users++;
        (*out)->last_use = ++t->clock;
    }
    qn__mutex_unlock(&t->mutex);
    return ok;
}

void qn__token_slice_release(qn_token_trie *t, qn_token_slice *slice)
{
    qn__mutex_lock(&t->mutex);
    slice->n_users--;
    qn__mutex_unlock(&t->mutex);
}

const uint32_t *qn__token_slice_mask(qn_token_trie *t, qn_token_slice *s, int n_chars)
{
    if (n_chars > QN_SLICE_CHARS) return s->mask;
    qn__mutex_lock(&t->mutex);
    uint32_t *bits = s->by_length[n_chars];
    if (!bits && (bits = qn__calloc((size_t)t->n_tokens / 32 + 1, sizeof *bits))) {
        for (int32_t i = 0; i < t->n_entries; i++)
            if (t->contents[i].n_chars <= n_chars && is_in(s, &t->contents[i]))
                bits[t->ids[i] / 32] |= 1u << t->ids[i] % 32;
        s->by_length[n_chars] = bits;
    }
    qn__mutex_unlock(&t->mutex);
    return bits;
}
