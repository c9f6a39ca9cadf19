/* SPDX-License-Identifier: MIT */
/* src/cpu/op/index/get_rows.c -- y[i,:] = table[ids[i],:] as float32, straight from blocks. Ids are checked before
 * they get here; one that is out of range all the same gives a row of zeros. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

#include <string.h>

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    const qn_node *table = node->src[0], *ids = node->src[1];
    return qn__want_loadable(kernels, node, "the table", table, err) &&
           qn__want_dtype(node, "the ids", ids, QN_DTYPE_I32, err);
}

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    (void)phase;
    *chunk = qn__chunk_of(4096, qn__row_size(&node->layout));
    return qn__row_count(&node->layout);
}

static void run(const qn_task *t)
{
    const qn_view *table = &t->src[0], *ids = &t->src[1];
    const int64_t m = qn__row_size(&t->dst.layout), n_rows = table->layout.dim[0];
    const int64_t id_step = qn__row_step(&ids->layout), step = qn__row_step(&table->layout);

    for (int64_t i = t->begin; i < t->end; i++) {
        int32_t id;
        memcpy(&id, ids->data + i * id_step * 4, 4);
        float *y = qn__row_f32(&t->dst, i);
        if (id >= 0 && id < n_rows)
            qn__row_load(t->kernels, table->dtype, qn__row_at(table, id), step, 0, m, y);
        else
            memset(y, 0, (size_t)m * 4);
    }
}

const qn_cpu_op qn__cpu_op_get_rows = {QN_OP_get_rows, accepts, NULL, 1, items, run};
