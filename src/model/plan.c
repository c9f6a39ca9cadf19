/* SPDX-License-Identifier: MIT */
/* src/model/plan.c -- models that no file holds: a header is written to memory and read as every file is, so that what
 * is possible, and what an error says, is the same. */
#include "format/gguf_writer.h"
#include "model/arch.h"
#include <stdio.h>
#include <string.h>

qn_status qn__model_detach(qn_model *m, qn_error *err)
{
    for (int32_t i = 0; i < m->n_weights; i++) {
        qn_weight *w = &m->weights[i];
        w->name = qn__arena_strdup(&m->arena, w->name);
        w->tensor = NULL;
        if (!w->name) return QN_FAIL(err, nomem, "out of memory for the names of %d tensors", m->n_weights);
    }
    m->given.n_layer = qn__n_stored(&m->hp); /* those that were left alone are not there any more */
    m->given.n_layer_nextn = 0;
    m->file = NULL;
    return QN_OK;
}

static void declare(const qn_model_plan *plan, const qn_hparams *hp, qn_gguf_writer *w)
{
    for (int layer = -1; layer < (int)qn__n_stored(hp); layer++) {
        const qn_layer_hp l = qn__layer_hp(hp, layer < 0 ? 0 : (uint32_t)layer);
        for (int r = 0; r < plan->arch->n_tensors; r++) {
            const qn_tensor_row *row = &plan->arch->tensors[r];
            if (row->layer != (layer >= 0) || !qn__tensor_row_in(row, hp, &l)) continue;
            if ((row->flags & (W_MAY_LACK | W_TIED)) && !plan->has(plan->arg, row)) continue;
            char name[96];
            if (row->layer)
                snprintf(name, sizeof name, row->name, layer);
            else
                snprintf(name, sizeof name, "%s", row->name);
            const qn_shape shape = qn__tensor_row_shape(row, hp, &l);
            if (qn_shape_numel(&shape) == 0) continue; /* an option that was not given */
            qn_gguf_declare(w, name, QN_DTYPE_F32, &shape);
        }
    }
}

static qn_status write_header(const qn_model_plan *plan, qn_gguf_writer *w, qn_error *err)
{
    qn_hparams hp = plan->given;
    const qn_model numbers = {.arch = plan->arch, .given = plan->given};
    QN_TRY(qn__hparams_check(plan->arch, &hp, err));
    QN_TRY(qn__hparams_settle(plan->arch, &hp, err));
    qn_gguf_write_str(w, "general.architecture", plan->arch->name);
    qn__hparams_write(&numbers, w);
    declare(plan, &hp, w);
    return QN_OK;
}

static qn_status make_header(const qn_model_plan *plan, qn_str *out, qn_error *err)
{
    qn_gguf_writer *w = NULL;
    QN_TRY(qn__gguf_writer_create_memory(&w, err));
    const qn_status status = write_header(plan, w, err);
    if (status == QN_OK) return qn__gguf_writer_take_header(w, out, err);
    qn_gguf_writer_abort(w);
    return status;
}

qn_status qn__model_plan(const qn_model_plan *plan, qn_model **out, qn_error *err)
{
    qn_gguf *file = NULL;
    qn_model *m = NULL;
    qn_str header = {0};
    qn_status status = make_header(plan, &header, err);
    if (status == QN_OK)
        status = qn_gguf_open_memory(header.data, header.len, &(qn_gguf_options){.metadata_only = true}, &file, err);
    if (status == QN_OK) status = qn__model_load(file, 0, &m, err);
    if (status == QN_OK) status = qn__model_detach(m, err);
    qn_gguf_close(file);
    qn__str_deinit(&header);
    if (status == QN_OK)
        *out = m;
    else
        qn__model_free(m);
    return status;
}
