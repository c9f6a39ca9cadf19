/* SPDX-License-Identifier: MIT */
/* src/graph/print/print.c -- words and colours for graphs, the text format, and the choice of format. Names come from
 * files: nothing here or in the printers passes one on without quoting. */
#include "graph/print/print.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes: one function an attribute struct, chosen by the op's row ---- */

/* " name=0.1" with as few digits as name the float exactly. */
static void put_float(qn_str *out, const char *name, float f)
{
    int digits = 6;
    for (char text[32]; digits < 9; digits++) { /* written and read under the same locale, whatever it is */
        snprintf(text, sizeof text, "%.*g", digits, (double)f);
        if (strtof(text, NULL) == f) break;
    }
    qn__str_printf(out, " %s=%.*g", name, digits, (double)f);
}

static void print_qn_no_attrs(const void *attrs, qn_str *out)
{
    (void)attrs;
    (void)out;
}

static void print_qn_view_attrs(const void *attrs, qn_str *out)
{
    const qn_layout *l = &((const qn_view_attrs *)attrs)->layout;
    qn_shape strides = {.rank = l->rank};
    char text[QN_SHAPE_TEXT];
    memcpy(strides.dim, l->stride, sizeof strides.dim);
    if (!qn_layout_is_contiguous(l)) qn__str_printf(out, " strides=%s", qn_shape_print(&strides, text, sizeof text));
    if (l->offset != 0) qn__str_printf(out, " offset=%lld", (long long)l->offset);
}

static void print_qn_copy_attrs(const void *attrs, qn_str *out)
{
    (void)attrs; /* the dtype is the result's */
    (void)out;
}

static void print_qn_norm_attrs(const void *attrs, qn_str *out)
{
    put_float(out, "eps", (float)((const qn_norm_attrs *)attrs)->eps);
}

static void print_qn_scale_attrs(const void *attrs, qn_str *out)
{
    const qn_scale_attrs *a = attrs;
    put_float(out, "scale", a->scale);
    if (a->bias != 0.0f) put_float(out, "bias", a->bias);
}

static void print_qn_rope_attrs(const void *attrs, qn_str *out)
{
    const qn_rope_attrs *a = attrs;
    qn__str_printf(out, " mode=%s n_rot=%d", a->mode == QN_ROPE_NEOX ? "neox" : "norm", a->n_rot);
    put_float(out, "base", a->base);
    if (a->freq_scale != 1.0f) put_float(out, "freq_scale", a->freq_scale);
    if (a->attn_factor != 1.0f) put_float(out, "attn_factor", a->attn_factor);
    if (qn__rope_in_sections(a))
        qn__str_printf(out, " sections=[%d,%d,%d,%d]%s%s", a->sections[0], a->sections[1], a->sections[2],
                       a->sections[3], a->interleaved ? " interleaved" : "", a->of_text ? " of_text" : "");
    if (a->ext_factor == 0.0f) return;
    put_float(out, "ext_factor", a->ext_factor);
    put_float(out, "beta_fast", a->beta_fast);
    put_float(out, "beta_slow", a->beta_slow);
    qn__str_printf(out, " n_ctx_orig=%d%s", a->n_ctx_orig, a->exact_bounds ? " exact_bounds" : "");
}

static void print_qn_slice_attrs(const void *attrs, qn_str *out)
{
    const qn_slice_attrs *a = attrs;
    qn__str_printf(out, " dim=%d start=%lld%s", a->dim, (long long)a->start, a->accumulate ? " accumulate" : "");
}

static void print_qn_attn_attrs(const void *attrs, qn_str *out)
{
    const qn_attn_attrs *a = attrs;
    put_float(out, "scale", a->scale);
    if (a->softcap != 0.0f) put_float(out, "softcap", a->softcap);
    if (a->alibi != 0.0f) put_float(out, "alibi", a->alibi);
    if (a->has_sinks) qn__str_puts(out, " sinks");
}

static void print_qn_value_attrs(const void *attrs, qn_str *out)
{
    qn__str_printf(out, " value=%.9g", ((const qn_value_attrs *)attrs)->value);
}

static void print_qn_strict_attrs(const void *attrs, qn_str *out)
{
    if (((const qn_strict_attrs *)attrs)->strict != QN_STRICT_not) qn__str_puts(out, " strict");
}

static void print_qn_range_attrs(const void *attrs, qn_str *out)
{
    const qn_range_attrs *a = attrs;
    qn__str_printf(out, " min=%.9g max=%.9g", a->min, a->max);
}

static void print_qn_clamp_attrs(const void *attrs, qn_str *out)
{
    const qn_clamp_attrs *a = attrs;
    qn__str_printf(out, " min=%.9g max=%.9g", a->min, a->max);
}

static void print_qn_gelu_attrs(const void *attrs, qn_str *out)
{
    if (((const qn_gelu_attrs *)attrs)->tanh) qn__str_printf(out, " tanh");
}

static void print_qn_softplus_attrs(const void *attrs, qn_str *out)
{
    const qn_softplus_attrs *a = attrs;
    qn__str_printf(out, " beta=%.9g threshold=%.9g", a->beta, a->threshold);
}

static void print_qn_full_attrs(const void *attrs, qn_str *out) /* dtype and shape are the result's */
{
    qn__str_printf(out, " value=%.9g", ((const qn_full_attrs *)attrs)->value);
}

static void print_qn_arange_attrs(const void *attrs, qn_str *out)
{
    const qn_arange_attrs *a = attrs;
    qn__str_printf(out, " start=%.9g step=%.9g", a->start, a->step);
}

static void print_qn_reduce_attrs(const void *attrs, qn_str *out)
{
    const qn_reduce_attrs *a = attrs;
    const char *comma = " dims=";
    for (int i = 0; i < QN_MAX_RANK; i++) {
        if ((a->dims >> i & 1) == 0) continue;
        qn__str_printf(out, "%s%d", comma, i);
        comma = ",";
    }
    if (a->keep) qn__str_printf(out, " keep");
    if (a->value != 0) qn__str_printf(out, " value=%.9g", a->value);
}

static void print_qn_along_attrs(const void *attrs, qn_str *out)
{
    qn__str_printf(out, " dim=%d", ((const qn_along_attrs *)attrs)->dim);
}

#include "graph/print/attrs_ops.h"
#include "graph/print/attrs_layers.h"

void qn__attrs_print(const qn_node *n, qn_str *out)
{
    static void (*const printers[QN_OP_COUNT])(const void *, qn_str *) = {
#define QN_OP(name, kind, min, max, attrs, rule, inplace, follows, cost, formula) print_##attrs,
#include "graph/ops.def"
#undef QN_OP
    };
    if (n->attrs != NULL) printers[n->op](n->attrs, out); /* not known of a recorded graph */
}

/* ---- words ---- */

const char *qn__print_name(const char *name, int max, char buf[QN_LABEL_TEXT])
{
    const size_t len = strlen(name);
    qn__str_quote(buf, QN_LABEL_TEXT, name, len);
    int shown = 0;
    char *cut = NULL; /* before the last three characters that would be shown */
    for (char *p = buf; max > 0 && *p != '\0'; p++) {
        if (((unsigned char)*p & 0xc0) == 0x80) continue;
        if (shown == max - 3) cut = p;
        if (++shown > max && cut != NULL) {
            memcpy(cut, "...", 4);
            break;
        }
    }
    return buf;
}

const char *qn__print_place(const qn_print_options *o, int place, char buf[QN_LABEL_TEXT])
{
    if (o->place_names != NULL && place >= 0 && o->place_names[place] != NULL) {
        return qn__print_name(o->place_names[place], 40, buf);
    }
    snprintf(buf, QN_LABEL_TEXT, "place %d", place);
    return buf;
}

void qn__print_type(const qn_node *n, qn_str *out)
{
    char text[QN_SHAPE_TEXT];
    qn__str_printf(out, "%s %s", qn_dtype_get(n->dtype)->name, qn__layout_print(&n->layout, text));
}

const char *qn__print_time(double ns, char buf[QN_TIME_TEXT])
{
    /* whole: no decimal comma of a locale */
    const uint64_t tenths = ns > 0 && ns < 1e17 ? (uint64_t)(ns / 100.0 + 0.5) : 0;
    snprintf(buf, QN_TIME_TEXT, "%llu.%u us", (unsigned long long)(tenths / 10), (unsigned)(tenths % 10));
    return buf;
}

/* ---- colours ---- */

const char *qn__place_color(int place)
{
    /* Light enough for black text on them, and told apart by most colour-blind eyes (after Okabe and Ito 2008). */
    static const char *const colors[] = {"#a6cee8", "#f6cf87", "#9bdcc3", "#e7b6d1",
                                         "#f3ea93", "#8fb3d9", "#f0ae85", "#c9c9c9"};
    return place >= 0 ? colors[(size_t)place % (sizeof colors / sizeof colors[0])] : "#f2f2f2";
}

const char *qn__heat_color(double part, char buf[QN_COLOR_TEXT])
{
    const double t = part >= 0 && part <= 1 ? sqrt(part) : part > 1; /* the root spreads the many small ones */
    snprintf(buf, QN_COLOR_TEXT, "#%02x%02x%02x", (unsigned)(255 - 20 * t), (unsigned)(250 - 165 * t),
             (unsigned)(240 - 175 * t));
    return buf;
}

/* Patterns of operations, the first that fits: what takes the time of models, then what is left. */
static const struct {
    const char *name, *ops[6];
} groups[QN_PRINT_GROUPS] = {
    {"input, param", {"input", "param"}},
    {"view", {"view"}},
    {"product", {"linear*", "matmul*", "*_linear*"}},
    {"attention", {"attention*", "sdpa*", "flash*"}},
    {"norm", {"*norm*", "softmax*"}},
    {"rows, cache", {"get_rows*", "set_rows*", "gather*", "scatter*", "slice*", "index*"}},
    {"rope", {"rope*"}},
    {"copy", {"copy*", "transfer*"}},
    {"sum, order", {"sum*", "mean*", "top*", "arg*", "sort*", "cumsum*"}},
    {"elementwise", {"*"}},
};

int qn__print_group(const qn_node *n)
{
    const char *op = qn__op_info(n->op)->name;
    if (qn__op_info(n->op)->kind == QN_KIND_leaf) return 0;
    if (qn__node_is_view(n)) return 1;
    for (int i = 2; i < QN_PRINT_GROUPS; i++)
        for (int k = 0; k < 6 && groups[i].ops[k]; k++)
            if (qn__glob_match(groups[i].ops[k], op)) return i;
    return QN_PRINT_GROUPS - 1;
}

const char *qn__group_name(int group) { return groups[group].name; }

const char *qn_graph_color_name(int color)
{
#define NAME(name, text) #name,
    static const char *const names[] = {QN_GRAPH_COLOR_ROWS(NAME)};
#undef NAME
    return color >= 0 && color < QN_GRAPH_COLOR_COUNT ? names[color] : "?";
}

double qn__print_bytes(const qn_print_options *o, const qn_node *n)
{
    if (o->node_bytes != NULL) return o->node_bytes[n->id];
    const qn_trace_node_cost c = qn__node_cost(n);
    return (double)c.weight_bytes + (double)c.cache_bytes + (double)c.act_bytes +
           (double)c.expert_bytes * (double)c.n_used;
}

/* A row a colour. */
static double no_measure(const qn_print_options *o, const qn_node *n) { return (void)o, (void)n, 0; }
static double time_of(const qn_print_options *o, const qn_node *n)
{
    return o->node_ns != NULL && o->node_ns[n->id] > 0 ? o->node_ns[n->id] : 0;
}
static const struct {
    double (*measure)(const qn_print_options *o, const qn_node *n);
    bool heat;
} colorings[QN_GRAPH_COLOR_COUNT] = {
    [QN_GRAPH_COLOR_backend] = {no_measure, false},
    [QN_GRAPH_COLOR_kind] = {no_measure, false},
    [QN_GRAPH_COLOR_time] = {time_of, true},
    [QN_GRAPH_COLOR_bytes] = {qn__print_bytes, true},
};

bool qn__print_is_heat(const qn_print_options *o) { return colorings[o->color].heat; }

const char *qn__print_measure(const qn_print_options *o, double x, char buf[QN_TIME_TEXT])
{
    if (o->color == QN_GRAPH_COLOR_time) return qn__print_time(x, buf);
    return qn__str_bytes(buf, QN_TIME_TEXT, x > 0 && x < 1e18 ? (uint64_t)x : 0);
}

double qn__print_most(const qn_graph *g, const qn_print_options *o)
{
    double most = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const double x = qn__print_shows(o, g->nodes[i]) ? colorings[o->color].measure(o, g->nodes[i]) : 0;
        if (x > most) most = x;
    }
    return most;
}

const char *qn__print_color(const qn_print_options *o, const qn_node *n, double most, char buf[QN_COLOR_TEXT])
{
    if (colorings[o->color].heat) return qn__heat_color(most > 0 ? colorings[o->color].measure(o, n) / most : 0, buf);
    if (o->color == QN_GRAPH_COLOR_kind)
        return qn__print_group(n) < 2 ? "#fafafa" : qn__place_color(qn__print_group(n) - 2);
    return qn__place_color(n->place);
}

/* ---- text: one line a node ---- */

static void print_line(const qn_print_options *o, const qn_node *n, qn_str *out)
{
    char text[QN_LABEL_TEXT], time[QN_TIME_TEXT];
    qn__str_printf(out, "%%%d %s", n->id, qn__op_info(n->op)->name);
    for (int k = 0; k < n->n_src; k++) qn__str_printf(out, "%s%%%d", k == 0 ? "(" : ", ", n->src[k]->id);
    if (n->n_src > 0) qn__str_putc(out, ')');
    if (n->name[0] != '\0') qn__str_printf(out, " \"%s\"", qn__print_name(n->name, 0, text));
    qn__str_putc(out, ' ');
    qn__print_type(n, out);
    qn__attrs_print(n, out);
    if (n->flags & QN_NODE_mutable) qn__str_puts(out, " mutable");
    if (n->flags & QN_NODE_const) qn__str_puts(out, " const");
    if (n->layer >= 0) qn__str_printf(out, " layer=%d", n->layer);
    if (n->place >= 0) qn__str_printf(out, " on %s", qn__print_place(o, n->place, text));
    if (n->flags & QN_NODE_output) qn__str_puts(out, " output");
    if (o->node_ns != NULL && o->node_ns[n->id] >= 0)
        qn__str_printf(out, " %s", qn__print_time(o->node_ns[n->id], time));
    if (o->color == QN_GRAPH_COLOR_bytes) qn__str_printf(out, " %s", qn__print_measure(o, qn__print_bytes(o, n), time));
    qn__str_putc(out, '\n');
}

qn_status qn__print_text(const qn_graph *g, const qn_print_options *o, qn_str *out, qn_error *err)
{
    (void)err;
    char text[QN_LABEL_TEXT];
    int32_t shown = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) shown += qn__print_shows(o, g->nodes[i]);
    qn__str_puts(out, "graph");
    if (o->title != NULL) qn__str_printf(out, " \"%s\"", qn__print_name(o->title, 0, text));
    qn__str_printf(out, ": %d nodes", g->n_nodes);
    if (shown != g->n_nodes) qn__str_printf(out, ", %d of layer %d", shown, o->layer);
    qn__str_putc(out, '\n');
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (qn__print_shows(o, g->nodes[i])) print_line(o, g->nodes[i], out);
    }
    return QN_OK;
}

/* ---- the choice ---- */

qn_status qn__graph_print(const qn_graph *g, qn_graph_format format, const qn_print_options *options, qn_str *out,
                          qn_error *err)
{
    static const qn_print_options defaults;
    static qn_status (*const printers[])(const qn_graph *, const qn_print_options *, qn_str *, qn_error *) = {
        [QN_GRAPH_text] = qn__print_text,
        [QN_GRAPH_dot] = qn__print_dot,
        [QN_GRAPH_svg] = qn__print_svg,
    };
    if ((unsigned)format >= sizeof printers / sizeof printers[0]) {
        return QN_FAIL(err, invalid, "graph format %d does not exist", (int)format);
    }
    if (options == NULL) options = &defaults;
    if ((unsigned)options->color >= QN_GRAPH_COLOR_COUNT)
        return QN_FAIL(err, invalid, "colour %d does not exist", (int)options->color);
    if (options->color == QN_GRAPH_COLOR_time && options->node_ns == NULL)
        return QN_FAIL(err, invalid, "no times are known: they come from a recording (--trace)");
    QN_TRY(printers[format](g, options, out, err));
    return out->failed ? QN_FAIL(err, nomem, "out of memory while a graph was printed") : QN_OK;
}
