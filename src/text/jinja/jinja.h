/* SPDX-License-Identifier: MIT */
/* src/text/jinja/jinja.h -- templates: compiled once, rendered any number of times, by any number of threads.
 *
 * What is rendered is what jinja2 3.1 gives in the environment of Hugging Face's transformers: trim_blocks,
 * lstrip_blocks, the loopcontrols extension, {% generation %}, tojson that does not escape, and the globals
 * raise_exception and strftime_now. */
#ifndef QN_TEXT_JINJA_JINJA_H
#define QN_TEXT_JINJA_JINJA_H

#include "text/jinja/value.h"

#define QN_JINJA_MAX_BYTES ((size_t)64 << 20) /* of a compiled template, and of everything a rendering makes */

typedef struct qn_jinja qn_jinja;

/* format with line and column for what is no template, or uses what is not there. */
qn_status qn__jinja_compile(const char *source, size_t n, qn_jinja **out, qn_error *err);
void qn__jinja_destroy(qn_jinja *j);
/* Whether the template mentions that name anywhere (as a variable, attribute or argument). */
int qn__jinja_find_symbol(const qn_jinja *j, const char *name);

/* What {% generation %} blocks gave, as bytes of the result. */
typedef struct qn_jinja_spans {
    struct {
        uint32_t begin, end;
    } * item; /* of the rendering's heap */
    uint32_t n, cap;
    bool hidden; /* one stood in a macro or a captured text, where its place in the result is not known */
} qn_jinja_spans;

typedef struct qn_jinja_options {
    int64_t now;       /* seconds since 1970 that strftime_now shows, as UTC; 0: the time of the call */
    bool strict;       /* as jinja2's immutable sandbox: lists and dicts cannot be changed, generators have no length */
    int64_t max_steps; /* nodes that are evaluated, and twice as many elements and bytes looked at; 0: 10 million */
    size_t max_bytes;  /* 0: QN_JINJA_MAX_BYTES */
    qn_jinja_spans *generated; /* filled in; NULL: nobody asks */
} qn_jinja_options;

/* A rendering: `heap` is the caller's; variables are made in it, and the result lies there. */
void qn__jinja_heap_init(qn_heap *h, const qn_jinja_options *options, qn_error *err);
void qn__jinja_heap_deinit(qn_heap *h);
/* variables: a dict. The result is a string with its trust. h->status says whether it went well: invalid with the
 * line for what the template cannot compute, limit beyond the bounds, cancelled with the template's own message where
 * it called raise_exception. */
qn_val qn__jinja_render(const qn_jinja *j, qn_heap *h, const qn_vdict *variables, const qn_jinja_options *options);

#endif
