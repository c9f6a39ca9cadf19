/* SPDX-License-Identifier: MIT */
/* src/array/io/print.c -- tensors as text, in PyTorch's look: four digits, columns of one width, the middle of what is
 * long left out, numbers of very different size as powers of ten. Only the numbers that are shown are read. */
#include "array/eval/materialize.h"
#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 80, EDGE = 3, LONG = 1000 };

typedef struct printer {
    qn_str *out;
    const qn_tensor *t;
    qn_dtype dtype; /* to be told: of a block format whose numbers t holds, or t's own */
    const char *host;
    bool real, summarize, whole, powers; /* whole: every number shown is an integer */
    int width;
} printer;

/* ---- numbers ---- */

static int put_number(const printer *p, int64_t at, char text[48])
{
    int64_t i;
    const double d = qn__element(of(p->t)->storage->dtype, p->host, at, &i);
    if (of(p->t)->storage->dtype == QN_DTYPE_BOOL) return snprintf(text, 48, "%s", i != 0 ? "True" : "False");
    if (!p->real) return snprintf(text, 48, "%lld", (long long)i);
    if (isnan(d)) return snprintf(text, 48, "nan");
    if (isinf(d)) return snprintf(text, 48, d > 0 ? "inf" : "-inf");
    if (p->powers) return snprintf(text, 48, "%.4e", d);
    return p->whole ? snprintf(text, 48, "%.0f.", d) : snprintf(text, 48, "%.4f", d);
}

/* Calls `see` for every element that will be shown. */
static void each_shown(printer *p, int dim, int64_t at, void (*see)(printer *p, int64_t at, double *range),
                       double *range)
{
    const qn_layout *l = &of(p->t)->layout;
    if (dim == l->rank) {
        see(p, at, range);
        return;
    }
    for (int64_t i = 0; i < l->dim[dim]; i++) {
        if (p->summarize && l->dim[dim] > 2 * EDGE && i == EDGE) i = l->dim[dim] - EDGE;
        each_shown(p, dim + 1, at + i * l->stride[dim], see, range);
    }
}

static void see_range(printer *p, int64_t at, double range[2])
{
    int64_t i;
    const double d = qn__element(of(p->t)->storage->dtype, p->host, at, &i);
    if (!isfinite(d) || d == 0) return;
    p->whole = p->whole && d == ceil(d);
    if (fabs(d) < range[0]) range[0] = fabs(d);
    if (fabs(d) > range[1]) range[1] = fabs(d);
}

/* As PyTorch, zeros, infinities and NaN do not count for the width of real numbers. */
static void see_width(printer *p, int64_t at, double *range)
{
    int64_t i;
    char text[48];
    const double d = qn__element(of(p->t)->storage->dtype, p->host, at, &i);
    (void)range;
    if (p->real && (!isfinite(d) || d == 0)) return;
    const int n = put_number(p, at, text);
    if (n > p->width) p->width = n;
}

static void choose_format(printer *p)
{
    double range[2] = {INFINITY, 0};
    p->width = 1;
    p->whole = true;
    if (p->real) {
        each_shown(p, 0, of(p->t)->layout.offset, see_range, range);
        const bool any = range[1] > 0;
        p->powers = any && (range[1] / range[0] > 1000 || range[1] > 1e8 || (!p->whole && range[0] < 1e-4));
    }
    each_shown(p, 0, of(p->t)->layout.offset, see_width, range);
}

/* ---- brackets ---- */

static void new_line(qn_str *out, int lines, int indent)
{
    qn__str_putc(out, ',');
    for (int i = 0; i < lines; i++) qn__str_putc(out, '\n');
    for (int i = 0; i < indent; i++) qn__str_putc(out, ' ');
}

static void put_aligned(const printer *p, int64_t at)
{
    char text[48];
    qn__str_printf(p->out, "%*s", put_number(p, at, text) < p->width ? p->width : 0, text);
}

static void put_vector(const printer *p, int64_t at, int indent)
{
    const qn_layout *l = &of(p->t)->layout;
    const int64_t n = l->dim[l->rank - 1], step = l->stride[l->rank - 1];
    const int a_line = (LINE - indent) / (p->width + 2) > 1 ? (LINE - indent) / (p->width + 2) : 1;
    int shown = 0;
    qn__str_putc(p->out, '[');
    for (int64_t i = 0; i < n; i++, shown++) {
        if (shown > 0 && shown % a_line == 0)
            new_line(p->out, 1, indent + 1);
        else if (shown > 0)
            qn__str_puts(p->out, ", ");
        if (p->summarize && n > 2 * EDGE && i == EDGE) {
            qn__str_puts(p->out, " ...");
            i = n - EDGE - 1;
            continue;
        }
        put_aligned(p, at + i * step);
    }
    qn__str_putc(p->out, ']');
}

static void put_part(const printer *p, int dim, int64_t at, int indent)
{
    const qn_layout *l = &of(p->t)->layout;
    if (dim == l->rank - 1) {
        put_vector(p, at, indent);
        return;
    }
    qn__str_putc(p->out, '[');
    for (int64_t i = 0; i < l->dim[dim]; i++) {
        if (i > 0) new_line(p->out, l->rank - dim - 1, indent + 1);
        if (p->summarize && l->dim[dim] > 2 * EDGE && i == EDGE) {
            qn__str_puts(p->out, "...");
            i = l->dim[dim] - EDGE - 1;
            continue;
        }
        put_part(p, dim + 1, at + i * l->stride[dim], indent + 1);
    }
    qn__str_putc(p->out, ']');
}

static int last_line(const qn_str *out)
{
    size_t n = 0;
    while (n < out->len && out->data[out->len - 1 - n] != '\n') n++;
    return (int)n + (n == out->len ? 2 : 1); /* PyTorch's own count: what is before the text is at -1 */
}

static void put_suffix(qn_str *out, int indent, int *line, const char *text)
{
    const int n = (int)strlen(text);
    if (*line + n + 2 > LINE) {
        new_line(out, 1, indent);
        *line = indent + n;
    } else {
        qn__str_puts(out, ", ");
        *line += n + 2;
    }
    qn__str_puts(out, text);
}

static void put_tensor(printer *p)
{
    enum { INDENT = 7 }; /* "tensor(" */
    const qn_tensor *t = p->t;
    const qn_dtype dtype = p->dtype;
    char text[192], size[256];
    qn__str_puts(p->out, "tensor(");
    const bool empty = qn_layout_numel(&of(t)->layout) == 0;
    if (empty) {
        qn__str_puts(p->out, "[]");
    } else {
        choose_format(p);
        if (of(t)->layout.rank == 0)
            put_aligned(p, of(t)->layout.offset);
        else
            put_part(p, 0, of(t)->layout.offset, INDENT);
    }
    int line = last_line(p->out);
    if (empty && of(t)->layout.rank != 1) {
        const qn_shape shape = qn_layout_shape(&of(t)->layout);
        qn_shape_print(&shape, text, sizeof text);
        snprintf(size, sizeof size, "size=(%.*s)", (int)strlen(text) - 2, text + 1);
        for (char *comma = size; (comma = strchr(comma, ',')) != NULL && strlen(size) + 2 < sizeof size; comma += 2) {
            memmove(comma + 2, comma + 1, strlen(comma + 1) + 1);
            comma[1] = ' ';
        }
        put_suffix(p->out, INDENT, &line, size);
    }
    if (dtype != QN_DTYPE_F32 && (empty || (dtype != QN_DTYPE_I64 && dtype != QN_DTYPE_BOOL))) {
        snprintf(text, sizeof text, "dtype=%s", qn_dtype_get(dtype)->name);
        put_suffix(p->out, INDENT, &line, text);
    }
    if (of(t)->grad_fn != NULL && of(t)->grad_fn->leaf) put_suffix(p->out, INDENT, &line, "requires_grad=True");
    if (of(t)->grad_fn != NULL && !of(t)->grad_fn->leaf) {
        snprintf(text, sizeof text, "grad_fn=<%s>", qn__op_info(of(t)->grad_fn->op)->name);
        put_suffix(p->out, INDENT, &line, text);
    }
    qn__str_putc(p->out, ')');
}

/* ---- public ---- */

static qn_status print_to(qn_tensor *t, qn_dtype dtype, qn_str *out)
{
    qn_context *ctx = of(t)->ctx;
    const qn_dtype_class class = qn_dtype_get(of(t)->storage->dtype)->class_;
    if (class == QN_CLASS_block) { /* what it stands for */
        qn_tensor *plain = qn_to(t, QN_DTYPE_F32);
        const qn_status status = plain != NULL ? print_to(plain, dtype, out) : qn__status(ctx);
        qn_release(plain);
        return status;
    }
    printer p = {.out = out,
                 .t = t,
                 .dtype = dtype,
                 .real = class == QN_CLASS_real,
                 .summarize = qn_layout_numel(&of(t)->layout) > LONG};
    void *copy;
    QN_TRY(qn__host_of(t, &p.host, &copy));
    put_tensor(&p);
    qn__free(copy);
    return out->failed ? QN_FAIL_NOMEM(qn__err(ctx), out->cap) : QN_OK;
}

char *qn_to_string(qn_tensor *t)
{
    if (!LIVE(t)) return NULL;
    qn_str out = {0};
    const qn_status status = print_to(t, of(t)->storage->dtype, &out);
    char *text = status == QN_OK ? qn__str_take(&out, NULL) : NULL;
    qn__str_deinit(&out);
    return text;
}

qn_status qn_print(qn_tensor *t)
{
    if (!LIVE(t)) return QN_STATUS_invalid;
    char *text = qn_to_string(t);
    if (text == NULL) return qn__status(of(t)->ctx);
    const size_t n = strlen(text);
    text[n] = '\n'; /* in place of the terminator: one write */
    const bool good = fwrite(text, 1, n + 1, stdout) == n + 1;
    qn_free(text);
    return good ? QN_OK : QN_FAIL(qn__err(of(t)->ctx), io, "print: standard output takes nothing");
}
