/* SPDX-License-Identifier: MIT */
/* src/cpu/op/ops.c -- op number to driver. */
#include "cpu/op/ops.h"

#define QN_CPU_OP_ROW_leaf(name)
#define QN_CPU_OP_ROW_view(name)
#define QN_CPU_OP_ROW_transfer(name)
#define QN_CPU_OP_ROW_compute(name)                                         [QN_OP_##name] = &qn__cpu_op_##name,
#define QN_CPU_OP_ROW_update(name)                                          [QN_OP_##name] = &qn__cpu_op_##name,
#define QN_OP(name, kind, min, max, attrs, rule, over, follows, cost, text) QN_CPU_OP_ROW_##kind(name)
static const qn_cpu_op *const ops[QN_OP_COUNT] = {
#include "graph/ops.def"
};
#undef QN_OP

const qn_cpu_op *qn__cpu_op(qn_op op) { return op >= 0 && op < QN_OP_COUNT ? ops[op] : NULL; }

static const qn_cpu_shares_fn shares[QN_OP_COUNT] = {
    [QN_OP_linear] = qn__cpu_linear_shares, [QN_OP_linear_experts] = qn__cpu_linear_experts_shares};

qn_cpu_shares_fn qn__cpu_shares(qn_op op) { return op >= 0 && op < QN_OP_COUNT ? shares[op] : NULL; }
