/* SPDX-License-Identifier: MIT */
/* src/format/npy_write.c -- .npy files out: the header is a Python literal padded so that the data starts at a multiple
 * of 64. */
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/npy.h"

struct qn_npy_writer {
    qn_writer *out;
    uint64_t total, written; /* elements */
    int elem_bytes;
};

const char *qn__npy_kind(qn_dtype dtype)
{
    /* V2, two bytes of whatever: so NumPy saves arrays of the ml_dtypes package */
    static const char *const kinds[QN_DTYPE_COUNT] = {
        [QN_DTYPE_F16] = "f2", [QN_DTYPE_F32] = "f4",  [QN_DTYPE_F64] = "f8", [QN_DTYPE_BF16] = "V2",
        [QN_DTYPE_I8] = "i1",  [QN_DTYPE_I16] = "i2",  [QN_DTYPE_I32] = "i4", [QN_DTYPE_I64] = "i8",
        [QN_DTYPE_U8] = "u1",  [QN_DTYPE_BOOL] = "b1",
    };
    return (unsigned)dtype < QN_DTYPE_COUNT ? kinds[dtype] : NULL;
}

/* Magic, version 1.0, a 16-bit length that is little endian on every machine, and the dictionary. */
static bool make_header(qn_str *s, const char *kind, const qn_shape *shape, size_t least)
{
    const uint16_t probe = 1;
    const char order = kind[1] == '1' ? '|' : *(const uint8_t *)&probe == 1 ? '<' : '>';
    qn__str_append(s, "\x93NUMPY\x01\x00\x00\x00", 10);
    qn__str_printf(s, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, kind);
    for (int i = 0; i < shape->rank; i++) qn__str_printf(s, i == 0 ? "%lld," : " %lld,", (long long)shape->dim[i]);
    if (shape->rank > 1 && !s->failed) s->len--; /* only a tuple of one keeps its comma */
    qn__str_puts(s, "), }");
    while (!s->failed && (s->len % 64 != 63 || s->len + 1 < least)) qn__str_putc(s, ' ');
    qn__str_putc(s, '\n');
    if (s->failed) return false;
    const size_t len = s->len - 10; /* at most 8 dimensions of 20 characters: far below 64 KiB */
    s->data[8] = (char)(len & 0xff);
    s->data[9] = (char)(len >> 8);
    return true;
}

/* What stands before the shape is as long for every kind. */
bool qn__npy_set_rows(char *header, int64_t rows)
{
    static const char before[] = "\x93NUMPY\x01\x00\x00\x00{'descr': '<f4', 'fortran_order': False, 'shape': (";
    char *at = header + sizeof before - 1, digits[20];
    size_t there = 0, n = 0;
    while (at[there] >= '0' && at[there] <= '9') there++;
    for (int64_t left = rows; n == 0 || left > 0; left /= 10) digits[n++] = (char)('0' + left % 10);
    if (n != there) return false;
    for (size_t i = 0; i < n; i++) at[i] = digits[n - 1 - i];
    return true;
}

bool qn__npy_header(qn_str *out, qn_dtype dtype, const qn_shape *shape, size_t least)
{
    qn__str_clear(out);
    return make_header(out, qn__npy_kind(dtype), shape, least);
}

qn_status qn_npy_writer_open(const char *path, qn_dtype dtype, const qn_shape *shape, qn_npy_writer **out,
                             qn_error *err)
{
    const char *kind = qn__npy_kind(dtype);
    const int64_t numel = qn_shape_numel(shape);
    char text[200];
    if (!kind)
        return QN_FAIL(err, unsupported,
                       "found dtype %s for a .npy file, expected F16, F32, F64, BF16, I8 to I64, U8 or BOOL",
                       qn_dtype_get(dtype)->name);
    const int elem_bytes = qn_dtype_get(dtype)->block_bytes;
    if (numel < 0 || numel > INT64_MAX / elem_bytes)
        return QN_FAIL(err, invalid, "found the shape %s for a .npy file, expected fewer than 2^63 bytes",
                       qn_shape_print(shape, text, sizeof text));
    qn_npy_writer *w = qn__calloc(1, sizeof *w);
    if (!w) return QN_FAIL_NOMEM(err, sizeof *w);
    *w = (qn_npy_writer){.total = (uint64_t)numel, .elem_bytes = elem_bytes};
    qn_str header = {0};
    qn_status status =
        make_header(&header, kind, shape, 0) ? qn__writer_open(path, &w->out, err) : QN_FAIL_NOMEM(err, 256);
    if (status == QN_OK) qn__writer_put(w->out, header.data, header.len);
    qn__str_deinit(&header);
    if (status != QN_OK)
        qn__free(w);
    else
        *out = w;
    return status;
}

void qn_npy_write(qn_npy_writer *w, const void *values, uint64_t n_elements)
{
    const uint64_t room = w->written <= w->total ? w->total - w->written : 0;
    if (n_elements <= room && n_elements > 0) qn__writer_put(w->out, values, n_elements * (uint64_t)w->elem_bytes);
    w->written = n_elements <= UINT64_MAX - w->written ? w->written + n_elements : UINT64_MAX;
}

qn_status qn_npy_writer_commit(qn_npy_writer *w, qn_error *err)
{
    qn_status status;
    if (w->written == w->total) {
        status = qn__writer_commit(w->out, err);
    } else {
        status = QN_FAIL(err, state, "found %llu elements written to a .npy file, expected %llu",
                         (unsigned long long)w->written, (unsigned long long)w->total);
        qn__writer_abort(w->out);
    }
    qn__free(w);
    return status;
}

void qn_npy_writer_abort(qn_npy_writer *w)
{
    if (!w) return;
    qn__writer_abort(w->out);
    qn__free(w);
}
