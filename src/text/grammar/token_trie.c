/* SPDX-License-Identifier: MIT */
/* src/text/grammar/token_trie.c -- the trie of a vocabulary's bytes, and slices of it. */
#include "text/grammar/token_trie.h"
#include "base/thread.h"
#include "text/tokenizer/models.h"
#include "text/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_REST 16384 /* tokens that a slice's own trie is made of: 2 ms */

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
    int32_t n_tokens, n_entries, n_eog, max_depth;
    qn_trie whole;
    int32_t *parents;                     /* [n_nodes] -1 */
    int32_t *node_of;                     /* [n_entries] */
    entry *entries;                       /* [n_entries] in order of their bytes */
    content *contents;                    /* [n_entries] */
    int32_t *by_chars;                    /* [n_entries] the same in order of n_chars */
    int32_t chars_at[QN_SLICE_CHARS + 2]; /* by_chars[chars_at[n]] is the first of n characters or more */
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

/* Entries in order -> nodes in order. node_of and parents: may be NULL. */
static bool build(const entry *entries, int32_t n, qn_trie *t, int32_t *max_depth, int32_t *node_of, int32_t **parents)
{
    size_t n_nodes = 1, longest = 1;
    for (int32_t i = 0; i < n; i++) {
        n_nodes += entries[i].n - (size_t)(i ? shared_bytes(&entries[i - 1], &entries[i]) : 0);
        if (entries[i].n > longest) longest = entries[i].n;
    }
    int32_t *open = qn__alloc(longest * sizeof *open), depth = 0; /* the nodes on the way to the last entry */
    t->nodes = qn__alloc(n_nodes * sizeof *t->nodes);
    t->ids = qn__alloc(((size_t)n + 1) * sizeof *t->ids);
    if (parents) *parents = qn__alloc(n_nodes * sizeof **parents);
    const bool ok = open && t->nodes && t->ids && (!parents || *parents);
    for (int32_t i = 0; ok && i < n; i++) {
        const entry *e = &entries[i];
        const int32_t shared = i ? shared_bytes(e - 1, e) : 0;
        while (depth > shared) t->nodes[open[--depth]].end = t->n_nodes;
        for (; depth < (int32_t)e->n; depth++) {
            open[depth] = t->n_nodes;
            if (parents) (*parents)[t->n_nodes] = depth ? open[depth - 1] : -1;
            t->nodes[t->n_nodes++] = (qn_trie_node){.byte = (uint8_t)e->bytes[depth], .first = i};
        }
        t->ids[i] = e->token;
        t->nodes[open[depth - 1]].n++;
        if (node_of) node_of[i] = open[depth - 1];
        if (depth > *max_depth) *max_depth = depth;
    }
    t->n_ids = n;
    while (depth > 0) t->nodes[open[--depth]].end = t->n_nodes;
    qn__free(open);
    return ok;
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
        t->contents[i] = content_of(e->bytes, e->n);
    }
    qn__free(unsorted);
    return true;
}

/* What is longer than QN_SLICE_CHARS characters comes last. */
static void sort_by_chars(qn_token_trie *t)
{
    int32_t n = 0;
    for (int k = 0; k <= QN_SLICE_CHARS + 1; k++) {
        t->chars_at[k] = n;
        for (int32_t i = 0; i < t->n_entries; i++)
            if (t->contents[i].n_chars == k || (k > QN_SLICE_CHARS && t->contents[i].n_chars > k)) t->by_chars[n++] = i;
    }
}

static qn_status create(const qn_tokenizer *tok, qn_token_trie **out, qn_error *err)
{
    static _Atomic uint64_t ids;
    const int32_t n = qn_tokenizer_n_tokens(tok);
    const size_t most = qn_tokenizer_max_piece(tok) + 8, room = (size_t)n + 1;
    char *scratch = qn__alloc(most);
    qn_token_trie *t = qn__calloc(1, sizeof *t);
    bool ok = scratch && t;
    if (t) qn__mutex_init(&t->mutex);
    if (ok) {
        t->id = atomic_fetch_add(&ids, 1) + 1;
        t->n_tokens = n;
        for (qn_token i = 0; i < n; i++) t->n_bytes += qn__token_bytes(tok, i, scratch);
        t->entries = qn__calloc(room, sizeof *t->entries);
        t->contents = qn__calloc(room, sizeof *t->contents);
        t->by_chars = qn__calloc(room, sizeof *t->by_chars);
        t->eog = qn__calloc(room, sizeof *t->eog);
        t->node_of = qn__calloc(room, sizeof *t->node_of);
        t->bytes = qn__alloc(t->n_bytes + 1);
        ok = t->entries && t->contents && t->by_chars && t->eog && t->node_of && t->bytes;
    }
    ok = ok && sort_entries(t, tok, scratch) &&
         build(t->entries, t->n_entries, &t->whole, &t->max_depth, t->node_of, &t->parents);
    if (ok) sort_by_chars(t);
    qn__free(scratch);
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
    qn__free(s->rest.nodes);
    qn__free(s->rest.ids);
    qn__free(s->rest_bits);
    qn__free(s);
}

void qn__token_trie_destroy(qn_token_trie *t)
{
    if (!t) return;
    for (int32_t i = 0; i < t->n_slices; i++) slice_destroy(t->slices[i]);
    qn__mutex_deinit(&t->mutex);
    qn__free(t->entries);
    qn__free(t->contents);
    qn__free(t->by_chars);
    qn__free(t->eog);
    qn__free(t->node_of);
    qn__free(t->bytes);
    qn__free(t->whole.nodes);
    qn__free(t->whole.ids);
    qn__free(t->parents);
    qn__free(t);
}

uint64_t qn__token_trie_id(const qn_token_trie *t) { return t->id; }
int32_t qn__token_trie_depth(const qn_token_trie *t) { return t->max_depth; }
const qn_trie *qn__token_trie_whole(const qn_token_trie *t) { return &t->whole; }
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
    return t->whole.ids + begin;
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

/* How the token goes on behind its first characters that are in the slice, at most QN_SLICE_CHARS. */
static entry rest_of(const qn_token_slice *s, const entry *e, uint8_t *n_chars)
{
    size_t at = 0;
    for (*n_chars = 0; *n_chars < QN_SLICE_CHARS && at < e->n; ++*n_chars) {
        uint32_t cp;
        const int len = qn__utf8_decode(e->bytes + at, e->n - at, &cp);
        if (len == 0 || (len == 1 ? !(s->ascii[cp / 64] >> cp % 64 & 1) : !s->wide)) break;
        at += (size_t)len;
    }
    return (entry){e->bytes + at, e->n - (uint32_t)at, e->token};
}

/* The rest as tries by how many characters come before: entries by that, then by bytes. */
static bool make_rest(const qn_token_trie *t, qn_token_slice *s, const int32_t *others, int32_t n)
{
    entry *all = qn__alloc(2 * ((size_t)n + 1) * sizeof *all), *sorted = all ? all + n : NULL;
    uint8_t *chars = qn__alloc((size_t)n + 1);
    int32_t at = 0, depth = 0, begin[QN_SLICE_CHARS + 2];
    bool ok = all && chars;
    for (int32_t i = 0; ok && i < n; i++) all[i] = rest_of(s, &t->entries[others[i]], &chars[i]);
    for (int k = 0; ok && k <= QN_SLICE_CHARS; k++) {
        begin[k] = at;
        for (int32_t i = 0; i < n; i++)
            if (chars[i] == k) sorted[at++] = all[i];
        qsort(sorted + begin[k], (size_t)(at - begin[k]), sizeof *sorted, by_bytes);
    }
    begin[QN_SLICE_CHARS + 1] = at;
    qn_trie part[QN_SLICE_CHARS + 1] = {0};
    int32_t n_nodes = 0;
    for (int k = 0; k <= QN_SLICE_CHARS; k++) {
        ok = ok && build(sorted + begin[k], begin[k + 1] - begin[k], &part[k], &depth, NULL, NULL);
        n_nodes += part[k].n_nodes;
    }
    s->rest.nodes = ok ? qn__alloc(((size_t)n_nodes + 1) * sizeof *s->rest.nodes) : NULL;
    s->rest.ids = ok ? qn__alloc(((size_t)n + 1) * sizeof *s->rest.ids) : NULL;
    ok = s->rest.nodes && s->rest.ids;
    for (int k = 0; k <= QN_SLICE_CHARS; k++) {
        s->rest_at[k] = s->rest.n_nodes;
        for (int32_t i = 0; ok && i < part[k].n_nodes; i++) {
            qn_trie_node node = part[k].nodes[i];
            node.end += s->rest_at[k];
            node.first += begin[k];
            s->rest.nodes[s->rest.n_nodes++] = node;
        }
        for (int32_t i = 0; ok && i < part[k].n_ids; i++) s->rest.ids[s->rest.n_ids++] = part[k].ids[i];
        qn__free(part[k].nodes);
        qn__free(part[k].ids);
    }
    s->rest_at[QN_SLICE_CHARS + 1] = s->rest.n_nodes;
    qn__free(all);
    qn__free(chars);
    return ok;
}

static bool make_rest_bits(const qn_token_trie *t, qn_token_slice *s, const int32_t *others, int32_t n)
{
    s->rest_bits = qn__calloc((size_t)t->whole.n_nodes / 32 + 1, sizeof *s->rest_bits);
    for (int32_t i = 0; s->rest_bits && i < n; i++)
        for (int32_t k = t->node_of[others[i]]; k >= 0 && !(s->rest_bits[k / 32] >> k % 32 & 1); k = t->parents[k])
            s->rest_bits[k / 32] |= 1u << k % 32;
    return s->rest_bits;
}

static qn_token_slice *slice_create(const qn_token_trie *t, const uint64_t ascii[2], bool wide)
{
    qn_token_slice *s = qn__calloc(1, sizeof *s);
    int32_t *others = qn__alloc(((size_t)t->n_entries + 1) * sizeof *others), n = 0;
    bool ok = s && others && (s->mask = qn__calloc((size_t)t->n_tokens / 32 + 1, sizeof *s->mask));
    if (ok) {
        s->ascii[0] = ascii[0];
        s->ascii[1] = ascii[1];
        s->wide = wide;
        for (int32_t i = 0; i < t->n_entries; i++) {
            const bool in = is_in(s, &t->contents[i]);
            const qn_token id = t->entries[i].token;
            if (in) s->mask[id / 32] |= 1u << id % 32;
            if (!in || t->contents[i].n_chars > QN_SLICE_CHARS) others[n++] = i;
        }
        ok = n <= MAX_REST ? make_rest(t, s, others, n) : make_rest_bits(t, s, others, n);
    }
    qn__free(others);
    if (ok) return s;
    slice_destroy(s);
    return NULL;
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
    if (!bits && (bits = qn__alloc(((size_t)t->n_tokens / 32 + 1) * sizeof *bits))) {
        memcpy(bits, s->mask, ((size_t)t->n_tokens / 32 + 1) * sizeof *bits);
        for (int32_t i = t->chars_at[n_chars + 1]; i < t->n_entries; i++) {
            const qn_token id = t->entries[t->by_chars[i]].token;
            bits[id / 32] &= ~(1u << id % 32);
        }
        s->by_length[n_chars] = bits;
    }
    qn__mutex_unlock(&t->mutex);
    return bits;
}
