/* SPDX-License-Identifier: MIT */
/* src/nn/module.h -- inside the room of modules. Always holds: every tensor in the tree is one reference of ours, and
 * so is every child; a module is in the tree beneath itself never; `parent` is the first that took it over, while that
 * lives, and only serves messages. */
#ifndef QN_NN_MODULE_H
#define QN_NN_MODULE_H

#include "array/array.h"
#include <quern/autograd.h>
#include <quern/nn.h>
#include <quern/ops.h>

typedef struct qn_named {
    char *name;
    qn_tensor *tensor;
    qn_named_kind kind;
} qn_named;

typedef struct qn_child {
    char *name;
    qn_module *module;
} qn_child;

struct qn_module {
    qn_context *ctx;
    const qn_module_type *type;
    qn_module *parent;
    int32_t refs;
    bool failed; /* something could not be added: unusable */
    bool training;
    qn_named *tensors;
    int n_tensors, cap_tensors;
    qn_child *children;
    int n_children, cap_children;
    void *state;
};

/* Of the module with the path `path`: the name of its parent ends where the last dot is. */
#define QN_PATH_TEXT 256
/* "blk.0.attn_q", from the root that `parent` leads to; "" for a root. */
const char *qn__module_path(const qn_module *m, char text[QN_PATH_TEXT]);
/* The i-th tensor of a module that its type added; NULL past the end: an optional one that is not there. */
static inline qn_tensor *qn__own(const qn_module *m, int i) { return i < m->n_tensors ? m->tensors[i].tensor : NULL; }
/* A new F32 parameter of undefined values. */
qn_tensor *qn__add_empty(qn_module *m, const char *name, qn_shape shape);
/* Leaves an error of that module in the context, with its path; NULL for handing on. */
#define QN_MODULE_FAIL(m, status, ...) (void)qn_context_fail((m)->ctx, QN_STATUS_##status, __VA_ARGS__)

/* For functions that tell through a qn_error: what goes wrong with tensors in between is not the context's to keep.
 * Gives what the context had, to be put back. */
static inline qn_error qn__begin_errors(qn_context *ctx)
{
    const qn_error was = ctx->error;
    ctx->error = (qn_error){0};
    return was;
}

/* ---- linear.c ---- */
/* All at least 1? Says which is not. */
bool qn__sizes_fit(qn_context *c, const char *name, const int64_t *sizes, int n);
/* First values of a weight and a bias (may be NULL) of m; what fails is noted there. */
void qn__init_affine(qn_module *m, qn_tensor *w, qn_tensor *b);

/* ---- listing.c: all tensors of a tree, by path ---- */
typedef struct qn_listed {
    const char *path;
    qn_named *slot; /* in its module */
    int64_t first;  /* where the same tensor is listed first; its own index when that is here */
} qn_listed;

typedef struct qn_listing {
    qn_arena arena;
    qn_listed *items;
    int64_t n, cap;
} qn_listing;

/* deinit in any case. */
qn_status qn__listing_init(qn_module *m, qn_listing *out, qn_error *err);
void qn__listing_deinit(qn_listing *l);
/* The slot at a path; NULL when there is none. */
qn_named *qn__slot_find(const qn_module *m, const char *path);

#endif
