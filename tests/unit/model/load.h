/* SPDX-License-Identifier: MIT */
/* tests/unit/model/load.h -- a tiny model with one thing changed, written, opened and loaded. */
#ifndef QN_TEST_MODEL_LOAD_H
#define QN_TEST_MODEL_LOAD_H

#include "tiny.h"
#include "model/arch.h"
#include "base/mem.h"

/* Writes the model, loads it and closes everything; the hyperparameters stay. Nothing may stay allocated. */
static inline qn_status load_tiny(const tiny *t, int32_t n_tokens, qn_hparams *hp, qn_error *e)
{
    const char *path = tiny_path("model.gguf");
    qn_gguf *file = NULL;
    qn_model *model = NULL;
    qn_metrics before, after;
    MUST(tiny_write(path, t, err));
    qn_metrics_snapshot(&before);
    MUST(qn_gguf_open(path, NULL, &file, err));
    const qn_status status = qn__model_load(file, n_tokens, &model, e);
    if (status == QN_OK && hp) *hp = model->hp;
    if (status != QN_OK) assert_null(model);
    qn__model_free(model);
    qn_gguf_close(file);
    qn_metrics_snapshot(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    return status;
}

#endif
