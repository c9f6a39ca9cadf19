/* SPDX-License-Identifier: MIT */
/* src/text/jinja/value.h -- the values of a template: Python's, as far as templates see them.
 *
 * Everything lives in the arena of one rendering and ends with it. Strings are valid UTF-8, immutable, and know of each
 * byte whether it is trusted: what the template's author wrote is, what came from a conversation is not. Operations on
 * strings carry that along, so that text of a message can never become a control token, however it is cut and joined.
 *
 * Errors are sticky: the first one stays in qn_heap, what is computed after it is thrown away. */
#ifndef QN_TEXT_JINJA_VALUE_H
#define QN_TEXT_JINJA_VALUE_H

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

typedef enum qn_val_type {
    QN_VAL_undefined, /* hint: why */
    QN_VAL_none,
    QN_VAL_bool,
    QN_VAL_int,
    QN_VAL_big, /* an integer beyond 64 bits, as its digits: can be printed, compared for equality and made a float */
    QN_VAL_float,
    QN_VAL_str,
    QN_VAL_list, /* and tuples, generators, views of dicts, ranges: qn_list.kind */
    QN_VAL_dict,
    QN_VAL_namespace,
    QN_VAL_macro,
    QN_VAL_function, /* a global or a method with its object */
    QN_VAL_loop,
    QN_VAL_cycler,
    QN_VAL_joiner,
    QN_VAL_absent /* an argument that was not given */
} qn_val_type;

typedef struct qn_vstr qn_vstr;
typedef struct qn_vlist qn_vlist;
typedef struct qn_vdict qn_vdict;

typedef struct qn_val {
    qn_val_type type;
    union {
        bool b;
        int64_t i;
        double f;
        const qn_vstr *s; /* str, big; undefined: the hint, may be NULL */
        qn_vlist *l;
        qn_vdict *d; /* dict, namespace */
        void *p;     /* the rest: call.h */
    };
} qn_val;

typedef enum qn_trust { QN_TRUST_none, QN_TRUST_all, QN_TRUST_mixed } qn_trust;

struct qn_vstr {
    const char *data; /* terminated, but for long ones (qn__buf_go_on) */
    uint32_t n, n_chars;
    qn_trust trust;
    bool markup;        /* of the filter safe: joining it with other text escapes that */
    const uint8_t *map; /* mixed: [n] 1 where trusted */
};

typedef enum qn_list_kind {
    QN_LIST_list,
    QN_LIST_tuple,
    QN_LIST_generator, /* has no length, and is empty once it was walked through */
    QN_LIST_keys,
    QN_LIST_values,
    QN_LIST_items,
    QN_LIST_range
} qn_list_kind;

struct qn_vlist {
    qn_val *items;
    uint32_t n, cap;
    qn_list_kind kind;
    int64_t start, stop, step; /* of a range */
    bool is_group;             /* a tuple (grouper, list) of the filter groupby */
};

struct qn_vdict {
    qn_val *keys, *values; /* in order of insertion */
    uint32_t n, cap;
    uint32_t *slots; /* hash table of indices + 1, n_slots a power of two; NULL while there are few */
    uint32_t n_slots;
};

/* Memory and the error of one rendering. */
typedef struct qn_heap {
    qn_arena arena;
    size_t max_bytes;
    qn_error *err; /* may be NULL */
    qn_status status;
    uint64_t worked, max_work; /* elements and bytes that were looked at, see qn__heap_work */
    struct {
        const char *data; /* of the long text that was made last by joining; n bytes of cap */
        uint32_t n, cap;
    } growing;
} qn_heap;

void *qn__heap_alloc(qn_heap *h, size_t size); /* zeroed; NULL after a failure */
/* Keeps the first error. Gives undefined, so that `return qn__heap_fail(..)` reads well. */
qn_val qn__heap_fail(qn_heap *h, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);
/* What takes time and no memory counts itself: n elements, or bytes / QN_WORK_BYTES. False beyond max_work (0.1 s for
 * the usual 20 million). */
#define QN_WORK_BYTES 32
#define QN_WORK_CHAR  6 /* elements, for a look into Unicode's tables */
bool qn__heap_work(qn_heap *h, uint64_t n);
#define QN_RAISE(h, ...) qn__heap_fail((h), QN_STATUS_invalid, __VA_ARGS__)

/* ---- making values ---------------------------------------------------------------------------- */

static inline qn_val qn__none(void) { return (qn_val){.type = QN_VAL_none}; }
static inline qn_val qn__bool(bool b) { return (qn_val){.type = QN_VAL_bool, .b = b}; }
static inline qn_val qn__int(int64_t i) { return (qn_val){.type = QN_VAL_int, .i = i}; }
static inline qn_val qn__float(double f) { return (qn_val){.type = QN_VAL_float, .f = f}; }
static inline qn_val qn__absent(void) { return (qn_val){.type = QN_VAL_absent}; }
static inline qn_val qn__of_list(qn_vlist *l) { return (qn_val){.type = QN_VAL_list, .l = l}; }
static inline qn_val qn__of_dict(qn_vdict *d) { return (qn_val){.type = QN_VAL_dict, .d = d}; }
qn_val qn__val_undefined(qn_heap *h, const char *fmt, ...) QN_PRINTF(2, 3);

static inline bool qn__is_str(qn_val v) { return v.type == QN_VAL_str; }
static inline bool qn__is_undefined(qn_val v) { return v.type == QN_VAL_undefined; }
static inline bool qn__given(qn_val v) { return v.type != QN_VAL_absent; }
static inline bool qn__is_integer(qn_val v) { return v.type == QN_VAL_int || v.type == QN_VAL_bool; }
static inline int64_t qn__integer(qn_val v) { return v.type == QN_VAL_bool ? v.b : v.i; }
static inline bool qn__is_number(qn_val v) { return qn__is_integer(v) || v.type == QN_VAL_float; }
static inline double qn__real(qn_val v) { return v.type == QN_VAL_float ? v.f : (double)qn__integer(v); }

/* ---- strings ---------------------------------------------------------------------------------- */

qn_val qn__str_val(qn_heap *h, const char *text, size_t n, bool trusted); /* a copy; valid UTF-8 */
static inline qn_val qn__text_val(qn_heap *h, const char *text) { return qn__str_val(h, text, strlen(text), true); }
/* Bytes [begin, end) of s, which begin and end between characters. Shares them. */
qn_val qn__str_part(qn_heap *h, const qn_vstr *s, uint32_t begin, uint32_t end);
bool qn__str_is(qn_val v, const char *text);
static inline bool qn__str_same(const qn_vstr *a, const qn_vstr *b)
{
    return a->n == b->n && memcmp(a->data, b->data, a->n) == 0;
}
/* The byte where character i begins, 0 <= i <= n_chars. */
uint32_t qn__str_byte(const qn_vstr *s, uint32_t i);
/* The first place of b in a at or after byte `from`, -1 when there is none. */
int64_t qn__str_find(const qn_vstr *a, const qn_vstr *b, uint32_t from);

/* A string being made. */
typedef struct qn_vbuf {
    qn_heap *h;
    char *data;
    uint8_t *map; /* NULL while all bytes are alike */
    uint32_t n, cap;
    bool trusted, untrusted;   /* whether it has such bytes */
    uint32_t counted, n_chars; /* characters of the first bytes, of a text that it goes on with */
} qn_vbuf;
void qn__buf_add(qn_vbuf *b, const char *text, size_t n, bool trusted);
void qn__buf_puts(qn_vbuf *b, const char *text); /* trusted */
void qn__buf_part(qn_vbuf *b, const qn_vstr *s, uint32_t begin, uint32_t end);
static inline void qn__buf_str(qn_vbuf *b, const qn_vstr *s) { qn__buf_part(b, s, 0, s->n); }
void qn__buf_repeat(qn_vbuf *b, const qn_vstr *s, int64_t times); /* none for times <= 0 */
extern const qn_vstr qn__blank;                                   /* " ", trusted: what fills where nothing is named */
/* Trusted as byte `at` of s is: for what becomes of a character. */
void qn__buf_like(qn_vbuf *b, const char *text, size_t n, const qn_vstr *s, uint32_t at);
qn_val qn__buf_val(qn_vbuf *b);
/* A join that begins with s. Templates that say `out = out ~ more` for each message would copy all of it each time: a
 * long text that was made by the last join is gone on with in place. Its own bytes stay, but it is not terminated any
 * more. Nothing else may be made by joining until qn__buf_joined. */
void qn__buf_go_on(qn_vbuf *b, const qn_vstr *s);
qn_val qn__buf_joined(qn_vbuf *b);

/* ---- lists and dicts -------------------------------------------------------------------------- */

qn_vlist *qn__list_new(qn_heap *h, qn_list_kind kind, uint32_t room); /* NULL after a failure, as below */
void qn__list_add(qn_heap *h, qn_vlist *l, qn_val v);                 /* l may be NULL after a failure */
qn_val qn__val_pair(qn_heap *h, qn_val a, qn_val b);                  /* a tuple */
qn_vdict *qn__dict_new(qn_heap *h);
void qn__dict_set(qn_heap *h, qn_vdict *d, qn_val key, qn_val value); /* raises for a key that has no hash */
bool qn__dict_get(const qn_vdict *d, qn_val key, qn_val *out);        /* out may be NULL */
bool qn__dict_find(const qn_vdict *d, const char *key, qn_val *out);
/* Where the value of a key stands, n bytes; NULL: not there. Until the dict changes. */
const qn_val *qn__dict_slot(const qn_vdict *d, const char *key, size_t n);
bool qn__dict_remove(qn_vdict *d, qn_val key, qn_val *out);

/* ---- what values are -------------------------------------------------------------------------- */

bool qn__val_truth(qn_val v);
bool qn__val_equal(qn_val a, qn_val b);
bool qn__heap_equal(qn_heap *h, qn_val a, qn_val b); /* the same, counted */
/* -1, 0, 1; raises for what Python does not order. */
int qn__val_compare(qn_heap *h, qn_val a, qn_val b);
const char *qn__type_name(qn_val v); /* Python's: "str", "NoneType" .. */
/* -1, and raised, for what has no length. */
int64_t qn__val_length(qn_heap *h, qn_val v);
/* What a for loop walks over: elements, keys, characters. NULL, and raised, for what cannot be walked. Walking a
 * generator empties it. */
qn_vlist *qn__val_iterate(qn_heap *h, qn_val v);
bool qn__val_contains(qn_heap *h, qn_val in, qn_val what);

/* ---- text of values (print.c), JSON (json.c) --------------------------------------------------- */

/* Python's str() and repr(). */
qn_val qn__to_str(qn_heap *h, qn_val v);
void qn__val_print(qn_vbuf *b, qn_val v, bool repr);
/* repr(float): the shortest decimal that reads back the same. Returns the length; 32 bytes do. */
int qn__print_float(char *out, double f);
/* A decimal number, beyond a double's range infinity. False where it is none, or after a failure. */
bool qn__read_float(qn_heap *h, const char *text, double *f);

typedef struct qn_json_style {
    int indent;                   /* spaces; below 0: one line */
    const qn_vstr *indent_text;   /* instead, where an indent is given as a string */
    const qn_vstr *comma, *colon; /* NULL: Python's defaults */
    bool ascii, sort_keys;
} qn_json_style;
void qn__print_json(qn_vbuf *b, qn_val v, const qn_json_style *style);
/* As Python's json.loads: NaN and Infinity pass, of equal keys the last wins. Strings are trusted or not. Raises with
 * the offset. */
qn_val qn__parse_json(qn_heap *h, const char *text, size_t n, bool trusted);

#endif
