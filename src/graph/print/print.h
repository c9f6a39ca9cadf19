/* SPDX-License-Identifier: MIT */
/* src/graph/print/print.h -- what the three printers share: which nodes are shown, in what words and colours. */
#ifndef QN_GRAPH_PRINT_H
#define QN_GRAPH_PRINT_H

#include "graph/internal.h"

/* One function a format, by the row of qn_graph_format. They append; running out of memory shows in out->failed or the
 * status. */
qn_status qn__print_text(const qn_graph *g, const qn_print_options *o, qn_str *out, qn_error *err);
qn_status qn__print_dot(const qn_graph *g, const qn_print_options *o, qn_str *out, qn_error *err);
qn_status qn__print_svg(const qn_graph *g, const qn_print_options *o, qn_str *out, qn_error *err);

static inline bool qn__print_shows(const qn_print_options *o, const qn_node *n)
{
    return !o->by_layer_only || o->layer < 0 || n->layer == o->layer;
}

/* A name cut to `max` characters (0: not cut) and made harmless: see qn__str_quote. */
#define QN_LABEL_TEXT 512
const char *qn__print_name(const char *name, int max, char buf[QN_LABEL_TEXT]);
/* The name of a place, or "place 3"; harmless. */
const char *qn__print_place(const qn_print_options *o, int place, char buf[QN_LABEL_TEXT]);
/* "F32 [4,64]" */
void qn__print_type(const qn_node *n, qn_str *out);
/* "12.3 us" */
#define QN_TIME_TEXT 32
const char *qn__print_time(double ns, char buf[QN_TIME_TEXT]);
/* What colours tell when that is a number, in its unit: "12.3 us", "1.5 KiB". */
const char *qn__print_measure(const qn_print_options *o, double x, char buf[QN_TIME_TEXT]);
bool qn__print_is_heat(const qn_print_options *o); /* a number: white to red, as a part of the greatest */
/* "#rrggbb" */
#define QN_COLOR_TEXT 8
const char *qn__print_color(const qn_print_options *o, const qn_node *n, double most, char buf[QN_COLOR_TEXT]);
const char *qn__place_color(int place);
const char *qn__heat_color(double part, char buf[QN_COLOR_TEXT]);    /* part from 0 to 1 */
double qn__print_most(const qn_graph *g, const qn_print_options *o); /* of the shown nodes; 0 where it is no heat */
double qn__print_bytes(const qn_print_options *o, const qn_node *n);
/* Groups of operations, and the one that a node belongs to. */
enum { QN_PRINT_GROUPS = 10 };
int qn__print_group(const qn_node *n);
const char *qn__group_name(int group);

#endif
