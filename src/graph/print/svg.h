/* SPDX-License-Identifier: MIT */
/* src/graph/print/svg.h -- a drawing before it is written: boxes and bends in ranks, with coordinates in pixels. */
#ifndef QN_GRAPH_SVG_H
#define QN_GRAPH_SVG_H

#include "graph/print/print.h"

#define QN_SVG_LINES 5

/* A box for a node; a chip, that is a small box for a leaf or a far-away value beside one of its users; or a bend of an
 * edge. */
typedef struct qn_svg_item {
    const qn_node *node; /* NULL for a bend */
    bool chip;
    int8_t n_lines;
    const char *line[QN_SVG_LINES];
    int32_t rank, order; /* order: from the left in its rank */
    int32_t width, height;
    double x, y; /* center, top */
} qn_svg_item;

/* An edge passes through items[route[first]] .. items[route[first + count - 1]], one a rank, from source to user. */
typedef struct qn_svg_edge {
    int32_t first, count;
    int32_t src_index; /* which source of its user it is */
} qn_svg_edge;

typedef struct qn_svg_rank {
    int32_t *items; /* from left to right */
    int32_t n_items, height;
    double y;
} qn_svg_rank;

typedef struct qn_svg {
    qn_arena arena;
    qn_svg_item *items;
    qn_svg_edge *edges;
    int32_t *route;
    qn_svg_rank *ranks;
    int32_t n_items, n_edges, n_route, n_ranks;
    /* neighbours of item i: up[up_at[i]] .. up[up_at[i + 1] - 1], likewise down */
    int32_t *up, *up_at, *down, *down_at;
    double width, height; /* of all items, which start at 0, 0 */
} qn_svg;

/* Items and edges (svg_items.c), then their order and coordinates (svg_place.c). The caller releases d->arena in any
 * case. */
qn_status qn__svg_collect(const qn_graph *g, const qn_print_options *o, qn_svg *d, qn_error *err);
qn_status qn__svg_place(qn_svg *d, qn_error *err);

#endif
