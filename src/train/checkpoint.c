/* SPDX-License-Identifier: MIT */
/* src/train/checkpoint.c -- a trainer as a safetensors file: NAME, NAME.m, NAME.v and NAME.best, all F32, and what else the next step
 * depends on as metadata. The order of windows and all random numbers follow from the seed and the step. */
#include "base/str.h"
#include "train/train.h"
#include <inttypes.h>
#include <quern/safetensors.h>
#include <stdio.h>
#include <string.h>

typedef enum part { VALUE, FIRST, SECOND, BEST, N_PARTS } part;
static const char *const suffixes[N_PARTS] = {"", ".m", ".v", ".best"};

static void *memory_of(const qn_train_param *p, part which)
{
    if (which == BEST) return p->best;
    return qn_data(which == VALUE ? p->value : which == FIRST ? p->m : p->v);
}

/* ---- save ---- */

static void write_meta(const qn_trainer *t, qn_safetensors_writer *w)
{
    char text[QN_TRAIN_TEXT_BYTES];
    qn_safetensors_write_meta(w, "format", "quern training checkpoint");
    if (qn__train_describe(&t->o, text, sizeof text)) qn_safetensors_write_meta(w, "options", text);
    snprintf(text, sizeof text, "%016" PRIx64, t->data.hash);
    qn_safetensors_write_meta(w, "text", text);
    snprintf(text, sizeof text, "%d", t->step);
    qn_safetensors_write_meta(w, "step", text);
    if (!t->has_best) return;
    snprintf(text, sizeof text, "%d", t->best_step);
    qn_safetensors_write_meta(w, "best_step", text);
    snprintf(text, sizeof text, "%.17g", t->best_bits);
    qn_safetensors_write_meta(w, "best_bits_per_byte", text);
}

qn_status qn_trainer_save(qn_trainer *t, const char *path, qn_error *err)
{
    const part end = t->has_best ? N_PARTS : BEST;
    qn_safetensors_writer *w = NULL;
    QN_TRY(qn_safetensors_writer_create(path, &w, err));
    write_meta(t, w);
    for (int32_t i = 0; i < t->n_params; i++) {
        const qn_shape shape = qn_shape_get(t->params[i].value);
        for (part which = VALUE; which < end; which++) {
            char name[80];
            snprintf(name, sizeof name, "%s%s", t->params[i].name, suffixes[which]);
            qn_safetensors_declare(w, name, QN_DTYPE_F32, &shape);
        }
    }
    for (int32_t i = 0; i < t->n_params; i++) {
        for (part which = VALUE; which < end; which++) {
            const void *data = memory_of(&t->params[i], which);
            if (!data) {
                qn_safetensors_writer_abort(w);
                return qn__train_failed(t, err);
            }
            qn_safetensors_write_data(w, data, (size_t)qn_numel(t->params[i].value) * sizeof(float));
        }
    }
    return qn_safetensors_writer_commit(w, err);
}

/* ---- load ---- */

static const char *meta(const qn_safetensors *f, const char *key)
{
    const qn_safetensors_meta *m = qn_safetensors_meta_find(f, key);
    return m && strlen(m->value) == m->len ? m->value : NULL;
}

typedef struct progress_made { int64_t step, best_step; double best_bits; bool has_best; } progress_made;

static qn_status read_meta(const qn_trainer *t, const qn_safetensors *f, const char *path, progress_made *out, qn_error *err)
{
    const char *format = meta(f, "format"), *options = meta(f, "options"), *text = meta(f, "text"), *step = meta(f, "step");
    const char *best_step = meta(f, "best_step"), *bits = meta(f, "best_bits_per_byte");
    char hash[24], why[256];
    if (!format || strcmp(format, "quern training checkpoint") != 0 || !options || !text || !step)
        return QN_FAIL(err, format, "%s is no checkpoint of a training: its metadata lack format, options, text or step", path);
    if (qn__train_differs(&t->o, options, why, sizeof why)) return QN_FAIL(err, invalid, "%s belongs to other options: %s", path, why);
    snprintf(hash, sizeof hash, "%016" PRIx64, t->data.hash);
    if (strcmp(hash, text) != 0) return QN_FAIL(err, invalid, "%s belongs to another text", path);
    out->has_best = best_step != NULL;
    if (!qn__parse_i64(step, 0, INT32_MAX, &out->step) ||
        (best_step && (!qn__parse_i64(best_step, 0, out->step, &out->best_step) || !bits || !qn__parse_f64(bits, 0, 1e9, &out->best_bits))))
        return QN_FAIL(err, format, "%s: step \"%.32s\" or its best is no number in range", path, step);
    return QN_OK;
}

/* Checks that all is there (to NULL), or copies it. */
static qn_status read_tensors(qn_trainer *t, const qn_safetensors *f, const char *path, part end, bool copy, qn_error *err)
{
    for (int32_t i = 0; i < t->n_params; i++) {
        const qn_shape shape = qn_shape_get(t->params[i].value);
        for (part which = VALUE; which < end; which++) {
            char name[80], want[192], have[192];
            snprintf(name, sizeof name, "%s%s", t->params[i].name, suffixes[which]);
            const qn_safetensors_tensor *tensor = qn_safetensors_tensor_find(f, name);
            if (!tensor) return QN_FAIL(err, format, "%s: tensor %s is missing", path, name);
            if (tensor->dtype != QN_DTYPE_F32 || !qn_shape_equal(&tensor->shape, &shape))
                return QN_FAIL(err, format, "%s: tensor %s is %s %s, F32 %s expected", path, name, tensor->type,
                               qn_shape_print(&tensor->shape, have, sizeof have), qn_shape_print(&shape, want, sizeof want));
            if (!copy) continue;
            void *data = memory_of(&t->params[i], which);
            if (!data) return qn__train_failed(t, err);
            QN_TRY(qn_safetensors_read(f, tensor, data, err));
        }
    }
    return QN_OK;
}

qn_status qn_trainer_load(qn_trainer *t, const char *path, qn_error *err)
{
    progress_made made = {0};
    qn_safetensors *f = NULL;
    QN_TRY(qn_safetensors_open(path, NULL, &f, err));
    qn_status status = read_meta(t, f, path, &made, err);
    const part end = made.has_best ? N_PARTS : BEST;
    if (status == QN_OK) status = read_tensors(t, f, path, end, false, err);
    if (status == QN_OK && made.has_best) status = qn__train_best_room(t, err);
    if (status == QN_OK) status = read_tensors(t, f, path, end, true, err);
    if (status == QN_OK) {
        t->step = (int32_t)made.step;
        t->has_best = made.has_best;
        t->best_step = (int32_t)made.best_step;
        t->best_bits = made.best_bits;
    }
    qn_safetensors_close(f);
    return status;
}
