/* SPDX-License-Identifier: MIT */
/* src/text/jinja/value.c -- making values, comparing them, and what can be asked of any of them. */
#include "text/jinja/value.h"
#include "base/str.h"
#include "text/utf8.h"

#include <stdarg.h>

#define LONG      4096              /* bytes of a text that is worth going on with in place */
#define MAX_BYTES ((size_t)1 << 30) /* of one string or one array */

void *qn__heap_alloc(qn_heap *h, size_t size)
{
    if (h->status != QN_OK) return NULL;
    if (size > h->max_bytes || h->arena.used_bytes > h->max_bytes - size) {
        qn__heap_fail(h, QN_STATUS_limit, "the template needs more than %zu MiB", h->max_bytes >> 20);
        return NULL;
    }
    void *p = qn__arena_alloc(&h->arena, size);
    if (!p) qn__heap_fail(h, QN_STATUS_nomem, "out of memory: %zu bytes were asked for", size);
    return p;
}

bool qn__heap_work(qn_heap *h, uint64_t n)
{
    if ((h->worked += n) <= h->max_work) return true;
    qn__heap_fail(h, QN_STATUS_limit, "the template takes too many steps");
    return false;
}

qn_val qn__heap_fail(qn_heap *h, qn_status status, const char *fmt, ...)
{
    if (h->status == QN_OK) {
        va_list args;
        va_start(args, fmt);
        h->status = qn__vfail(h->err, status, __FILE__, __LINE__, fmt, args);
        va_end(args);
    }
    return (qn_val){.type = QN_VAL_undefined};
}

qn_val qn__val_undefined(qn_heap *h, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    const qn_val hint = qn__str_val(h, text, strlen(text), true);
    return (qn_val){.type = QN_VAL_undefined, .s = hint.s};
}

/* ---- strings ---------------------------------------------------------------------------------- */

static uint32_t count_chars(const char *s, size_t n)
{
    uint32_t chars = 0;
    for (size_t i = 0; i < n; i++) chars += ((unsigned char)s[i] & 0xC0) != 0x80;
    return chars;
}

static qn_val wrap(qn_heap *h, const char *data, uint32_t n, uint32_t n_chars, qn_trust trust, const uint8_t *map)
{
    qn_vstr *s = qn__heap_alloc(h, sizeof *s);
    if (!s) return (qn_val){.type = QN_VAL_undefined};
    *s = (qn_vstr){.data = data, .n = n, .n_chars = n_chars, .trust = trust, .map = map};
    return (qn_val){.type = QN_VAL_str, .s = s};
}

qn_val qn__str_val(qn_heap *h, const char *text, size_t n, bool trusted)
{
    if (n > MAX_BYTES) return qn__heap_fail(h, QN_STATUS_limit, "a string of %zu bytes", n);
    char *copy = qn__heap_alloc(h, n + 1);
    if (!copy) return (qn_val){.type = QN_VAL_undefined};
    memcpy(copy, text, n);
    return wrap(h, copy, (uint32_t)n, count_chars(copy, (uint32_t)n), trusted ? QN_TRUST_all : QN_TRUST_none, NULL);
}

qn_val qn__str_part(qn_heap *h, const qn_vstr *s, uint32_t begin, uint32_t end)
{
    if (begin == 0 && end == s->n) return (qn_val){.type = QN_VAL_str, .s = s};
    qn_vbuf b = {.h = h};
    qn__buf_part(&b, s, begin, end);
    return qn__buf_val(&b);
}

bool qn__str_is(qn_val v, const char *text)
{
    return v.type == QN_VAL_str && strlen(text) == v.s->n && memcmp(v.s->data, text, v.s->n) == 0;
}

uint32_t qn__str_byte(const qn_vstr *s, uint32_t i)
{
    if (s->n_chars == s->n) return i;
    if (i >= s->n_chars) return s->n;
    uint32_t at = 0;
    while (i--) at += (uint32_t)qn__utf8_len(s->data + at, s->n - at);
    return at;
}

int64_t qn__str_find(const qn_vstr *a, const qn_vstr *b, uint32_t from)
{
    if (from > a->n) return -1;
    const char *hit = b->n ? memmem(a->data + from, a->n - from, b->data, b->n) : a->data + from;
    return hit ? hit - a->data : -1;
}

static bool reserve(qn_vbuf *b, size_t n)
{
    if (b->h->status != QN_OK) return false;
    if (n > MAX_BYTES - b->n) {
        qn__heap_fail(b->h, QN_STATUS_limit, "a string of more than %zu MiB", MAX_BYTES >> 20);
        return false;
    }
    if (b->n + n < b->cap) return true;
    const size_t cap = 2 * (b->n + n) + 32;
    char *data = qn__heap_alloc(b->h, cap);
    if (!data) return false;
    if (b->n) memcpy(data, b->data, b->n);
    if (b->map) {
        uint8_t *map = qn__heap_alloc(b->h, cap);
        if (!map) return false;
        memcpy(map, b->map, b->n);
        b->map = map;
    }
    b->data = data;
    b->cap = (uint32_t)cap;
    return true;
}

/* Called before n bytes with such trust are appended. */
static void note_trust(qn_vbuf *b, bool trusted, bool untrusted)
{
    const bool was = b->trusted && b->untrusted;
    const bool had_trusted = b->trusted;
    b->trusted |= trusted;
    b->untrusted |= untrusted;
    if (was || !(b->trusted && b->untrusted)) return;
    b->map = qn__heap_alloc(b->h, b->cap);
    if (b->map) memset(b->map, had_trusted, b->n);
}

void qn__buf_add(qn_vbuf *b, const char *text, size_t n, bool trusted)
{
    if (n == 0 || !reserve(b, n)) return;
    note_trust(b, trusted, !trusted);
    if (b->h->status != QN_OK) return;
    memcpy(b->data + b->n, text, n);
    if (b->map) memset(b->map + b->n, trusted, n);
    b->n += (uint32_t)n;
}

void qn__buf_puts(qn_vbuf *b, const char *text) { qn__buf_add(b, text, strlen(text), true); }

void qn__buf_part(qn_vbuf *b, const qn_vstr *s, uint32_t begin, uint32_t end)
{
    if (begin >= end) return;
    if (s->trust != QN_TRUST_mixed) {
        qn__buf_add(b, s->data + begin, end - begin, s->trust == QN_TRUST_all);
        return;
    }
    const bool trusted = memchr(s->map + begin, 1, end - begin), untrusted = memchr(s->map + begin, 0, end - begin);
    if (!reserve(b, end - begin)) return;
    note_trust(b, trusted, untrusted);
    if (b->h->status != QN_OK) return;
    memcpy(b->data + b->n, s->data + begin, end - begin);
    if (b->map) memcpy(b->map + b->n, s->map + begin, end - begin);
    b->n += end - begin;
}

const qn_vstr qn__blank = {.data = " ", .n = 1, .n_chars = 1, .trust = QN_TRUST_all};

/* Ten million blanks are one allocation and a few copies: the first, then all there is again and again. */
void qn__buf_repeat(qn_vbuf *b, const qn_vstr *s, int64_t times)
{
    if (times <= 0 || s->n == 0) return;
    const size_t all = (uint64_t)times > MAX_BYTES / s->n ? MAX_BYTES + 1 : (size_t)times * s->n;
    if (!reserve(b, all)) return;
    const uint32_t from = b->n;
    qn__buf_str(b, s);
    for (size_t done = s->n, more; done < all && b->h->status == QN_OK; done += more) {
        more = done < all - done ? done : all - done;
        memcpy(b->data + from + done, b->data + from, more);
        if (b->map) memcpy(b->map + from + done, b->map + from, more);
        b->n += (uint32_t)more;
    }
}

void qn__buf_like(qn_vbuf *b, const char *text, size_t n, const qn_vstr *s, uint32_t at)
{
    qn__buf_add(b, text, n, s->trust == QN_TRUST_mixed ? s->map[at] : s->trust == QN_TRUST_all);
}

qn_val qn__buf_val(qn_vbuf *b)
{
    if (b->h->status != QN_OK) return (qn_val){.type = QN_VAL_undefined};
    if (!b->data) return qn__str_val(b->h, "", 0, true);
    b->data[b->n] = '\0';
    const qn_trust trust = !b->untrusted ? QN_TRUST_all : b->trusted ? QN_TRUST_mixed : QN_TRUST_none;
    const uint32_t n_chars = b->n_chars + count_chars(b->data + b->counted, b->n - b->counted);
    return wrap(b->h, b->data, b->n, n_chars, trust, b->map);
}

void qn__buf_go_on(qn_vbuf *b, const qn_vstr *s)
{
    qn_heap *h = b->h;
    if (s->n < LONG || s->data != h->growing.data || s->n != h->growing.n) {
        qn__buf_str(b, s);
        return;
    }
    b->data = (char *)s->data;
    b->map = (uint8_t *)s->map;
    b->n = b->counted = s->n;
    b->n_chars = s->n_chars;
    b->cap = h->growing.cap;
    b->trusted = s->trust != QN_TRUST_none;
    b->untrusted = s->trust != QN_TRUST_all;
}

qn_val qn__buf_joined(qn_vbuf *b)
{
    b->h->growing.n = 0;
    const qn_val v = qn__buf_val(b);
    if (v.type == QN_VAL_str && v.s->n >= LONG) {
        b->h->growing.data = v.s->data;
        b->h->growing.n = v.s->n;
        b->h->growing.cap = b->cap;
    }
    return v;
}

/* ---- lists ------------------------------------------------------------------------------------ */

qn_vlist *qn__list_new(qn_heap *h, qn_list_kind kind, uint32_t room)
{
    qn_vlist *l = qn__heap_alloc(h, sizeof *l);
    if (!l) return NULL;
    l->kind = kind;
    if (room && !(l->items = qn__heap_alloc(h, room * sizeof *l->items))) return NULL;
    l->cap = room;
    return l;
}

void qn__list_add(qn_heap *h, qn_vlist *l, qn_val v)
{
    if (!l || h->status != QN_OK) return;
    if (l->n == l->cap) {
        const uint32_t cap = l->cap ? 2 * l->cap : 8;
        if (cap > MAX_BYTES / sizeof *l->items) {
            qn__heap_fail(h, QN_STATUS_limit, "a list of more than %u elements", l->n);
            return;
        }
        qn_val *items = qn__heap_alloc(h, cap * sizeof *items);
        if (!items) return;
        if (l->n) memcpy(items, l->items, l->n * sizeof *items);
        l->items = items;
        l->cap = cap;
    }
    l->items[l->n++] = v;
}

qn_val qn__val_pair(qn_heap *h, qn_val a, qn_val b)
{
    qn_vlist *l = qn__list_new(h, QN_LIST_tuple, 2);
    qn__list_add(h, l, a);
    qn__list_add(h, l, b);
    return l ? qn__of_list(l) : (qn_val){.type = QN_VAL_undefined};
}

/* ---- dicts: a table of hashes from FEW entries on ---------------------------------------------- */

#define FEW 8

/* Equal values have equal hashes: True, 1 and 1.0 are one key, as in Python. */
/* Of a tuple, what is not too deep in it: it is looked for before it is known to be small. */
static uint64_t hash_at(qn_val v, int depth)
{
    double f;
    switch (v.type) {
    case QN_VAL_str:
    case QN_VAL_big: return qn__hash(QN_HASH_INIT, v.s->data, v.s->n);
    case QN_VAL_bool:
    case QN_VAL_int:
    case QN_VAL_float: f = qn__real(v) + 0.0; return qn__hash(QN_HASH_INIT, &f, sizeof f);
    case QN_VAL_list: {
        uint64_t h = QN_HASH_INIT;
        for (uint32_t i = 0; i < v.l->n && i < 8 && depth < 4; i++) {
            const uint64_t e = hash_at(v.l->items[i], depth + 1);
            h = qn__hash(h, &e, sizeof e);
        }
        return h;
    }
    default: return (uint64_t)v.type;
    }
}

static uint64_t hash_of(qn_val v) { return hash_at(v, 0); }

/* Tuples may hold one another many times over: only small ones can be keys. */
static bool small_key(qn_val v, int *left)
{
    if (v.type == QN_VAL_dict || --*left < 0) return false;
    if (v.type != QN_VAL_list) return true;
    if (v.l->kind != QN_LIST_tuple) return false;
    for (uint32_t i = 0; i < v.l->n; i++)
        if (!small_key(v.l->items[i], left)) return false;
    return true;
}

static bool has_hash(qn_val v)
{
    int left = 256;
    return small_key(v, &left);
}

qn_vdict *qn__dict_new(qn_heap *h) { return qn__heap_alloc(h, sizeof(qn_vdict)); }

static int64_t index_of(const qn_vdict *d, qn_val key)
{
    if (!d->slots) {
        for (uint32_t i = 0; i < d->n; i++)
            if (qn__val_equal(d->keys[i], key)) return i;
        return -1;
    }
    for (uint64_t at = hash_of(key);; at++) {
        const uint32_t slot = d->slots[at & (d->n_slots - 1)];
        if (slot == 0) return -1;
        if (qn__val_equal(d->keys[slot - 1], key)) return slot - 1;
    }
}

static void enter(qn_vdict *d, uint32_t i)
{
    uint64_t at = hash_of(d->keys[i]);
    while (d->slots[at & (d->n_slots - 1)]) at++;
    d->slots[at & (d->n_slots - 1)] = i + 1;
}

static bool grow(qn_heap *h, qn_vdict *d)
{
    const uint32_t cap = d->cap ? 2 * d->cap : FEW;
    if (cap > MAX_BYTES / sizeof *d->keys) {
        qn__heap_fail(h, QN_STATUS_limit, "a dict of more than %u entries", d->n);
        return false;
    }
    qn_val *keys = qn__heap_alloc(h, cap * sizeof *keys), *values = qn__heap_alloc(h, cap * sizeof *values);
    uint32_t *slots = cap > FEW ? qn__heap_alloc(h, 2 * cap * sizeof *slots) : NULL;
    if (!keys || !values || (cap > FEW && !slots)) return false;
    if (d->n) {
        memcpy(keys, d->keys, d->n * sizeof *keys);
        memcpy(values, d->values, d->n * sizeof *values);
    }
    d->keys = keys;
    d->values = values;
    d->cap = cap;
    d->slots = slots;
    d->n_slots = 2 * cap;
    for (uint32_t i = 0; slots && i < d->n; i++) enter(d, i);
    return true;
}

void qn__dict_set(qn_heap *h, qn_vdict *d, qn_val key, qn_val value)
{
    if (!d || h->status != QN_OK) return;
    if (!has_hash(key)) {
        QN_RAISE(h, "a %s cannot be the key of a dict", qn__type_name(key));
        return;
    }
    const int64_t at = index_of(d, key);
    if (at >= 0) {
        d->values[at] = value;
        return;
    }
    if (d->n == d->cap && !grow(h, d)) return;
    d->keys[d->n] = key;
    d->values[d->n++] = value;
    if (d->slots) enter(d, d->n - 1);
}

bool qn__dict_get(const qn_vdict *d, qn_val key, qn_val *out)
{
    const int64_t at = has_hash(key) ? index_of(d, key) : -1;
    if (at >= 0 && out) *out = d->values[at];
    return at >= 0;
}

const qn_val *qn__dict_slot(const qn_vdict *d, const char *key, size_t n)
{
    const qn_vstr s = {.data = key, .n = (uint32_t)n};
    const int64_t at = index_of(d, (qn_val){.type = QN_VAL_str, .s = &s});
    return at >= 0 ? &d->values[at] : NULL;
}

bool qn__dict_find(const qn_vdict *d, const char *key, qn_val *out)
{
    const qn_vstr s = {.data = key, .n = (uint32_t)strlen(key)};
    return qn__dict_get(d, (qn_val){.type = QN_VAL_str, .s = &s}, out);
}

bool qn__dict_remove(qn_vdict *d, qn_val key, qn_val *out)
{
    const int64_t at = has_hash(key) ? index_of(d, key) : -1;
    if (at < 0) return false;
    if (out) *out = d->values[at];
    d->n--;
    memmove(d->keys + at, d->keys + at + 1, (d->n - (size_t)at) * sizeof *d->keys);
    memmove(d->values + at, d->values + at + 1, (d->n - (size_t)at) * sizeof *d->values);
    if (d->slots) memset(d->slots, 0, d->n_slots * sizeof *d->slots);
    for (uint32_t i = 0; d->slots && i < d->n; i++) enter(d, i);
    return true;
}

/* ---- what values are -------------------------------------------------------------------------- */

bool qn__val_truth(qn_val v)
{
    switch (v.type) {
    case QN_VAL_undefined:
    case QN_VAL_none:
    case QN_VAL_absent: return false;
    case QN_VAL_bool: return v.b;
    case QN_VAL_int: return v.i != 0;
    case QN_VAL_float: return v.f != 0;
    case QN_VAL_str: return v.s->n != 0;
    case QN_VAL_list: return v.l->kind == QN_LIST_generator || v.l->n != 0;
    case QN_VAL_dict: return v.d->n != 0;
    default: return true;
    }
}

#define MAX_DEPTH 200 /* of what is compared: a list may have been put into itself */

static bool equal(qn_heap *h, qn_val a, qn_val b, int depth);

static bool lists_equal(qn_heap *h, const qn_vlist *a, const qn_vlist *b, int depth)
{
    if (a == b) return true;
    if (a->n != b->n) return false;
    if (a->kind != b->kind || a->kind == QN_LIST_generator || a->kind == QN_LIST_values) return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!equal(h, a->items[i], b->items[i], depth + 1)) return false;
    return true;
}

static bool equal(qn_heap *h, qn_val a, qn_val b, int depth)
{
    if (h && !qn__heap_work(h, 1)) return false;
    if (qn__is_integer(a) && qn__is_integer(b)) return qn__integer(a) == qn__integer(b);
    if (qn__is_number(a) && qn__is_number(b)) return qn__real(a) == qn__real(b);
    if (a.type != b.type || depth > MAX_DEPTH) return false;
    switch (a.type) {
    case QN_VAL_undefined:
    case QN_VAL_none:
    case QN_VAL_absent: return true;
    case QN_VAL_str:
    case QN_VAL_big: return (!h || qn__heap_work(h, a.s->n / QN_WORK_BYTES)) && qn__str_same(a.s, b.s);
    case QN_VAL_list: return lists_equal(h, a.l, b.l, depth);
    case QN_VAL_dict:
        if (a.d->n != b.d->n) return false;
        for (uint32_t i = 0; i < a.d->n; i++) {
            qn_val other;
            if (!qn__dict_get(b.d, a.d->keys[i], &other) || !equal(h, a.d->values[i], other, depth + 1)) return false;
        }
        return true;
    default: return a.p == b.p;
    }
}

bool qn__val_equal(qn_val a, qn_val b) { return equal(NULL, a, b, 0); }
bool qn__heap_equal(qn_heap *h, qn_val a, qn_val b) { return equal(h, a, b, 0); }

static int compare(qn_heap *h, qn_val a, qn_val b, int depth)
{
    if (qn__is_integer(a) && qn__is_integer(b)) {
        const int64_t x = qn__integer(a), y = qn__integer(b);
        return (x > y) - (x < y);
    }
    if (qn__is_number(a) && qn__is_number(b)) {
        const double x = qn__real(a), y = qn__real(b);
        return (x > y) - (x < y);
    }
    if (!qn__heap_work(h, 1 + (qn__is_str(a) ? a.s->n / QN_WORK_BYTES : 0))) return 0;
    if (qn__is_str(a) && qn__is_str(b)) { /* order of UTF-8 is that of code points */
        const int c = memcmp(a.s->data, b.s->data, a.s->n < b.s->n ? a.s->n : b.s->n);
        return c ? (c > 0) - (c < 0) : (a.s->n > b.s->n) - (a.s->n < b.s->n);
    }
    if (depth < MAX_DEPTH && a.type == QN_VAL_list && b.type == QN_VAL_list && a.l->kind == b.l->kind &&
        a.l->kind <= QN_LIST_tuple) {
        for (uint32_t i = 0; i < a.l->n && i < b.l->n; i++)
            if (!qn__heap_equal(h, a.l->items[i], b.l->items[i]))
                return compare(h, a.l->items[i], b.l->items[i], depth + 1);
        return (a.l->n > b.l->n) - (a.l->n < b.l->n);
    }
    QN_RAISE(h, "%s and %s have no order", qn__type_name(a), qn__type_name(b));
    return 0;
}

int qn__val_compare(qn_heap *h, qn_val a, qn_val b) { return compare(h, a, b, 0); }

const char *qn__type_name(qn_val v)
{
    static const char *const names[] = {
        [QN_VAL_undefined] = "Undefined",
        [QN_VAL_none] = "NoneType",
        [QN_VAL_bool] = "bool",
        [QN_VAL_int] = "int",
        [QN_VAL_big] = "int",
        [QN_VAL_float] = "float",
        [QN_VAL_str] = "str",
        [QN_VAL_list] = "list",
        [QN_VAL_dict] = "dict",
        [QN_VAL_namespace] = "Namespace",
        [QN_VAL_macro] = "Macro",
        [QN_VAL_function] = "function",
        [QN_VAL_loop] = "LoopContext",
        [QN_VAL_cycler] = "Cycler",
        [QN_VAL_joiner] = "Joiner",
        [QN_VAL_absent] = "NoneType",
    };
    static const char *const lists[] = {
        [QN_LIST_list] = "list",      [QN_LIST_tuple] = "tuple",        [QN_LIST_generator] = "generator",
        [QN_LIST_keys] = "dict_keys", [QN_LIST_values] = "dict_values", [QN_LIST_items] = "dict_items",
        [QN_LIST_range] = "range",
    };
    return v.type == QN_VAL_list ? lists[v.l->kind] : names[v.type];
}

int64_t qn__val_length(qn_heap *h, qn_val v)
{
    if (qn__is_undefined(v)) return 0;
    if (qn__is_str(v)) return v.s->n_chars;
    if (v.type == QN_VAL_dict) return v.d->n;
    if (v.type == QN_VAL_list && v.l->kind != QN_LIST_generator) return v.l->n;
    QN_RAISE(h, "object of type '%s' has no len()", qn__type_name(v));
    return -1;
}

qn_vlist *qn__val_iterate(qn_heap *h, qn_val v)
{
    if (v.type == QN_VAL_list && !qn__heap_work(h, v.l->n)) return NULL;
    if (v.type == QN_VAL_list) {
        if (v.l->kind != QN_LIST_generator) return v.l;
        qn_vlist *all = qn__list_new(h, QN_LIST_list, 0);
        if (!all) return NULL;
        all->items = v.l->items;
        all->n = all->cap = v.l->n;
        v.l->n = 0;
        v.l->cap = 0;
        return all;
    }
    if (v.type != QN_VAL_str && v.type != QN_VAL_dict && v.type != QN_VAL_undefined) {
        QN_RAISE(h, "'%s' object is not iterable", qn__type_name(v));
        return NULL;
    }
    qn_vlist *l = qn__list_new(h, QN_LIST_list, 0);
    if (v.type == QN_VAL_dict)
        for (uint32_t i = 0; i < v.d->n; i++) qn__list_add(h, l, v.d->keys[i]);
    if (v.type == QN_VAL_str)
        for (uint32_t at = 0, n; at < v.s->n && h->status == QN_OK; at += n) {
            n = (uint32_t)qn__utf8_len(v.s->data + at, v.s->n - at);
            qn__list_add(h, l, qn__str_part(h, v.s, at, at + n));
        }
    return h->status == QN_OK ? l : NULL;
}

bool qn__val_contains(qn_heap *h, qn_val in, qn_val what)
{
    if (qn__is_str(in)) {
        if (!qn__is_str(what)) {
            QN_RAISE(h, "'in <string>' requires string as left operand, not %s", qn__type_name(what));
            return false;
        }
        return qn__heap_work(h, in.s->n / QN_WORK_BYTES) && qn__str_find(in.s, what.s, 0) >= 0;
    }
    if (in.type == QN_VAL_dict) {
        if (!has_hash(what)) QN_RAISE(h, "unhashable type: '%s'", qn__type_name(what));
        return qn__dict_get(in.d, what, NULL);
    }
    const qn_vlist *l = qn__val_iterate(h, in);
    for (uint32_t i = 0; l && i < l->n; i++)
        if (qn__heap_equal(h, l->items[i], what)) return true;
    return false;
}
