/* SPDX-License-Identifier: MIT */
/* src/engine/tap.c -- setting taps, and what happens at one while a graph runs. */
#include "engine/tap.h"
#include "base/trace.h"
#include "model/roles.h"

#include <stdatomic.h>
#include <string.h>

/* ---- the actions ---- */

static const qn_tap_action actions[] = {
#define QN_TAP_ACTION(name, arg, text) {#name, arg, text},
#include "engine/taps.def"
#undef QN_TAP_ACTION
    {NULL, NULL, NULL},
};
static const qn_tap_type *const types[] = {
#define QN_TAP_ACTION(name, arg, text) &qn__tap_##name,
#include "engine/taps.def"
#undef QN_TAP_ACTION
};

const qn_tap_action *qn_tap_actions(void) { return actions; }

/* Of whose runs this thread calls functions, one inside of another. */
typedef struct calling {
    const qn_engine *engine;
    const struct calling *outer;
} calling;
static _Thread_local const calling *innermost;

bool qn__tap_calls(const qn_engine *engine)
{
    for (const calling *c = innermost; c; c = c->outer)
        if (c->engine == engine) return true;
    return false;
}

/* Of a caller: whatever it does. */
static qn_status call(qn_tap_slot *slot, qn_tap_value *value, qn_error *err)
{
    const calling here = {slot->tap->taps->session->engine, innermost};
    innermost = &here;
    qn__trace_pause(true); /* what it computes would stand in the middle of the run's nodes */
    const qn_status status = slot->tap->fn(slot->tap->fn_ctx, value, err);
    qn__trace_pause(false);
    innermost = here.outer;
    return status;
}
static const qn_tap_type looks = {.run = call}, changes = {.run = call, .changes = true};

/* ---- reading "PATTERN[@TOKENS]=ACTION[=ARGUMENT]" ---- */

static qn_status bad(const char *text, const char *what, qn_error *err)
{
    char quoted[128];
    return QN_FAIL(err, invalid, "tap \"%s\": %s", qn__str_quote(quoted, sizeof quoted, text, strlen(text)), what);
}

/* "5", "5-9" or "5-" */
static bool parse_range(const char *text, int32_t *first, int32_t *last)
{
    char copy[32];
    int64_t a, b = INT32_MAX;
    if (strlen(text) >= sizeof copy) return false;
    strcpy(copy, text);
    char *dash = strchr(copy, '-');
    if (dash) *dash++ = '\0';
    if (!qn__parse_i64(copy, 0, INT32_MAX, &a)) return false;
    if (!dash) b = a;
    if (dash && *dash && !qn__parse_i64(dash, a, INT32_MAX, &b)) return false;
    *first = (int32_t)a;
    *last = (int32_t)b;
    return true;
}

static bool parse_tokens(qn_tap *tap, char *text)
{
    for (char *end; text; text = end) {
        end = strchr(text, ',');
        if (end) *end++ = '\0';
        if (tap->n_ranges == QN_TAP_RANGES) return false;
        if (!parse_range(text, &tap->ranges[tap->n_ranges].first, &tap->ranges[tap->n_ranges].last)) return false;
        tap->n_ranges++;
    }
    return true;
}

static qn_status parse_action(qn_tap *tap, const char *text, char *action, qn_error *err)
{
    char *arg = strchr(action, '=');
    if (arg) *arg++ = '\0';
    for (int i = 0; actions[i].name; i++) {
        if (strcmp(actions[i].name, action) != 0) continue;
        const char *wants = actions[i].argument;
        if (arg && !*wants) return bad(text, "this action takes no argument", err);
        if (!(arg && *arg) && *wants && *wants != '[') return bad(text, "the action's argument is missing", err);
        tap->type = types[i];
        tap->arg = arg ? arg : "";
        return QN_OK;
    }
#define QN_TAP_ACTION(name, arg, text) " " #name
    return bad(text, "unknown action; there are"
#include "engine/taps.def"
               ,
               err);
#undef QN_TAP_ACTION
}

static qn_status parse(qn_tap *tap, const char *text, qn_error *err)
{
    char *copy = qn__arena_strdup(&tap->taps->arena, text);
    if (!copy) return QN_FAIL_NOMEM(err, strlen(text) + 1);
    char *action = strchr(copy, '=');
    if (!action || action == copy)
        return bad(text, "PATTERN[@TOKENS]=ACTION is expected, such as ffn_out-3=stats", err);
    *action++ = '\0';
    char *tokens = strchr(copy, '@');
    if (tokens) *tokens++ = '\0';
    tap->pattern = copy;
    if (tokens && !parse_tokens(tap, tokens))
        return bad(text, "behind @ positions are expected, such as 0,4-7,12- (at most 16)", err);
    return parse_action(tap, text, action, err);
}

/* ---- points ---- */

static qn_tap_point *find_point(const qn_taps *t, const char *name)
{
    for (qn_tap_point *p = t->points; p; p = p->next)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

typedef struct search {
    qn_tap *tap;
    bool *scratch;
    int32_t n_tokens;
} search;

static qn_tap_point *make_point(search *s, const qn_graph *g, const qn_node *n)
{
    qn_taps *t = s->tap->taps;
    qn_tap_point *p = qn__arena_alloc(&t->arena, sizeof *p);
    char *name = qn__arena_strdup(&t->arena, n->name), *base = qn__arena_strdup(&t->arena, n->name);
    if (!p || !name || !base) return NULL;
    base[strcspn(base, ".-")] = '\0';
    *p = (qn_tap_point){.name = name,
                        .base = base,
                        .layer = n->layer,
                        .rows = qn__tap_rows_of(g, n, s->n_tokens, s->scratch),
                        .dtype = n->dtype,
                        .resident = n->root->op == QN_OP_param};
    const int skip = p->rows != QN_ROWS_none;
    p->row.rank = n->layout.rank - skip;
    for (int i = skip; i < n->layout.rank; i++) p->row.dim[i - skip] = n->layout.dim[i];
    p->row_size = qn_shape_numel(&p->row);
    return p;
}

static qn_status add_slot(void *ctx, const qn_graph *g, qn_node *n, qn_error *err)
{
    search *s = ctx;
    qn_tap *tap = s->tap;
    qn_taps *t = tap->taps;
    qn_tap_point *p = find_point(t, n->name);
    qn_tap_slot *slot = qn__arena_alloc(&t->arena, sizeof *slot);
    const bool found = p != NULL;
    if (!p) p = make_point(s, g, n);
    if (!p || !slot) return QN_FAIL_NOMEM(err, sizeof *p + sizeof *slot);
    if (!found) {
        p->next = t->points;
        t->points = p;
    }
    *slot = (qn_tap_slot){.tap = tap, .point = p};
    if (tap->type->match) QN_TRY(tap->type->match(tap, slot, g, n, err));
    if (tap->last_slot)
        tap->last_slot->next_of_tap = slot;
    else
        tap->slots = slot;
    tap->last_slot = slot;
    return QN_OK;
}

/* In the order of taps. */
static void link_slots(qn_tap *tap)
{
    for (qn_tap_slot *slot = tap->slots; slot; slot = slot->next_of_tap) {
        qn_tap_slot **at = &slot->point->slots;
        while (*at) at = &(*at)->next_of_point;
        *at = slot;
    }
}

/* Room for the largest value of the largest step. */
static qn_status make_room(qn_taps *t, qn_error *err)
{
    int64_t most = t->n_values;
    for (const qn_tap_point *p = t->points; p; p = p->next) {
        const int64_t rows = p->rows == QN_ROWS_none ? 1 : t->session->shape.n_batch;
        if (p->row_size * rows > most) most = p->row_size * rows;
    }
    if (most == t->n_values) return QN_OK;
    /* no type takes more than eight bytes an element */
    float *values = qn__alloc((size_t)most * 4 * sizeof(float));
    if (!values) return QN_FAIL_NOMEM(err, (size_t)most * 4 * sizeof(float));
    qn__free(t->values);
    t->values = values;
    t->picked = t->values + most;
    t->raw = (uint8_t *)(t->picked + most);
    t->n_values = most;
    return QN_OK;
}

static uint64_t next_set(void)
{
    static _Atomic uint64_t sets;
    return atomic_fetch_add(&sets, 1) + 1;
}

static qn_status find_points(qn_tap *tap, qn_error *err)
{
    qn_session *s = tap->taps->session;
    qn_graph *g = NULL;
    const int32_t n = s->shape.n_batch > 1 ? 2 : 1; /* so that a row is not the whole */
    QN_TRY(qn__session_refined(s, n, 1, &g, NULL, NULL, err));
    search look = {.tap = tap, .n_tokens = n, .scratch = qn__alloc(2 * (size_t)g->n_nodes)};
    qn_status status = look.scratch ? QN_OK : QN_FAIL_NOMEM(err, 2 * (size_t)g->n_nodes);
    if (status == QN_OK) status = qn__tap_match(g, tap->pattern, tap->type->changes, add_slot, &look, err);
    qn__free(look.scratch);
    qn__graph_destroy(g);
    if (status == QN_OK) status = make_room(tap->taps, err);
    return status;
}

/* ---- setting and ending ---- */

static qn_status create(qn_session *s, qn_error *err)
{
    if (s->taps) return QN_OK;
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_taps *t = qn__arena_alloc(&arena, sizeof *t);
    qn_tap_row *rows = qn__arena_array(&arena, 2 * (size_t)s->shape.n_batch, sizeof *rows);
    int32_t *items = qn__arena_array(&arena, (size_t)s->shape.n_batch, sizeof *items);
    if (!t || !rows || !items) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *t + 2 * (size_t)s->shape.n_batch * sizeof *rows);
    }
    *t = (qn_taps){
        .arena = arena, .session = s, .rows = rows, .picked_rows = rows + s->shape.n_batch, .picked_items = items};
    s->taps = t;
    return QN_OK;
}

/* `text`, or a function of the caller. */
static qn_status set(qn_session *s, const char *text, const qn_tap *fn, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(create(s, err));
    qn_taps *t = s->taps;
    qn_tap *tap = qn__arena_alloc(&t->arena, sizeof *tap);
    if (!tap) return QN_FAIL_NOMEM(err, sizeof *tap);
    if (fn) *tap = *fn;
    tap->taps = t;
    if (fn)
        tap->pattern = qn__arena_strdup(&t->arena, text);
    else
        QN_TRY(parse(tap, text, err));
    if (!tap->pattern) return QN_FAIL_NOMEM(err, strlen(text) + 1);
    qn_status status = tap->type->open ? tap->type->open(tap, err) : QN_OK;
    if (status == QN_OK) status = find_points(tap, err);
    if (status != QN_OK) {
        if (tap->type->close) tap->type->close(tap);
        return status;
    }
    link_slots(tap);
    t->set = next_set();
    if (t->last)
        t->last->next = tap;
    else
        t->first = tap;
    t->last = tap;
    return QN_OK;
}

qn_status qn_session_tap(qn_session *s, const char *text, qn_error *err) { return set(s, text, NULL, err); }

qn_status qn_session_tap_fn(qn_session *s, const char *pattern, bool may_change, qn_tap_fn fn, void *ctx, qn_error *err)
{
    return set(s, pattern, &(qn_tap){.type = may_change ? &changes : &looks, .fn = fn, .fn_ctx = ctx}, err);
}

qn_status qn_session_tap_report(qn_session *s, char **out, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_str text = {0};
    for (const qn_tap *tap = s->taps ? s->taps->first : NULL; tap; tap = tap->next)
        if (tap->type->report && !*tap->arg) tap->type->report(tap, &text);
    return qn__look_take(&text, QN_OK, out, err);
}

qn_status qn_session_taps_end(qn_session *s, qn_error *err)
{
    qn_status status = QN_OK;
    QN_TRY(qn__session_idle(s, err));
    for (qn_tap *tap = s->taps ? s->taps->first : NULL; tap; tap = tap->next) {
        if (!tap->type->end) continue;
        const qn_status one = tap->type->end(tap, status == QN_OK ? err : NULL);
        if (status == QN_OK) status = one;
    }
    qn__taps_destroy(s->taps);
    s->taps = NULL;
    return status;
}

static void unlink_slot(qn_tap_slot *slot)
{
    qn_tap_slot **at = &slot->point->slots;
    while (*at && *at != slot) at = &(*at)->next_of_point;
    if (*at) *at = slot->next_of_point;
}

void qn__taps_remove(qn_session *s, const void *ctx)
{
    qn_taps *t = s->taps;
    if (!t) return;
    qn_tap *last = NULL;
    for (qn_tap **at = &t->first; *at;) {
        qn_tap *tap = *at;
        if (!tap->fn || tap->fn_ctx != ctx) {
            last = tap;
            at = &tap->next;
            continue;
        }
        for (qn_tap_slot *slot = tap->slots; slot; slot = slot->next_of_tap) unlink_slot(slot);
        *at = tap->next;
    }
    t->last = last;
    t->set = next_set();
    if (t->first) return;
    qn__taps_destroy(t);
    s->taps = NULL;
}

void qn__taps_destroy(qn_taps *t)
{
    if (!t) return;
    for (qn_tap *tap = t->first; tap; tap = tap->next)
        if (tap->type->close) tap->type->close(tap);
    qn__free(t->values);
    qn_arena arena = t->arena; /* it lies inside */
    qn__arena_deinit(&arena);
}

/* ---- in a run ---- */

/* A value to look at after a node. */
typedef struct tapped {
    const qn_node *value;
    qn_tap_point *point;
    struct tapped *next;
} tapped;

static qn_status mark(const qn_taps *t, qn_graph *g, qn_error *err)
{
    for (int32_t i = 0; i < g->n_nodes; i++) g->nodes[i]->tapped = NULL;
    g->taps = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        qn_tap_point *p = t->points;
        while (p && (p->layer != n->layer || !p->slots || strcmp(p->name, n->name) != 0)) p = p->next;
        if (!p) continue;
        qn_node *at = g->nodes[qn__tap_computed(n)->id];
        tapped *one = qn__arena_alloc(&g->arena, sizeof *one);
        if (!one) return QN_FAIL_NOMEM(err, sizeof *one);
        *one = (tapped){.value = n, .point = p, .next = at->tapped};
        at->tapped = one;
    }
    g->taps = t->set;
    return QN_OK;
}

static void note_rows(qn_taps *t)
{
    for (int32_t i = 0; i < t->n_items; i++)
        t->rows[i] = (qn_tap_row){t->items[i].token, t->items[i].pos, t->items[i].seq};
}

qn_status qn__taps_ready(qn_taps *t, qn_exec *e, const qn_batch_item *items, int32_t n, int32_t n_outputs,
                         qn_error *err)
{
    qn_graph *g = qn__exec_graph_to_tap(e);
    if (g->taps != t->set) QN_TRY(mark(t, g, err));
    t->items = items;
    t->n_items = n;
    t->n_outputs = n_outputs;
    t->step++;
    t->error = (qn_error){0};
    note_rows(t);
    return QN_OK;
}

static bool in_range(const qn_tap *tap, int32_t pos)
{
    for (int i = 0; i < tap->n_ranges; i++)
        if (pos >= tap->ranges[i].first && pos <= tap->ranges[i].last) return true;
    return tap->n_ranges == 0;
}

/* Row i of the value is which item's? */
static int32_t item_of(const qn_taps *t, qn_tap_rows kind, int32_t i)
{
    return kind == QN_ROWS_outputs ? t->session->out_ids[i] : i;
}
static const qn_tap_row *row_of(const qn_taps *t, qn_tap_rows kind, int32_t i) { return &t->rows[item_of(t, kind, i)]; }

/* What one tap sees: the rows of its positions. */
static int32_t pick(qn_taps *t, const qn_tap *tap, const qn_tap_point *p, int32_t n_rows, qn_tap_value *v)
{
    int32_t n = 0;
    const bool all = tap->n_ranges == 0;
    const size_t size = (size_t)p->row_size;
    for (int32_t i = 0; i < n_rows; i++) {
        const qn_tap_row *row = row_of(t, p->rows, i);
        if (!in_range(tap, row->pos)) continue;
        t->picked_rows[n] = *row;
        t->picked_items[n] = item_of(t, p->rows, i);
        if (!all) memcpy(t->picked + (size_t)n * size, t->values + (size_t)i * size, size * sizeof(float));
        n++;
    }
    v->data = all ? t->values : t->picked;
    v->rows = t->picked_rows;
    return n;
}

static void put_back(qn_taps *t, const qn_tap *tap, const qn_tap_point *p, int32_t n_rows)
{
    const size_t size = (size_t)p->row_size;
    int32_t n = 0;
    for (int32_t i = 0; i < n_rows && tap->n_ranges; i++)
        if (in_range(tap, row_of(t, p->rows, i)->pos))
            memcpy(t->values + (size_t)i * size, t->picked + (size_t)n++ * size, size * sizeof(float));
}

static qn_status run_slot(qn_taps *t, qn_tap_slot *slot, bool *changed, qn_error *err)
{
    const qn_tap_point *p = slot->point;
    qn_tap_value v = {.name = p->name, .layer = p->layer, .row_shape = p->row, .row_size = p->row_size, .n_rows = 1};
    const int32_t n = p->rows == QN_ROWS_outputs ? t->n_outputs : t->n_items;
    v.data = t->values;
    if (p->rows != QN_ROWS_none) v.n_rows = pick(t, slot->tap, p, n, &v);
    if (v.n_rows == 0) return QN_OK;
    QN_TRY(slot->tap->type->run(slot, &v, err));
    if (!v.changed || !slot->tap->type->changes) return QN_OK;
    if (p->rows != QN_ROWS_none) put_back(t, slot->tap, p, n);
    *changed = true;
    return QN_OK;
}

static qn_status run_value(qn_taps *t, const tapped *one, qn_error *err)
{
    bool changed = false;
    const qn_exec *e = t->session->running;
    if (qn_layout_numel(&one->value->layout) > t->n_values)
        return QN_FAIL(err, invalid, "%s is larger than when it was tapped", one->value->name);
    t->at = one->value;
    QN_TRY(qn__exec_take(e, one->value, t->values, t->raw, err));
    for (qn_tap_slot *slot = one->point->slots; slot; slot = slot->next_of_point)
        QN_TRY(run_slot(t, slot, &changed, err));
    return changed ? qn__exec_put(e, one->value, t->values, err) : QN_OK;
}

bool qn__taps_run(void *ctx, const qn_node *node)
{
    qn_taps *t = ctx;
    for (const tapped *one = node->tapped; one; one = one->next)
        if (run_value(t, one, &t->error) != QN_OK) return false;
    return true;
}

qn_status qn__taps_stepped(qn_taps *t, qn_status status, qn_error *err)
{
    for (qn_tap *tap = t ? t->first : NULL; tap; tap = tap->next) {
        const qn_status one = tap->type->stepped ? tap->type->stepped(tap, status == QN_OK ? err : NULL) : QN_OK;
        if (status == QN_OK) status = one;
    }
    return status;
}

qn_status qn__taps_why(const qn_taps *t, qn_status status, qn_error *err)
{
    if (!t || t->error.status == QN_OK) return status;
    if (err) *err = t->error;
    return t->error.status;
}
