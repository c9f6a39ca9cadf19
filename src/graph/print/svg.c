/* SPDX-License-Identifier: MIT */
/* src/graph/print/svg.c -- writes a placed drawing as SVG: a file that any browser opens, with no script and nothing
 * loaded from elsewhere. Coordinates are whole pixels. All text passes put_escaped. */
#include "graph/print/svg.h"
#include <math.h>
#include <string.h>

#define MARGIN       16
#define LAYER_MARGIN 64 /* left of the drawing, for the brackets of layers */
#define HEADER       78 /* above it, for title and legend */

typedef struct writer {
    const qn_graph *g;
    const qn_print_options *o;
    const qn_svg *d;
    qn_str *out;
    double most;
} writer;

/* XML's own characters, and the two code points of the basic plane that XML forbids. */
static void put_escaped(qn_str *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p == '<')
            qn__str_puts(out, "&lt;");
        else if (*p == '>')
            qn__str_puts(out, "&gt;");
        else if (*p == '&')
            qn__str_puts(out, "&amp;");
        else if (*p == '"')
            qn__str_puts(out, "&quot;");
        else if (p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe)
            qn__str_putc(out, '?'), p += 2;
        else
            qn__str_putc(out, (char)*p);
    }
}

static int at_x(double x) { return (int)lround(x) + MARGIN + LAYER_MARGIN; }
static int at_y(double y) { return (int)lround(y) + HEADER; }

/* ---- edges ---- */

/* Where edge e enters the upper border of its user: the edges spread over it in the order in which they come. */
static double entry_x(const qn_svg *d, int32_t e)
{
    const qn_svg_edge *self = &d->edges[e];
    const int32_t to = d->route[self->first + self->count - 1];
    const double x = d->items[d->route[self->first + self->count - 2]].x;
    int before = 0, n = 0;
    for (int32_t other = e - self->src_index; other < d->n_edges; other++) { /* a user's edges follow each other */
        const int32_t *end = d->route + d->edges[other].first + d->edges[other].count;
        if (end[-1] != to) break;
        n++;
        before += d->items[end[-2]].x < x || (d->items[end[-2]].x == x && other < e);
    }
    return d->items[to].x + d->items[to].width * ((before + 1.0) / (n + 1.0) - 0.5) * 0.8;
}

static void put_edge(const writer *w, int32_t index)
{
    const qn_svg_edge *e = &w->d->edges[index];
    const int32_t *route = w->d->route + e->first;
    const qn_svg_item *from = &w->d->items[route[0]], *to = &w->d->items[route[e->count - 1]];
    const qn_svg_rank *rank = &w->d->ranks[from->rank];
    int x = at_x(from->x), y = at_y(from->y + from->height);
    qn__str_printf(w->out, "<path d=\"M%d %d", x, y);
    /* past taller boxes */
    if (y < at_y(rank->y + rank->height)) qn__str_printf(w->out, " V%d", y = at_y(rank->y + rank->height));
    for (int32_t k = 1; k < e->count; k++) {
        const qn_svg_item *it = &w->d->items[route[k]];
        const int next_x = at_x(it == to ? entry_x(w->d, index) : it->x);
        const int next_y = at_y(it == to ? w->d->ranks[it->rank].y : it->y), half = (next_y - y) / 2;
        qn__str_printf(w->out, " C%d %d %d %d %d %d", x, y + half, next_x, next_y - half, next_x, next_y);
        if (it != to) qn__str_printf(w->out, " V%d", next_y + it->height);
        x = next_x;
        y = it != to ? next_y + it->height : next_y;
    }
    qn__str_printf(w->out, "\"%s/>\n", from->chip ? " class=\"thin\"" : "");
}

/* ---- boxes ---- */

static void put_tooltip(const writer *w, const qn_node *n)
{
    char text[QN_LABEL_TEXT];
    qn_str attrs = {0};
    qn__attrs_print(n, &attrs);
    qn__str_printf(w->out, "<title>%%%d %s", n->id, qn__op_info(n->op)->name);
    if (attrs.data != NULL) put_escaped(w->out, attrs.data);
    qn__str_putc(w->out, '\n');
    if (n->name[0] != '\0') {
        put_escaped(w->out, qn__print_name(n->name, 0, text));
        qn__str_putc(w->out, '\n');
    }
    put_escaped(w->out, qn__op_info(n->op)->formula);
    if (n->place >= 0) {
        qn__str_puts(w->out, "\non ");
        put_escaped(w->out, qn__print_place(w->o, n->place, text));
    }
    qn__str_puts(w->out, "</title>");
    if (attrs.failed) w->out->failed = true;
    qn__str_deinit(&attrs);
}

static void put_item(const writer *w, const qn_svg_item *it)
{
    const qn_node *n = it->node;
    const bool outside = !qn__print_shows(w->o, n), view = qn__node_is_view(n);
    char color[QN_COLOR_TEXT];
    const int x = at_x(it->x), y = at_y(it->y), step = it->chip ? 12 : 14;
    const char *fill = it->chip ? (outside ? "#e8e8e8" : "#fafafa") : qn__print_color(w->o, n, w->most, color);
    qn__str_puts(w->out, "<g>");
    put_tooltip(w, n);
    qn__str_printf(w->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\"%s%s/>",
                   at_x(it->x - it->width / 2.0), y, it->width, it->height, it->chip ? it->height / 2 : 3, fill,
                   view || it->chip ? " stroke-dasharray=\"3 2\"" : "",
                   n->flags & (QN_NODE_output | QN_NODE_mutable) ? " stroke-width=\"2.5\"" : "");
    for (int i = 0; i < it->n_lines; i++) {
        const char *class = it->chip ? "c" : i == 0 ? "op" : "t";
        qn__str_printf(w->out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", class, x, y + 4 + step * (i + 1) - 3);
        put_escaped(w->out, it->line[i]);
        qn__str_puts(w->out, "</text>");
    }
    qn__str_puts(w->out, "</g>\n");
}

/* ---- what surrounds the drawing ---- */

/* A bracket for each run of ranks whose boxes begin in one layer; neighbours alternate between two columns. */
static qn_status put_layers(const writer *w, qn_error *err)
{
    const qn_svg *d = w->d;
    int32_t n_layers = 0;
    for (int32_t i = 0; i < d->n_items; i++) {
        const qn_node *n = d->items[i].node;
        if (n != NULL && !d->items[i].chip && n->layer >= n_layers && n->layer < 1 << 16) n_layers = n->layer + 1;
    }
    struct range {
        int32_t top, bottom;
    } *ranges = qn__calloc((size_t)n_layers, sizeof *ranges);
    if (ranges == NULL) return QN_FAIL_NOMEM(err, (size_t)n_layers * sizeof *ranges);
    for (int32_t i = 0; i < d->n_items; i++) {
        const qn_svg_item *it = &d->items[i];
        if (it->node == NULL || it->chip || it->node->layer < 0 || it->node->layer >= n_layers) continue;
        struct range *r = &ranges[it->node->layer];
        const int32_t top = at_y(it->y), bottom = at_y(it->y) + it->height;
        if (r->bottom == 0 || top < r->top) r->top = top;
        if (bottom > r->bottom) r->bottom = bottom;
    }
    for (int32_t l = 0; l < n_layers; l++) {
        const int x = MARGIN + 18 + (l % 2) * 26, middle = (ranges[l].top + ranges[l].bottom) / 2;
        if (ranges[l].bottom == 0) continue;
        qn__str_printf(w->out, "<path class=\"layer\" d=\"M%d %d H%d V%d H%d\"/>", x + 6, ranges[l].top, x,
                       ranges[l].bottom, x + 6);
        qn__str_printf(w->out, "<text class=\"c\" transform=\"rotate(-90 %d %d)\" x=\"%d\" y=\"%d\">layer %d</text>\n",
                       x - 5, middle, x - 5, middle, l);
    }
    qn__free(ranges);
    return QN_OK;
}

static int put_swatch(const writer *w, int x, const char *fill, const char *text)
{
    int chars = 0;
    for (const char *p = text; *p != '\0'; p++) chars += ((unsigned char)*p & 0xc0) != 0x80;
    qn__str_printf(w->out, "<rect x=\"%d\" y=\"36\" width=\"14\" height=\"14\" fill=\"%s\"/>", x, fill);
    qn__str_printf(w->out, "<text class=\"l\" x=\"%d\" y=\"47\">", x + 19);
    put_escaped(w->out, text);
    qn__str_puts(w->out, "</text>\n");
    return x + 19 + chars * 7 + 16;
}

/* Returns how far to the right it reaches. */
static int put_legend(const writer *w)
{
    int x = MARGIN;
    char text[QN_LABEL_TEXT], color[QN_COLOR_TEXT];
    if (qn__print_is_heat(w->o)) {
        for (int i = 0; i <= 4; i++) {
            const double part = i * i / 16.0;
            x = put_swatch(w, x, qn__heat_color(part, color), qn__print_measure(w->o, part * w->most, text));
        }
    } else if (w->o->color == QN_GRAPH_COLOR_kind) {
        bool seen[QN_PRINT_GROUPS] = {false};
        for (int32_t i = 0; i < w->d->n_items; i++)
            if (w->d->items[i].node != NULL && !w->d->items[i].chip) seen[qn__print_group(w->d->items[i].node)] = true;
        for (int k = 2; k < QN_PRINT_GROUPS; k++)
            if (seen[k]) x = put_swatch(w, x, qn__place_color(k - 2), qn__group_name(k));
    } else {
        uint64_t seen = 0; /* bit place + 1 */
        for (int32_t i = 0; i < w->d->n_items; i++) {
            const qn_svg_item *it = &w->d->items[i];
            if (it->node != NULL && !it->chip && it->node->place < 62) seen |= UINT64_C(1) << (it->node->place + 1);
        }
        if (seen & 1) x = put_swatch(w, x, qn__place_color(-1), "not placed");
        for (int p = 0; p < 62; p++) {
            if (seen >> (p + 1) & 1) x = put_swatch(w, x, qn__place_color(p), qn__print_place(w->o, p, text));
        }
    }
    static const char notes[] = "round: input, param or a value from elsewhere    dashed: no computation    "
                                "bold frame: output or resident";
    qn__str_printf(w->out, "<text class=\"l\" xml:space=\"preserve\" x=\"%d\" y=\"66\">%s</text>\n", MARGIN, notes);
    const int reach = MARGIN + (int)sizeof notes * 7;
    return x > reach ? x : reach;
}

static const char style[] =
    "<style>text{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#111;text-anchor:middle}"
    ".h{font-size:15px;font-weight:bold;text-anchor:start}.l{font-size:11px;text-anchor:start}.op{font-size:11px;font-"
    "weight:bold}"
    ".t{font-size:11px}.c{font-size:10px;fill:#333}rect{stroke:#555}path{fill:none;stroke:#777;stroke-width:1.2;"
    "marker-end:url(#a)}path.thin{stroke:#aaa;stroke-width:1}path.layer{stroke:#999;marker-end:none}</style>\n"
    "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" "
    "orient=\"auto\">"
    "<polygon points=\"0,1 8,4 0,7\" fill=\"#777\"/></marker></defs>\n";

static qn_status put_all(const writer *w, qn_error *err)
{
    char text[QN_LABEL_TEXT];
    qn_str body = {0}; /* the legend decides about the width, which comes first in the file */
    writer b = *w;
    b.out = &body;
    const int reach = put_legend(&b), drawn = at_x(w->d->width) + MARGIN,
              width = reach + MARGIN > drawn ? reach + MARGIN : drawn;
    const int height = at_y(w->d->height) + MARGIN;
    qn__str_printf(w->out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
                   width, height, width, height);
    qn__str_puts(w->out, style);
    qn__str_printf(w->out, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\" style=\"stroke:none\"/>\n", width,
                   height);
    qn__str_printf(w->out, "<text class=\"h\" x=\"%d\" y=\"24\">", MARGIN);
    put_escaped(w->out, w->o->title != NULL ? qn__print_name(w->o->title, 120, text) : "graph");
    qn__str_puts(w->out, "</text>\n");
    if (body.data != NULL) qn__str_append(w->out, body.data, body.len);
    if (body.failed) w->out->failed = true;
    qn__str_deinit(&body);

    for (int32_t e = 0; e < w->d->n_edges; e++) put_edge(w, e);
    for (int32_t i = 0; i < w->d->n_items; i++) {
        if (w->d->items[i].node != NULL) put_item(w, &w->d->items[i]);
    }
    QN_TRY(put_layers(w, err));
    qn__str_puts(w->out, "</svg>\n");
    return QN_OK;
}

qn_status qn__print_svg(const qn_graph *g, const qn_print_options *o, qn_str *out, qn_error *err)
{
    qn_svg d;
    qn_status status = qn__svg_collect(g, o, &d, err);
    if (status == QN_OK) status = qn__svg_place(&d, err);
    const writer w = {.g = g, .o = o, .d = &d, .out = out, .most = qn__print_most(g, o)};
    if (status == QN_OK) status = put_all(&w, err);
    qn__arena_deinit(&d.arena);
    return status;
}
