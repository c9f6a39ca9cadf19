/* SPDX-License-Identifier: MIT */
/* src/text/jinja/tests.c -- what `is` asks. */
#include "text/jinja/rows.h"

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

qn_val qn__test_boolean(qn_call *c) { return qn__bool(c->self.type == QN_VAL_bool); }
qn_val qn__test_true(qn_call *c) { return qn__bool(c->self.type == QN_VAL_bool && c->self.b); }
qn_val qn__test_false(qn_call *c) { return qn__bool(c->self.type == QN_VAL_bool && !c->self.b); }
qn_val qn__test_defined(qn_call *c) { return qn__bool(!qn__is_undefined(c->self)); }
qn_val qn__test_undefined(qn_call *c) { return qn__bool(qn__is_undefined(c->self)); }
qn_val qn__test_none(qn_call *c) { return qn__bool(c->self.type == QN_VAL_none); }
qn_val qn__test_float(qn_call *c) { return qn__bool(c->self.type == QN_VAL_float); }
qn_val qn__test_integer(qn_call *c) { return qn__bool(c->self.type == QN_VAL_int || c->self.type == QN_VAL_big); }
qn_val qn__test_number(qn_call *c) { return qn__bool(qn__is_number(c->self) || c->self.type == QN_VAL_big); }
qn_val qn__test_string(qn_call *c) { return qn__bool(qn__is_str(c->self)); }
qn_val qn__test_mapping(qn_call *c) { return qn__bool(c->self.type == QN_VAL_dict); }
qn_val qn__test_escaped(qn_call *c) { return qn__bool(qn__is_str(c->self) && c->self.s->markup); }

qn_val qn__test_callable(qn_call *c)
{
    const qn_val_type t = c->self.type;
    return qn__bool(t == QN_VAL_function || t == QN_VAL_macro || t == QN_VAL_loop || t == QN_VAL_joiner ||
                    t == QN_VAL_undefined);
}

qn_val qn__test_iterable(qn_call *c)
{
    const qn_val_type t = c->self.type;
    return qn__bool(t == QN_VAL_str || t == QN_VAL_list || t == QN_VAL_dict || t == QN_VAL_undefined ||
                    t == QN_VAL_loop);
}

/* Has a length and elements: jinja2 asks for both, which views of dicts and generators do not have. */
qn_val qn__test_sequence(qn_call *c)
{
    const qn_val_type t = c->self.type;
    const bool list = t == QN_VAL_list && (c->self.l->kind <= QN_LIST_tuple || c->self.l->kind == QN_LIST_range);
    return qn__bool(t == QN_VAL_str || t == QN_VAL_dict || t == QN_VAL_undefined || list);
}

static qn_val remainder_is(qn_call *c, qn_val by, int64_t wanted)
{
    const qn_val rest = qn__val_binary(c->r, QN_J_mod, c->self, by);
    return c->h->status == QN_OK ? qn__bool(qn__val_equal(rest, qn__int(wanted))) : nothing();
}
qn_val qn__test_even(qn_call *c) { return remainder_is(c, qn__int(2), 0); }
qn_val qn__test_odd(qn_call *c) { return remainder_is(c, qn__int(2), 1); }
qn_val qn__test_divisibleby(qn_call *c) { return remainder_is(c, c->args[0], 0); }

qn_val qn__test_eq(qn_call *c) { return qn__bool(qn__val_compare_op(c->r, QN_J_eq, c->self, c->args[0])); }
qn_val qn__test_ne(qn_call *c) { return qn__bool(qn__val_compare_op(c->r, QN_J_ne, c->self, c->args[0])); }
qn_val qn__test_lt(qn_call *c) { return qn__bool(qn__val_compare_op(c->r, QN_J_lt, c->self, c->args[0])); }
qn_val qn__test_le(qn_call *c) { return qn__bool(qn__val_compare_op(c->r, QN_J_le, c->self, c->args[0])); }
qn_val qn__test_gt(qn_call *c) { return qn__bool(qn__val_compare_op(c->r, QN_J_gt, c->self, c->args[0])); }
qn_val qn__test_ge(qn_call *c) { return qn__bool(qn__val_compare_op(c->r, QN_J_ge, c->self, c->args[0])); }
qn_val qn__test_in(qn_call *c) { return qn__bool(qn__val_compare_op(c->r, QN_J_in, c->self, c->args[0])); }

/* The same object; small values are that when they are equal and of one type. */
qn_val qn__test_sameas(qn_call *c)
{
    const qn_val a = c->self, b = c->args[0];
    if (a.type != b.type) return qn__bool(false);
    if (a.type == QN_VAL_list || a.type == QN_VAL_dict || a.type > QN_VAL_dict) return qn__bool(a.p == b.p);
    return qn__bool(qn__val_equal(a, b));
}

static qn_val cased(qn_call *c, qn_call_fn is)
{
    qn_call method = {.r = c->r, .h = c->h, .self = qn__to_str(c->h, c->self)};
    return c->h->status == QN_OK ? is(&method) : nothing();
}
qn_val qn__test_lower(qn_call *c) { return cased(c, qn__method_str_islower); }
qn_val qn__test_upper(qn_call *c) { return cased(c, qn__method_str_isupper); }

qn_val qn__test_filter(qn_call *c) { return qn__bool(qn__is_str(c->self) && qn__filter_find(c->self.s->data)); }
qn_val qn__test_test(qn_call *c) { return qn__bool(qn__is_str(c->self) && qn__test_find(c->self.s->data)); }
