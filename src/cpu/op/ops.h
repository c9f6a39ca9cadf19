/* SPDX-License-Identifier: MIT */
/* src/cpu/op/ops.h -- the table of drivers, one row for each compute or update op of ops.def. A row without a driver
 * does not link. */
#ifndef QN_CPU_OP_OPS_H
#define QN_CPU_OP_OPS_H

#include "cpu/op/driver.h"

#define QN_CPU_OP_DECL_leaf(name)
#define QN_CPU_OP_DECL_view(name)
#define QN_CPU_OP_DECL_transfer(name)
#define QN_CPU_OP_DECL_compute(name)                                        extern const qn_cpu_op qn__cpu_op_##name;
#define QN_CPU_OP_DECL_update(name)                                         extern const qn_cpu_op qn__cpu_op_##name;
#define QN_OP(name, kind, min, max, attrs, rule, over, follows, cost, text) QN_CPU_OP_DECL_##kind(name)
#include "graph/ops.def"
#undef QN_OP

bool qn__cpu_linear_shares(const qn_kernels *kernels, const qn_node *a, const qn_node *b);
bool qn__cpu_linear_experts_shares(const qn_kernels *kernels, const qn_node *a, const qn_node *b);

#endif
