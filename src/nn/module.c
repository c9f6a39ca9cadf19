/* SPDX-License-Identifier: MIT */
/* src/nn/module.c -- modules: made, put together, ended, and computed. */
#include "nn/module.h"

#include <string.h>

/* ---- life ---- */

qn_module *qn_module_create(qn_context *ctx, const qn_module_type *type)
{
    if (ctx == NULL) return NULL;
    if (type->min_inputs < 0 || type->min_inputs > type->max_inputs || type->max_inputs > QN_MODULE_INPUTS) {
        (void)QN_FAIL(qn__err(ctx), invalid, "%s: %d to %d inputs, at most %d are possible", type->name,
                      type->min_inputs, type->max_inputs, QN_MODULE_INPUTS);
        return NULL;
    }
    const size_t head = qn__align_up(sizeof(qn_module), QN_ALIGN_CPU);
    qn_module *m = type->state_bytes <= SIZE_MAX - head ? qn__calloc(1, head + type->state_bytes) : NULL;
    if (m == NULL) {
        (void)QN_FAIL_NOMEM(qn__err(ctx), head + type->state_bytes);
        return NULL;
    }
    m->ctx = ctx;
    qn__context_hold(ctx);
    m->type = type;
    m->refs = 1;
    m->training = true;
    m->state = (char *)m + head;
    return m;
}

qn_module *qn_module_retain(qn_module *m)
{
    if (m != NULL) m->refs++;
    return m;
}

void qn_module_destroy(qn_module *m)
{
    if (m == NULL || --m->refs > 0) return;
    if (m->type->destroy != NULL) m->type->destroy(m);
    for (int i = 0; i < m->n_children; i++) {
        qn_module *child = m->children[i].module;
        if (child->parent == m) child->parent = NULL;
        qn_module_destroy(child);
        qn__free(m->children[i].name);
    }
    for (int i = 0; i < m->n_tensors; i++) {
        qn_release(m->tensors[i].tensor);
        qn__free(m->tensors[i].name);
    }
    qn__context_let_go(m->ctx);
    qn__free(m->children);
    qn__free(m->tensors);
    qn__free(m);
}

qn_module *qn_module_ready(qn_module *m)
{
    if (m == NULL || !m->failed) return m;
    qn_module_destroy(m);
    return NULL;
}

/* ---- adding ---- */

static bool name_is_free(const qn_module *m, const char *what, const char *name)
{
    char quoted[96];
    const char *fault = name == NULL || *name == '\0' ? "the name is empty"
                        : strchr(name, '.') != NULL   ? "the name has a dot"
                                                      : NULL;
    for (int i = 0; fault == NULL && i < m->n_tensors; i++) {
        if (strcmp(m->tensors[i].name, name) == 0) fault = "there is a tensor of that name";
    }
    for (int i = 0; fault == NULL && i < m->n_children; i++) {
        if (strcmp(m->children[i].name, name) == 0) fault = "there is a module of that name";
    }
    if (fault == NULL) return true;
    QN_MODULE_FAIL(m, invalid, "%s: %s \"%s\": %s", m->type->name, what,
                   qn__str_quote(quoted, sizeof quoted, name != NULL ? name : "", name != NULL ? strlen(name) : 0),
                   fault);
    return false;
}

/* A name, and room for one more in an array of `size`-byte entries. */
static char *make_room(qn_module *m, const char *name, void **entries, int n, int *cap, size_t size)
{
    if (n == *cap) {
        const int more = *cap > 0 ? 2 * *cap : 4;
        void *grown = qn__realloc(*entries, (size_t)more * size);
        if (grown == NULL) {
            (void)QN_FAIL_NOMEM(qn__err(m->ctx), (size_t)more * size);
            return NULL;
        }
        *entries = grown;
        *cap = more;
    }
    char *copy = qn__strdup(name);
    if (copy == NULL) (void)QN_FAIL_NOMEM(qn__err(m->ctx), strlen(name) + 1);
    return copy;
}

/* One reference of ours: that of the scope t lives in, or one more when it lives outside of scopes. */
static void take(qn_tensor *t)
{
    if (of(t)->scope == &of(t)->ctx->kept)
        (void)qn_retain(t);
    else
        (void)qn_keep(t);
}

/* May t be that kind of tensor in m? Makes a parameter want its gradient. */
static bool suits(qn_module *m, const char *name, qn_tensor *t, qn_named_kind kind)
{
    if (!LIVE(t)) return false;
    if (of(t)->ctx != m->ctx)
        return QN_MODULE_FAIL(m, invalid, "%s: \"%s\" belongs to another context", m->type->name, name), false;
    if (!qn_is_leaf(t)) {
        QN_MODULE_FAIL(m, state, "%s: \"%s\" was computed from a leaf; detach it first", m->type->name, name);
        return false;
    }
    const qn_dtype_class class_ = qn_dtype_get(qn_dtype_of(t))->class_;
    if (kind == QN_NAMED_buffer || class_ == QN_CLASS_block) return true;
    if (class_ == QN_CLASS_real) return qn_requires_grad_(t, true) != NULL;
    QN_MODULE_FAIL(m, invalid, "%s: the parameter \"%s\" is %s, a real dtype or a block format expected", m->type->name,
                   name, qn_dtype_get(qn_dtype_of(t))->name);
    return false;
}

static qn_tensor *add_tensor(qn_module *m, const char *name, qn_tensor *t, qn_named_kind kind)
{
    if (m == NULL) return NULL;
    const char *what = kind == QN_NAMED_parameter ? "parameter" : "buffer";
    char *copy = NULL;
    void *entries = m->tensors;
    if (name_is_free(m, what, name) && suits(m, name, t, kind)) {
        copy = make_room(m, name, &entries, m->n_tensors, &m->cap_tensors, sizeof(qn_named));
        m->tensors = entries;
    }
    if (copy == NULL) {
        m->failed = true;
        return NULL;
    }
    take(t);
    m->tensors[m->n_tensors++] = (qn_named){copy, t, kind};
    return t;
}

qn_tensor *qn_module_add_parameter(qn_module *m, const char *name, qn_tensor *t)
{
    return add_tensor(m, name, t, QN_NAMED_parameter);
}
qn_tensor *qn_module_add_buffer(qn_module *m, const char *name, qn_tensor *t)
{
    return add_tensor(m, name, t, QN_NAMED_buffer);
}

qn_tensor *qn__add_empty(qn_module *m, const char *name, qn_shape shape)
{
    return m != NULL ? add_tensor(m, name, qn_empty(m->ctx, shape, QN_DTYPE_F32), QN_NAMED_parameter) : NULL;
}

static bool holds(const qn_module *tree, const qn_module *m)
{
    if (tree == m) return true;
    for (int i = 0; i < tree->n_children; i++) {
        if (holds(tree->children[i].module, m)) return true;
    }
    return false;
}

qn_module *qn_module_add_module(qn_module *m, const char *name, qn_module *child)
{
    char *copy = NULL;
    if (m != NULL && child != NULL && name_is_free(m, "module", name)) {
        void *entries = m->children;
        if (child->ctx != m->ctx)
            QN_MODULE_FAIL(m, invalid, "%s: module \"%s\" belongs to another context", m->type->name, name);
        else if (holds(child, m))
            QN_MODULE_FAIL(m, invalid, "%s: module \"%s\" holds the module that it is added to", m->type->name, name);
        else if (child->failed)
            QN_MODULE_FAIL(m, state, "%s: module \"%s\" could not be made", m->type->name, name);
        else {
            copy = make_room(m, name, &entries, m->n_children, &m->cap_children, sizeof(qn_child));
            m->children = entries;
        }
    }
    if (copy == NULL) {
        if (m != NULL) m->failed = true;
        qn_module_destroy(child);
        return NULL;
    }
    if (child->parent == NULL) child->parent = m;
    m->children[m->n_children++] = (qn_child){copy, child};
    return child;
}

qn_status qn_module_set_tensor(qn_module *m, const char *path, qn_tensor *t)
{
    if (m == NULL || t == NULL) return QN_STATUS_invalid;
    qn_named *slot = qn__slot_find(m, path);
    char quoted[96];
    if (slot == NULL) {
        return qn_context_fail(m->ctx, QN_STATUS_invalid, "%s: there is no tensor \"%s\"", m->type->name,
                               qn__str_quote(quoted, sizeof quoted, path, strlen(path)));
    }
    if (!suits(m, slot->name, t, slot->kind)) return qn__status(m->ctx);
    take(t);
    qn_release(slot->tensor);
    slot->tensor = t;
    return QN_OK;
}

/* ---- computing ---- */

const char *qn__module_path(const qn_module *m, char text[QN_PATH_TEXT])
{
    size_t at = QN_PATH_TEXT - 1;
    text[at] = '\0';
    for (; m->parent != NULL; m = m->parent) {
        const qn_module *p = m->parent;
        int i = 0;
        while (i < p->n_children - 1 && p->children[i].module != m) i++;
        const size_t n = strlen(p->children[i].name), dot = text[at] != '\0';
        if (n + dot > at) break; /* an absurdly deep tree: the end of the path will do */
        if (dot) text[--at] = '.';
        at -= n;
        memcpy(text + at, p->children[i].name, n);
    }
    return text + at;
}

/* The innermost module is named, by its path. */
static void blame(const qn_module *m)
{
    qn_error *err = &m->ctx->error;
    char text[QN_PATH_TEXT];
    if (err->status == QN_OK) {
        (void)qn_context_fail(m->ctx, QN_STATUS_internal, "forward gave neither a tensor nor an error");
    }
    if (strncmp(err->text, "module ", 7) == 0) return;
    const char *path = qn__module_path(m, text);
    (void)qn__prefix(err, err->status, "module %s%s%s", path, *path != '\0' ? " " : "", m->type->name);
}

static int min_inputs(const qn_module *m) { return m->type->max_inputs == 0 ? 1 : m->type->min_inputs; }
static int max_inputs(const qn_module *m) { return m->type->max_inputs == 0 ? 1 : m->type->max_inputs; }

static bool inputs_fit(const qn_module *m, qn_tensor *const *x, int n)
{
    const int least = min_inputs(m), most = max_inputs(m);
    if (m->failed) return QN_MODULE_FAIL(m, state, "something could not be added to this module"), false;
    if (n < least || n > most) return QN_MODULE_FAIL(m, invalid, "%d inputs, %d to %d expected", n, least, most), false;
    for (int i = 0; i < n; i++) {
        if (x[i] != NULL && !qn__live(x[i], m->type->name)) return false;
        if (x[i] != NULL && of(x[i])->ctx != m->ctx)
            return QN_MODULE_FAIL(m, invalid, "input %d belongs to another context", i), false;
    }
    return true;
}

/* Where m computes. */
static int place_for(const qn_module *m, qn_tensor *const *x, int n)
{
    if (m->n_tensors > 0) return qn__place_of(m->tensors[0].tensor);
    for (int i = 0; i < n; i++) {
        if (x[i] != NULL) return qn__place_of(x[i]);
    }
    return m->ctx->place;
}

/* Inputs, there, in a scope of the caller. */
static bool gather_inputs(const qn_module *m, qn_tensor *const *x, int n, int place, qn_tensor **all)
{
    for (int i = 0; i < n; i++) {
        all[i] = m->n_tensors > 0 ? qn__there(x[i], place) : x[i];
        if (all[i] == NULL && x[i] != NULL) return false;
    }
    return true;
}

qn_tensor *qn_module_forward_n(qn_module *m, qn_tensor *const *x, int n)
{
    if (m == NULL) return NULL;
    for (int i = 0; i < min_inputs(m) && i < n; i++) {
        if (x[i] == NULL) return NULL;
    }
    qn_context *ctx = m->ctx;
    const bool had = ctx->error.status != QN_OK;
    qn_tensor *y = NULL, *all[QN_MODULE_INPUTS] = {0};
    if (inputs_fit(m, x, n) && qn_scope_begin(ctx) == QN_OK) {
        const int place = place_for(m, x, n);
        const int32_t was = qn__place_swap(ctx, place);
        if (gather_inputs(m, x, n, place, all)) y = m->type->forward(m, all, n);
        qn__place_swap(ctx, was);
        /* an input, a parameter: a handle of its own */
        if (y != NULL && of(y)->scope != ctx->scope) y = qn_to(y, qn_dtype_of(y));
        y = qn_scope_end(ctx, y);
    }
    if (y == NULL && !had) blame(m);
    return y;
}

qn_tensor *qn_module_forward(qn_module *m, qn_tensor *x) { return qn_module_forward_n(m, &x, 1); }
