/* SPDX-License-Identifier: MIT */
/* src/text/jinja/rows.h -- the functions that the rows of filters.def, tests.def, methods.def and functions.def name. A
 * row without one does not link. */
#ifndef QN_TEXT_JINJA_ROWS_H
#define QN_TEXT_JINJA_ROWS_H

#include "text/jinja/call.h"

#define QN_FILTER(name, fn, required, params)          qn_val qn__filter_##fn(qn_call *c);
#define QN_TEST(name, fn, required, params)            qn_val qn__test_##fn(qn_call *c);
#define QN_METHOD(of, name, required, params, changes) qn_val qn__method_##of##_##name(qn_call *c);
#define QN_FUNCTION(name, required, params)            qn_val qn__function_##name(qn_call *c);
#include "text/jinja/filters.def"
#include "text/jinja/functions.def"
#include "text/jinja/methods.def"
#include "text/jinja/tests.def"
#undef QN_FILTER
#undef QN_TEST
#undef QN_METHOD
#undef QN_FUNCTION

/* Shared by filters and methods of strings (strings.c). */
typedef enum qn_case {
    QN_CASE_lower,
    QN_CASE_upper,
    QN_CASE_fold,
    QN_CASE_title,
    QN_CASE_capital,
    QN_CASE_swap
} qn_case;
qn_val qn__change_case(qn_heap *h, const qn_vstr *s, qn_case how);
/* chars NULL: white space. */
qn_val qn__str_strip(qn_heap *h, const qn_vstr *s, const qn_vstr *chars, bool left, bool right);
qn_val qn__str_replace(qn_heap *h, const qn_vstr *s, const qn_vstr *old, const qn_vstr *by, int64_t count);
qn_val qn__str_pad(qn_heap *h, const qn_vstr *s, int64_t before, int64_t after, const qn_vstr *fill);
qn_vlist *qn__split_lines(qn_heap *h, const qn_vstr *s, bool keep_ends);

/* Shared by filters (filters_seq.c): stable; keys[n] and values[n] move together, spare[2 n]. */
typedef int (*qn_order_fn)(qn_heap *h, qn_val a, qn_val b);
void qn__val_sort(qn_heap *h, qn_val *keys, qn_val *values, qn_val *spare, uint32_t n, bool reverse,
                  qn_order_fn order_of);

#endif
