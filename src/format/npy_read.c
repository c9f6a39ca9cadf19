/* SPDX-License-Identifier: MIT */
/* src/format/npy_read.c -- .npy files in. The header is a Python dictionary with three keys; this reads exactly the
 * literals that NumPy writes (strings, True, False, a tuple of integers) in any order and spacing, and refuses
 * everything else. */
#include "base/cursor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/npy.h"
#include <string.h>

#define MAX_HEADER 65536 /* NumPy's own limit is 10,000 characters; a header of ours takes 128 */

typedef struct literal {
    const char *text;
    size_t pos, size;
    const char *label;
    size_t base; /* of text in the file, for messages */
    qn_error *err;
} literal;

typedef struct dictionary {
    char descr[16];
    bool has_descr, has_order, has_shape, fortran;
    qn_shape shape;
} dictionary;

static qn_status unexpected(literal *l, const char *expected)
{
    char found[24] = "the end of the header";
    if (l->pos < l->size) qn__str_quote(found, 8, l->text + l->pos, 1);
    return QN_FAIL(l->err, format, "%s: .npy header, offset %zu: found %s, expected %s", l->label, l->base + l->pos,
                   found, expected);
}

static void skip_space(literal *l)
{
    while (l->pos < l->size && (l->text[l->pos] == ' ' || l->text[l->pos] == '\n' || l->text[l->pos] == '\t')) l->pos++;
}

/* Takes c after spaces; false leaves the position at what is there. */
static bool take(literal *l, char c)
{
    skip_space(l);
    if (l->pos >= l->size || l->text[l->pos] != c) return false;
    l->pos++;
    return true;
}

static qn_status read_string(literal *l, char *buf, size_t size)
{
    skip_space(l);
    const char quote = l->pos < l->size ? l->text[l->pos] : 0;
    if (quote != '\'' && quote != '"') return unexpected(l, "a quoted string");
    const size_t start = ++l->pos;
    while (l->pos < l->size && l->text[l->pos] != quote) l->pos++;
    if (l->pos >= l->size || l->pos - start >= size) {
        l->pos = start;
        return unexpected(l, "a short quoted string");
    }
    memcpy(buf, l->text + start, l->pos - start);
    buf[l->pos - start] = '\0';
    l->pos++;
    return QN_OK;
}

static bool take_word(literal *l, const char *word)
{
    const size_t n = strlen(word);
    skip_space(l);
    if (l->size - l->pos < n || memcmp(l->text + l->pos, word, n) != 0) return false;
    l->pos += n;
    return true;
}

static qn_status read_dim(literal *l, int64_t *out)
{
    int64_t value = 0;
    skip_space(l);
    const size_t start = l->pos;
    for (; l->pos < l->size && l->text[l->pos] >= '0' && l->text[l->pos] <= '9'; l->pos++) {
        const int digit = l->text[l->pos] - '0';
        if (value > (INT64_MAX - digit) / 10) return unexpected(l, "a dimension below 2^63");
        value = 10 * value + digit;
    }
    if (l->pos == start) return unexpected(l, "a dimension");
    *out = value;
    return QN_OK;
}

static qn_status read_shape(literal *l, qn_shape *shape)
{
    *shape = (qn_shape){0};
    if (!take(l, '(')) return unexpected(l, "the tuple of the shape");
    while (!take(l, ')')) {
        if (shape->rank == QN_MAX_RANK) return unexpected(l, "at most 8 dimensions");
        QN_TRY(read_dim(l, &shape->dim[shape->rank]));
        shape->rank++;
        if (!take(l, ',')) {
            if (!take(l, ')')) return unexpected(l, "a comma or the end of the shape");
            break;
        }
    }
    return QN_OK;
}

static qn_status read_entry(literal *l, dictionary *h)
{
    char key[16];
    QN_TRY(read_string(l, key, sizeof key));
    if (!take(l, ':')) return unexpected(l, "a colon");
    if (strcmp(key, "descr") == 0 && !h->has_descr) {
        h->has_descr = true;
        return read_string(l, h->descr, sizeof h->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
        h->has_order = true;
        h->fortran = take_word(l, "True");
        return h->fortran || take_word(l, "False") ? QN_OK : unexpected(l, "True or False");
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape) {
        h->has_shape = true;
        return read_shape(l, &h->shape);
    }
    return unexpected(l, "each of the keys descr, fortran_order and shape once");
}

static qn_status read_header(literal *l, dictionary *h)
{
    if (!take(l, '{')) return unexpected(l, "a dictionary");
    while (!take(l, '}')) {
        QN_TRY(read_entry(l, h));
        if (!take(l, ',')) {
            if (!take(l, '}')) return unexpected(l, "a comma or the end of the dictionary");
            break;
        }
    }
    skip_space(l);
    if (l->pos != l->size) return unexpected(l, "nothing after the dictionary");
    if (!h->has_descr || !h->has_order || !h->has_shape)
        return unexpected(l, "a dictionary with the keys descr, fortran_order and shape");
    return QN_OK;
}

/* '<f4' and the like, to a dtype and whether its bytes must be swapped. Single bytes have no order, NumPy writes '|'
 * for it. */
static bool read_descr(const char *descr, qn_dtype *dtype, bool *swap)
{
    const uint16_t probe = 1;
    const bool host_big = *(const uint8_t *)&probe == 0;
    if (descr[0] == '\0' || strchr("<>=|", descr[0]) == NULL) return false;
    for (int i = 0; i < QN_DTYPE_COUNT; i++) {
        const char *kind = qn__npy_kind((qn_dtype)i);
        if (kind == NULL || strcmp(descr + 1, kind) != 0) continue;
        const bool ordered = qn_dtype_get((qn_dtype)i)->block_bytes > 1;
        if (ordered && descr[0] == '|' && kind[0] != 'V') return false;
        *dtype = (qn_dtype)i;
        *swap = ordered && (descr[0] == '<' || descr[0] == '>') && (descr[0] == '>') != host_big;
        return true;
    }
    return false;
}

static qn_status check_size(const dictionary *d, const char *label, size_t size, size_t max_bytes, qn_npy_header *h,
                            qn_error *err)
{
    char quoted[48], shape[200];
    qn_shape_print(&h->shape, shape, sizeof shape);
    if (!read_descr(d->descr, &h->dtype, &h->swap))
        return QN_FAIL(err, unsupported,
                       "%s: .npy header: found the type \"%s\", expected a byte order and " QN_NPY_KINDS, label,
                       qn__str_quote(quoted, sizeof quoted, d->descr, strlen(d->descr)));
    const int64_t numel = qn_shape_numel(&h->shape);
    if (numel < 0 || !qn__mul_size((size_t)numel, (size_t)qn_dtype_get(h->dtype)->block_bytes, &h->bytes))
        return QN_FAIL(err, format, "%s: .npy header: found the shape %s, expected fewer than 2^63 bytes", label,
                       shape);
    if (h->bytes != size - h->offset)
        return QN_FAIL(err, format, "%s: found %zu bytes of data at offset %zu, expected %zu for the shape %s of %s",
                       label, size - h->offset, h->offset, h->bytes, shape, d->descr + 1);
    if (h->bytes > max_bytes)
        return QN_FAIL(err, limit, "%s: found %zu bytes of data, expected at most %zu", label, h->bytes, max_bytes);
    int long_dims = 0;
    for (int i = 0; i < h->shape.rank; i++) long_dims += h->shape.dim[i] != 1;
    h->fortran = d->fortran && long_dims > 1 && numel > 0;
    return QN_OK;
}

qn_status qn__npy_header_read(const void *file, size_t size, const char *label, size_t max_bytes, qn_npy_header *out,
                              qn_error *err)
{
    const uint8_t *p = file;
    if (size < 12 || memcmp(p, "\x93NUMPY", 6) != 0)
        return QN_FAIL(err, format, "%s: offset 0: found no .npy magic in %zu bytes, expected \\x93NUMPY and a header",
                       label, size);
    if (p[6] < 1 || p[6] > 3)
        return QN_FAIL(err, unsupported, "%s: offset 6: found .npy version %d.%d, expected 1.0 to 3.0", label, p[6],
                       p[7]);
    const size_t start = p[6] == 1 ? 10 : 12;
    const size_t len = p[8] | (size_t)p[9] << 8 | (p[6] == 1 ? 0 : (size_t)p[10] << 16 | (size_t)p[11] << 24);
    const size_t room = size - start < MAX_HEADER ? size - start : MAX_HEADER;
    if (len > room)
        return QN_FAIL(err, format, "%s: offset 8: found a header of %zu bytes, expected at most %zu", label, len,
                       room);
    literal l = {.text = (const char *)p + start, .size = len, .label = label, .base = start, .err = err};
    dictionary d = {0};
    QN_TRY(read_header(&l, &d));
    qn_npy_header h = {.shape = d.shape, .offset = start + len};
    QN_TRY(check_size(&d, label, size, max_bytes, &h, err));
    *out = h;
    return QN_OK;
}

void qn__npy_copy(const qn_npy_header *h, const void *file, void *dst)
{
    const size_t unit = (size_t)qn_dtype_get(h->dtype)->block_bytes;
    uint8_t *to = dst;
    if (h->bytes > 0) memcpy(dst, (const uint8_t *)file + h->offset, h->bytes);
    if (h->swap) qn__swap_array(dst, h->bytes / unit, unit);
    for (size_t i = 0; h->dtype == QN_DTYPE_BOOL && i < h->bytes; i++) to[i] = to[i] != 0; /* kernels rely on 0 and 1 */
}

void qn__npy_label(const char *path, char label[QN_NPY_LABEL])
{
    const size_t len = strlen(path), skip = len > 70 ? len - 70 : 0;
    qn__str_quote(label, QN_NPY_LABEL, path + skip, len - skip);
}
