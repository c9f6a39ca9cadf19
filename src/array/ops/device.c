/* SPDX-License-Identifier: MIT */
/* src/array/ops/device.c -- the devices of a context by name, and tensors from one to another. */
#include "array/eval/materialize.h"
#include "array/ops/apply.h"

#include <string.h>

/* ---- names ---- */

/* "opencl:0", or "opencl": the first of its type; likewise "cpu", whose name says its level. */
static bool is_called(const qn_backend *be, const char *device)
{
    return strcmp(be->name, device) == 0 || strcmp(be->type->name, device) == 0;
}

int qn__place_find(const qn_context *ctx, const char *call, const char *device, qn_error *err)
{
    qn_str known = {0};
    char quoted[64];
    for (int i = 0; i < ctx->n_backends; i++) {
        if (is_called(ctx->backends[i], device)) return i;
    }
    for (int i = 0; i < ctx->n_backends; i++) qn__str_printf(&known, "%s%s", i > 0 ? ", " : "", ctx->backends[i]->name);
    (void)QN_FAIL(err, invalid, "%s: this context has no device \"%s\"; it has %s", call,
                  qn__str_quote(quoted, sizeof quoted, device, strlen(device)),
                  known.data != NULL ? known.data : "others");
    qn__str_deinit(&known);
    return -1;
}

int qn__place_of_host(const qn_context *ctx)
{
    int i = 0;
    while (i < ctx->n_backends && !qn__place_is_host(ctx, i)) i++;
    return i < ctx->n_backends ? i : 0;
}

static bool goes_along(const qn_tensor *t)
{
    return of(t)->layout.rank == 0 && qn__place_is_host(of(t)->ctx, qn__place_of(t));
}

int qn__place_among(qn_tensor *const *t, int n)
{
    int i = 0;
    while (i < n && goes_along(t[i])) i++;
    return qn__place_of(t[i < n ? i : 0]);
}

const char *qn_context_backend(const qn_context *ctx) { return ctx != NULL ? qn__place_name(ctx, ctx->place) : NULL; }
int qn_context_n_devices(const qn_context *ctx) { return ctx != NULL ? ctx->n_backends : 0; }

const char *qn_context_device(const qn_context *ctx, int i)
{
    return ctx != NULL && i >= 0 && i < ctx->n_backends ? qn__place_name(ctx, i) : NULL;
}

const char *qn_device_of(const qn_tensor *t) { return LIVE(t) ? qn__place_name(of(t)->ctx, qn__place_of(t)) : NULL; }

qn_status qn_set_default_device(qn_context *ctx, const char *device)
{
    if (!GIVEN(ctx, device, "the device")) return QN_STATUS_invalid;
    if (ctx == NULL) return QN_STATUS_invalid;
    const int place = qn__place_find(ctx, "set_default_device", device, qn__err(ctx));
    if (place < 0) return QN_STATUS_invalid;
    ctx->place = place;
    return QN_OK;
}

/* ---- moving ---- */

/* What lies in memory is copied at once, into memory of its own: no graph needs room for it. */
static qn_tensor *copied(qn_tensor *t, int place)
{
    qn_context *ctx = of(t)->ctx;
    const qn_shape shape = qn_shape_get(t);
    qn_storage *s = qn__storage_new_resident(ctx, place, of(t)->storage->dtype, &shape);
    if (s == NULL) return NULL;
    if (qn__carry(s, t)) return qn__tensor_new(ctx, s, &s->layout);
    qn__storage_unref(s);
    return NULL;
}

/* Recorded as a copy that is computed there; a gradient takes the way back. */
static qn_tensor *recorded(qn_tensor *t, int place)
{
    qn_context *ctx = of(t)->ctx;
    const qn_copy_attrs attrs = {(int32_t)of(t)->storage->dtype};
    if (!qn__make_room(ctx)) return NULL;
    qn_node *x = qn__node_of(t);
    qn_tensor *y = x != NULL ? qn__tensor_of(ctx, qn__node_moved(ctx, x, place)) : NULL;
    if (y == NULL || !qn__tape_wanted(ctx, &t, 1) || qn__tape_record(y, QN_OP_copy, &attrs, &t, 1)) return y;
    qn_release(y);
    return NULL;
}

qn_tensor *qn__to_place(qn_tensor *t, int place)
{
    qn_context *ctx = qn__one_context("to_device", &t, 1);
    if (ctx == NULL) return NULL;
    if (qn__place_of(t) == place) return qn__again(t);
    const qn_storage *s = of(t)->storage;
    if (s->value == NULL && s->memory != NULL && !s->lost && !qn__tape_wanted(ctx, &t, 1)) return copied(t, place);
    return recorded(t, place);
}

qn_tensor *qn__number_beside(qn_tensor *t, const qn_tensor *y)
{
    return of(t)->ctx == of(y)->ctx && goes_along(t) ? qn__there(t, qn__place_of(y)) : t;
}

qn_tensor *qn_to_device(qn_tensor *t, const char *device)
{
    if (!LIVE(t) || !GIVEN(of(t)->ctx, device, "the device")) return NULL;
    const int place = qn__place_find(of(t)->ctx, "to_device", device, qn__err(of(t)->ctx));
    return place >= 0 ? qn__to_place(t, place) : NULL;
}
