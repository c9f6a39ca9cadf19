/* SPDX-License-Identifier: MIT */
/* src/grad/table.c -- the rows of grads.def by operation. A row whose function is missing does not link. */
#include "grad/rows.h"

static const qn_grad_row rows[QN_OP_COUNT] = {
#define QN_GRAD(op, a, b, others) [QN_OP_##op] = {qn__grad_##op, {QN_KEEP_##a, QN_KEEP_##b, QN_KEEP_##others}},
#include "grad/grads.def"
#undef QN_GRAD
};

const qn_grad_row *qn__grad_row(qn_op op)
{
    static const qn_grad_row none;
    return (unsigned)op < QN_OP_COUNT ? &rows[op] : &none;
}
