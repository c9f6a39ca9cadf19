/* SPDX-License-Identifier: MIT */
/* src/train/checkpoint.c -- a trainer as a safetensors file: the weights, the optimizer's state, the best weights, and
 * what else the next step depends on as metadata (docs/FORMATS.md). The order of windows and all random numbers follow
 * from the seed and the step. */
#include "base/str.h"
#include "nn/stored.h"
#include "train/train.h"
#include <inttypes.h>
#include <quern/safetensors.h>
#include <stdio.h>
#include <string.h>

/* One tensor of the file, and where it lies here. */
typedef struct entry {
    char name[96];
    qn_dtype dtype;
    qn_shape shape;
    size_t bytes;
    void *data;        /* of the best weights, or */
    qn_tensor *tensor; /* NULL for those */
} entry;

static int n_entries(const qn_trainer *t, bool best)
{
    return t->n_params * (best ? 2 : 1) + qn_optimizer_n_state(t->optimizer);
}

static bool entry_get(qn_trainer *t, int i, entry *e)
{
    const int n_state = qn_optimizer_n_state(t->optimizer);
    qn_tensor *tensor;
    if (i >= t->n_params && i < t->n_params + n_state) {
        const char *name;
        tensor = qn_optimizer_state(t->optimizer, i - t->n_params, &name);
        snprintf(e->name, sizeof e->name, "optimizer.%s", name);
    } else {
        const qn_train_param *p = &t->params[i < t->n_params ? i : i - t->n_params - n_state];
        tensor = p->value;
        snprintf(e->name, sizeof e->name, "%s%s", p->name, i < t->n_params ? "" : ".best");
    }
    if (!tensor) return false;
    const bool best = i >= t->n_params + n_state;
    e->dtype = best ? QN_DTYPE_F32 : qn_dtype_of(tensor);
    e->shape = qn_shape_get(tensor);
    e->bytes = (size_t)qn_numel(tensor) * (size_t)qn_dtype_get(e->dtype)->block_bytes;
    e->data = best ? t->params[i - t->n_params - n_state].best : NULL;
    e->tensor = best ? NULL : tensor;
    return !best || e->data;
}

/* ---- whose it is ---- */

/* What a checkpoint and a trainer must have in common, each under a key of its own, so that an error can say which. */
typedef struct share {
    const char *key, *other; /* "... belongs to another base model" */
    uint64_t hash;
    bool has; /* this trainer */
} share;
enum { N_SHARES = 5 };

/* In the order in which they are compared: each of the others may change the text's tokens too. */
static void shares_of(const qn_trainer *t, share out[N_SHARES], qn_lora_identity *lora)
{
    if (t->lora) qn__lora_identity(t->lora, lora);
    const share all[N_SHARES] = {
        {"base", "another base model", lora->base, t->lora != NULL},
        {"targets", "an adapter of other layers (lora-targets)", lora->targets, t->lora != NULL},
        {"template", "another chat template", t->data.template_hash, true},
        {"special", "other special tokens, or another one that ends a text", t->data.special_hash, true},
        {"text", "another text", t->data.text_hash, true},
    };
    memcpy(out, all, sizeof all);
}

static void print_hash(char out[20], uint64_t hash) { snprintf(out, 20, "%016" PRIx64, hash); }

/* ---- save ---- */

static void write_meta(const qn_trainer *t, qn_safetensors_writer *w)
{
    char text[QN_TRAIN_TEXT_BYTES];
    qn_safetensors_write_meta(w, "format", "quern training checkpoint");
    if (qn__train_describe(&t->o, text, sizeof text)) qn_safetensors_write_meta(w, "options", text);
    qn_lora_identity lora = {0};
    share shares[N_SHARES];
    shares_of(t, shares, &lora);
    for (int i = 0; i < N_SHARES; i++) {
        print_hash(text, shares[i].hash);
        if (shares[i].has) qn_safetensors_write_meta(w, shares[i].key, text);
    }
    if (t->lora) qn_safetensors_write_meta(w, "adapter", lora.options);
    snprintf(text, sizeof text, "%d", t->step);
    qn_safetensors_write_meta(w, "step", text);
    if (!t->has_best) return;
    snprintf(text, sizeof text, "%d", t->best_step);
    qn_safetensors_write_meta(w, "best_step", text);
    qn__format(text, sizeof text, "%.17g", t->best_bits);
    qn_safetensors_write_meta(w, "best_bits_per_byte", text);
}

qn_status qn_trainer_save(qn_trainer *t, const char *path, qn_error *err)
{
    const int n = n_entries(t, t->has_best);
    qn_safetensors_writer *w = NULL;
    QN_TRY(qn_safetensors_writer_create(path, &w, err));
    entry e;
    bool good = true;
    write_meta(t, w);
    for (int i = 0; i < n && good; i++) {
        good = entry_get(t, i, &e);
        if (good) qn_safetensors_declare(w, e.name, e.dtype, &e.shape);
    }
    for (size_t i; good && (i = qn_safetensors_writer_next(w)) < (size_t)n;) {
        good = entry_get(t, (int)i, &e);
        if (good && e.tensor) good = qn__values_write(e.tensor, w, NULL) == QN_OK;
        if (good && !e.tensor) qn_safetensors_write_data(w, e.data, e.bytes);
    }
    if (good) return qn_safetensors_writer_commit(w, err);
    qn_safetensors_writer_abort(w);
    return qn__train_failed(t, err);
}

/* ---- load ---- */

static const char *meta(const qn_safetensors *f, const char *key)
{
    const qn_safetensors_meta *m = qn_safetensors_meta_find(f, key);
    return m && strlen(m->value) == m->len ? m->value : NULL;
}

typedef struct progress_made {
    int64_t step, best_step;
    double best_bits;
    bool has_best;
} progress_made;

/* A file from before these were apart has one hash of all. */
static qn_status check_joined(const qn_trainer *t, const char *text, const char *path, qn_error *err)
{
    char hash[20];
    print_hash(hash, t->data.joined_hash);
    if (strcmp(hash, text) == 0) return QN_OK;
    return QN_FAIL(err, invalid, "%s belongs to another text%s", path,
                   t->lora ? ", or to another base model, chat template or lora-alpha"
                           : ", chat template or other special tokens");
}

static qn_status check_shares(const qn_trainer *t, const qn_safetensors *f, const char *path, qn_error *err)
{
    qn_lora_identity lora = {0};
    share shares[N_SHARES];
    char hash[20], why[256];
    if (!meta(f, "special")) return check_joined(t, meta(f, "text"), path, err);
    const char *adapter = meta(f, "adapter");
    if (!t->lora != !adapter)
        return QN_FAIL(err, invalid, "%s belongs to %s", path, adapter ? "an adapter (--lora)" : "a model, no adapter");
    shares_of(t, shares, &lora);
    if (adapter && qn__train_differs(lora.options, adapter, why, sizeof why))
        return QN_FAIL(err, invalid, "%s belongs to other options: %s", path, why);
    for (int i = 0; i < N_SHARES; i++) {
        const char *theirs = meta(f, shares[i].key);
        print_hash(hash, shares[i].hash);
        if (shares[i].has && (!theirs || strcmp(hash, theirs) != 0))
            return QN_FAIL(err, invalid, "%s belongs to %s", path, shares[i].other);
    }
    return QN_OK;
}

static qn_status read_meta(const qn_trainer *t, const qn_safetensors *f, const char *path, progress_made *out,
                           qn_error *err)
{
    const char *format = meta(f, "format"), *options = meta(f, "options"), *text = meta(f, "text"),
               *step = meta(f, "step");
    const char *best_step = meta(f, "best_step"), *bits = meta(f, "best_bits_per_byte");
    char own[QN_TRAIN_TEXT_BYTES], why[256];
    if (!format || strcmp(format, "quern training checkpoint") != 0 || !options || !text || !step)
        return QN_FAIL(err, format,
                       "%s is no checkpoint of a training: its metadata lack format, options, text or step", path);
    if (!qn__train_describe(&t->o, own, sizeof own)) own[0] = '\0';
    if (qn__train_differs(own, options, why, sizeof why))
        return QN_FAIL(err, invalid, "%s belongs to other options: %s", path, why);
    QN_TRY(check_shares(t, f, path, err));
    out->has_best = best_step != NULL;
    if (!qn__parse_i64(step, 0, INT32_MAX, &out->step) ||
        (best_step && (!qn__parse_i64(best_step, 0, out->step, &out->best_step) || !bits ||
                       !qn__parse_f64(bits, 0, 1e9, &out->best_bits))))
        return QN_FAIL(err, format, "%s: step \"%.32s\" or its best is no number in range", path, step);
    return QN_OK;
}

/* Checks that number i is there, or copies it. */
static qn_status read_tensor(qn_trainer *t, const qn_safetensors *f, const char *path, int i, bool copy, qn_error *err)
{
    entry e;
    char want[192], have[192];
    if (!entry_get(t, i, &e)) return qn__train_failed(t, err);
    const qn_safetensors_tensor *tensor = qn_safetensors_tensor_find(f, e.name);
    if (!tensor) return QN_FAIL(err, format, "%s: tensor %s is missing", path, e.name);
    if (tensor->dtype != e.dtype || !qn_shape_equal(&tensor->shape, &e.shape))
        return QN_FAIL(err, format, "%s: tensor %s is %s %s, %s %s expected", path, e.name, tensor->type,
                       qn_shape_print(&tensor->shape, have, sizeof have), qn_dtype_get(e.dtype)->name,
                       qn_shape_print(&e.shape, want, sizeof want));
    if (!copy) return QN_OK;
    return e.tensor ? qn__values_read(e.tensor, f, tensor, err) : qn_safetensors_read(f, tensor, e.data, err);
}

/* Everything is looked at before anything is copied; and the optimizer's numbers come first, which may be refused. */
static qn_status read_tensors(qn_trainer *t, const qn_safetensors *f, const char *path, bool best, qn_error *err)
{
    /* the last two of its tensors */
    const int n = n_entries(t, best), numbers = t->n_params + qn_optimizer_n_state(t->optimizer) - 2;
    for (int i = 0; i < n; i++) QN_TRY(read_tensor(t, f, path, i, false, err));
    for (int i = numbers; i < numbers + 2; i++) QN_TRY(read_tensor(t, f, path, i, true, err));
    if (qn_optimizer_state_set(t->optimizer) != QN_OK) return qn__train_failed(t, err);
    for (int i = 0; i < n; i++) {
        if (i < numbers || i >= numbers + 2) QN_TRY(read_tensor(t, f, path, i, true, err));
    }
    return QN_OK;
}

qn_status qn_trainer_load(qn_trainer *t, const char *path, qn_error *err)
{
    progress_made made = {0};
    qn_safetensors *f = NULL;
    QN_TRY(qn_safetensors_open(path, NULL, &f, err));
    qn_status status = read_meta(t, f, path, &made, err);
    if (status == QN_OK && made.has_best) status = qn__train_best_room(t, err);
    if (status == QN_OK) status = read_tensors(t, f, path, made.has_best, err);
    if (status == QN_OK) qn__train_set_decay(t); /* not of the file, but of these options */
    if (status == QN_OK) {
        t->step = (int32_t)made.step;
        t->has_best = made.has_best;
        t->best_step = (int32_t)made.best_step;
        t->best_bits = made.best_bits;
    }
    qn_safetensors_close(f);
    return status;
}
