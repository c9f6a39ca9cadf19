/* SPDX-License-Identifier: MIT */
/* src/nn/optim_state.c -- all that an optimizer knows, as named tensors, and in a file. Names count parameters in the
 * order in which they were added: "3.exp_avg" has the shape of parameter 3, "3.master" is its copy in F32. */
#include "nn/optim.h"
#include "nn/stored.h"

#include "base/mem.h"
#include <quern/safetensors.h>

#include <stdio.h>
#include <string.h>

/* ---- the list: rows and a master of each parameter, then "steps" and "groups" ---------------- */

static int rows_of(const qn_optimizer *o) { return o->method->rows(&o->rules); }
static bool has_master(const qn_optim_slot *s) { return s->target != s->param; }

int qn_optimizer_n_state(const qn_optimizer *o)
{
    int n = 2;
    for (int i = 0; i < o->n_slots; i++) n += rows_of(o) + has_master(&o->slots[i]);
    return n;
}

static qn_tensor *row_of(const qn_optim_slot *s, int row)
{
    qn_tensor *flat = qn_select(s->state, 0, row), *shaped = qn_view_as(flat, qn_shape_get(s->param));
    qn_release(flat);
    return shaped;
}

/* Replaces *t by a tensor of those bytes. */
static qn_tensor *renew(qn_optimizer *o, qn_tensor **t, const void *data, qn_shape shape, qn_dtype dtype)
{
    qn_tensor *fresh = qn_keep(qn__from_data_at(o->ctx, qn__place_of_host(o->ctx), data, shape, dtype));
    if (fresh == NULL) return NULL;
    qn_release(*t);
    return *t = fresh;
}

static qn_tensor *steps_of(qn_optimizer *o)
{
    int64_t *steps = qn__alloc((size_t)o->n_slots * sizeof *steps + 1);
    if (steps == NULL) {
        (void)QN_FAIL_NOMEM(qn__err(o->ctx), (size_t)o->n_slots * sizeof *steps);
        return NULL;
    }
    for (int i = 0; i < o->n_slots; i++) steps[i] = o->slots[i].step;
    qn_tensor *t = renew(o, &o->steps, steps, qn_shape_of(o->n_slots), QN_DTYPE_I64);
    qn__free(steps);
    return t;
}

static qn_tensor *groups_of(qn_optimizer *o)
{
    _Static_assert(sizeof(qn_optim_group) == 2 * sizeof(double), "a group is its two numbers");
    return renew(o, &o->settings, o->groups, qn_shape_of(o->n_groups, 2), QN_DTYPE_F64);
}

/* ---- one of them: a view that lives until the next is asked for ------------------------------ */

static qn_tensor *lend(qn_optimizer *o, qn_tensor *t)
{
    if (t == NULL) return NULL;
    qn_release(o->lent);
    return o->lent = qn_keep(t);
}

qn_tensor *qn_optimizer_state(qn_optimizer *o, int index, const char **name)
{
    int left = index;
    *name = o->name;
    for (int i = 0; i < o->n_slots && left >= 0; i++) {
        const qn_optim_slot *s = &o->slots[i];
        const int rows = rows_of(o);
        if (left < rows) {
            snprintf(o->name, sizeof o->name, "%d.%s", i, o->method->states[left]);
            return lend(o, row_of(s, left));
        }
        if (left == rows && has_master(s)) {
            snprintf(o->name, sizeof o->name, "%d.master", i);
            return s->target;
        }
        left -= rows + has_master(s);
    }
    if (left == 0 || left == 1) {
        snprintf(o->name, sizeof o->name, "%s", left == 0 ? "steps" : "groups");
        return left == 0 ? steps_of(o) : groups_of(o);
    }
    (void)QN_FAIL(qn__err(o->ctx), invalid, "optimizer: state %d of %d", index, qn_optimizer_n_state(o));
    return NULL;
}

/* Numbers come back from the tensors that qn_optimizer_state gave last. */
static qn_status read_numbers(qn_optimizer *o, int64_t *steps, double *groups)
{
    qn_error *err = qn__err(o->ctx);
    if (o->steps == NULL || o->settings == NULL || qn_numel(o->steps) != o->n_slots ||
        qn_numel(o->settings) != 2 * (int64_t)o->n_groups) {
        return QN_FAIL(err, state, "optimizer: its state has not been asked for since parameters were added");
    }
    QN_TRY(qn_to_ints(o->steps, steps, o->n_slots));
    QN_TRY(qn_to_doubles(o->settings, groups, 2 * (int64_t)o->n_groups));
    for (int i = 0; i < o->n_slots; i++) {
        if (steps[i] < 0)
            return QN_FAIL(err, format, "optimizer: parameter %d has taken %lld steps", i, (long long)steps[i]);
    }
    for (int i = 0; i < 2 * o->n_groups; i++) {
        if (!(groups[i] >= 0) || groups[i] > 1e300)
            return QN_FAIL(err, format, "optimizer: group %d has a rate or decay of %g", i / 2, groups[i]);
    }
    return QN_OK;
}

qn_status qn_optimizer_state_set(qn_optimizer *o)
{
    const size_t bytes = (size_t)o->n_slots * sizeof(int64_t) + (size_t)o->n_groups * 2 * sizeof(double);
    int64_t *steps = qn__alloc(bytes);
    if (steps == NULL) return QN_FAIL_NOMEM(qn__err(o->ctx), bytes);
    double *groups = (double *)(void *)(steps + o->n_slots);
    const qn_status status = read_numbers(o, steps, groups);
    for (int i = 0; i < o->n_slots && status == QN_OK; i++) o->slots[i].step = o->slots[i].settled = steps[i];
    for (int i = 0; i < o->n_groups && status == QN_OK; i++)
        o->groups[i] = (qn_optim_group){groups[2 * i], groups[2 * i + 1]};
    qn__free(steps);
    return status;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* What the context says went wrong, as the caller's error. */
static qn_status said(const qn_optimizer *o, qn_error *err)
{
    const qn_status status = qn__status(o->ctx);
    if (err != NULL) *err = *o->ctx->latest, err->status = status;
    return status;
}

static qn_status write_all(qn_optimizer *o, qn_safetensors_writer *w, qn_error *err)
{
    const int n = qn_optimizer_n_state(o);
    const char *name;
    qn_safetensors_write_meta(w, "optimizer", o->method->name);
    for (int i = 0; i < n; i++) {
        qn_tensor *t = qn_optimizer_state(o, i, &name);
        if (t == NULL) return said(o, err);
        const qn_shape shape = qn_shape_get(t);
        qn_safetensors_declare(w, name, qn_dtype_of(t), &shape);
    }
    for (size_t i; (i = qn_safetensors_writer_next(w)) < (size_t)n;) {
        qn_tensor *t = qn_optimizer_state(o, (int)i, &name);
        if (t == NULL) return said(o, err);
        QN_TRY(qn__values_write(t, w, err)); /* rows of a state lie together */
    }
    return qn_safetensors_writer_status(w, err);
}

qn_status qn_optimizer_save(qn_optimizer *o, const char *path, qn_error *err)
{
    qn_safetensors_writer *w = NULL;
    QN_TRY(qn_safetensors_writer_create(path, &w, err));
    const qn_status status = write_all(o, w, err);
    if (status == QN_OK) return qn_safetensors_writer_commit(w, err);
    qn_safetensors_writer_abort(w);
    return status;
}

static qn_status check_file(qn_optimizer *o, const qn_safetensors *file, const char *path, qn_error *err)
{
    const int n = qn_optimizer_n_state(o);
    const qn_safetensors_meta *kind = qn_safetensors_meta_find(file, "optimizer");
    char a[192], b[192];
    if (kind == NULL || strcmp(kind->value, o->method->name) != 0) {
        return QN_FAIL(err, invalid, "%s: the state of %s, %s expected", path,
                       kind == NULL ? "no optimizer" : "another optimizer", o->method->name);
    }
    if (qn_safetensors_n_tensors(file) != (size_t)n) {
        return QN_FAIL(err, invalid, "%s: %zu tensors, %d expected", path, qn_safetensors_n_tensors(file), n);
    }
    for (int i = 0; i < n; i++) {
        const char *name;
        qn_tensor *t = qn_optimizer_state(o, i, &name);
        if (t == NULL) return said(o, err);
        const qn_safetensors_tensor *in = qn_safetensors_tensor_find(file, name);
        if (in == NULL) return QN_FAIL(err, invalid, "%s: there is no %s", path, name);
        const qn_shape shape = qn_shape_get(t);
        if (in->dtype == qn_dtype_of(t) && qn_shape_equal(&in->shape, &shape)) continue;
        return QN_FAIL(err, invalid, "%s: %s is %s %s, %s %s expected", path, name, in->type,
                       qn_shape_print(&in->shape, a, sizeof a), qn_dtype_get(qn_dtype_of(t))->name,
                       qn_shape_print(&shape, b, sizeof b));
    }
    return QN_OK;
}

/* Number i, from the file. The tensor lies in memory and nothing is pending: no more can go wrong here than in asking
 * for it. */
static qn_status take(qn_optimizer *o, const qn_safetensors *file, int i, qn_error *err)
{
    const char *name;
    qn_tensor *t = qn_optimizer_state(o, i, &name);
    if (t == NULL) return said(o, err);
    return qn__values_read(t, file, qn_safetensors_tensor_find(file, name), err);
}

static qn_status take_all(qn_optimizer *o, const qn_safetensors *file, qn_error *err)
{
    const int n = qn_optimizer_n_state(o);
    if (qn_eval_all(o->ctx) != QN_OK) return said(o, err);
    QN_TRY(take(o, file, n - 2, err)); /* numbers first: they may be refused */
    QN_TRY(take(o, file, n - 1, err));
    if (qn_optimizer_state_set(o) != QN_OK) return said(o, err);
    for (int i = 0; i < n - 2; i++) QN_TRY(take(o, file, i, err));
    for (int i = 0; i < o->n_slots; i++) {
        if (!has_master(&o->slots[i])) continue;
        const bool was = qn_set_grad_enabled(o->ctx, false); /* the parameter follows its master */
        qn_tensor *p = qn_copy_(o->slots[i].param, o->slots[i].target);
        qn_set_grad_enabled(o->ctx, was);
        if (p == NULL) return said(o, err);
        qn__optim_agree(&o->slots[i]);
    }
    return QN_OK;
}

qn_status qn_optimizer_load(qn_optimizer *o, const char *path, qn_error *err)
{
    qn_safetensors *file = NULL;
    QN_TRY(qn_safetensors_open(path, NULL, &file, err));
    qn_status status = check_file(o, file, path, err);
    if (status == QN_OK) status = take_all(o, file, err);
    qn_safetensors_close(file);
    return status;
}
