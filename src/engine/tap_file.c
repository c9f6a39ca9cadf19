/* SPDX-License-Identifier: MIT */
/* src/engine/tap_file.c -- files that taps read, and text that they write. */
#include "base/file.h"
#include "engine/tap.h"
#include "format/npy.h"
#include "quant/element.h"
#include "quant/quant.h"

#include <string.h>

static qn_status to_floats(const qn_npy_header *h, const void *raw, float *out, qn_error *err)
{
    const int64_t n = qn_shape_numel(&h->shape);
    int64_t whole;
    if (qn_dtype_get(h->dtype)->class_ == QN_CLASS_real && h->dtype != QN_DTYPE_F64)
        return qn_unpack(h->dtype, raw, out, n, err);
    for (int64_t i = 0; i < n; i++) out[i] = (float)qn__element(h->dtype, raw, i, &whole);
    return QN_OK;
}

static qn_status read_map(qn_arena *arena, const char *path, const qn_map *map, float **out, qn_shape *shape,
                          qn_error *err)
{
    char label[QN_NPY_LABEL];
    qn_npy_header h;
    qn__npy_label(path, label);
    QN_TRY(qn__npy_header_read(map->data, map->size, label, INT64_MAX, &h, err));
    if (h.fortran)
        return QN_FAIL(err, unsupported, "%s is in Fortran order; numpy.ascontiguousarray makes it C's", label);
    const size_t bytes = (size_t)qn_shape_numel(&h.shape) * sizeof(float);
    *shape = h.shape;
    *out = qn__arena_alloc_aligned(arena, bytes + sizeof(float), QN_ALIGN_CPU);
    void *raw = qn__alloc(h.bytes + 1);
    if (!*out || !raw) {
        qn__free(raw);
        return QN_FAIL_NOMEM(err, bytes + h.bytes);
    }
    qn__npy_copy(&h, map->data, raw);
    const qn_status status = to_floats(&h, raw, *out, err);
    qn__free(raw);
    return status;
}

qn_status qn__tap_read_npy(qn_arena *arena, const char *path, float **out, qn_shape *shape, qn_error *err)
{
    qn_map map;
    QN_TRY(qn__map_open(path, &map, err));
    const qn_status status = read_map(arena, path, &map, out, shape, err);
    qn__map_close(&map);
    return status;
}

qn_status qn__tap_fit(const qn_tap_slot *slot, const char *path, const qn_shape *shape, int64_t *n, qn_error *err)
{
    const qn_shape *row = &slot->point->row;
    char have[200], want[200], quoted[160];
    qn_shape rest = *shape;
    *n = 0;
    if (qn_shape_equal(shape, row)) return QN_OK;
    if (shape->rank == row->rank + 1) {
        memmove(rest.dim, rest.dim + 1, (size_t)row->rank * sizeof rest.dim[0]);
        rest.rank = row->rank;
        *n = shape->dim[0];
        if (qn_shape_equal(&rest, row) && *n > 0) return QN_OK;
    }
    return QN_FAIL(err, invalid, "'%s' is %s; a row of %s is %s, or several of these",
                   qn__str_quote(quoted, sizeof quoted, path, strlen(path)), qn_shape_print(shape, have, sizeof have),
                   slot->point->name, qn_shape_print(row, want, sizeof want));
}

char *qn__tap_path(qn_arena *arena, const char *folder, const char *name, const char *end)
{
    const size_t size = strlen(folder) + strlen(name) + strlen(end) + 2;
    char *path = qn__arena_alloc(arena, size);
    if (!path) return NULL;
    strcpy(path, folder);
    strcat(path, "/");
    strcat(path, name);
    strcat(path, end);
    return path;
}

qn_status qn__tap_write_text(const char *path, const qn_str *text, qn_error *err)
{
    qn_writer *w = NULL;
    if (text->failed) return QN_FAIL(err, nomem, "out of memory for the lines of '%.200s'", path);
    QN_TRY(qn__writer_open(path, &w, err));
    if (text->len) qn__writer_put(w, text->data, text->len);
    return qn__writer_commit(w, err);
}
