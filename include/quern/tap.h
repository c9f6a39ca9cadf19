/* SPDX-License-Identifier: MIT */
/* quern/tap.h -- the values of a model's graph: what they are called.
 *
 * Every value has a name, and no two have the same: ROLE-LAYER ("ffn_out-3"), or ROLE outside layers ("logits"). What
 * is computed on the way to such a value is called after it and its operation ("q.linear-3"); what would come twice is
 * counted ("q.view-3", "q.view.2-3"). Weights have their names in the file, inputs their own. Names are the same
 * whatever the batch and the backends are; a value that was copied to another backend has that behind an @
 * ("ffn_res-3@cpu:ref"). A pass may remove a value; the name of what stays is its own as before. */
#ifndef QUERN_TAP_H
#define QUERN_TAP_H

#include <quern/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_value_role {
    const char *name;
    const char *shape; /* "[n, n_embd]"; n: tokens of a step */
    const char *text;
} qn_value_role;
/* What others call the value of a role; in a layer that is so many higher: what TransformerLens calls resid_pre of
 * layer 4 is ffn_res-3. Of several rows with one alias the first counts whose role the layer has. */
typedef struct qn_value_alias {
    const char *alias, *role;
    int layers;
    const char *whose;
} qn_value_alias;
/* In the order of computing; the last row's name is NULL. */
QN_API const qn_value_role *qn_value_roles(void);
QN_API const qn_value_alias *qn_value_aliases(void);
/* The values of the graph that computes n_tokens at once, a line each: name, type and shape, other names, what it is;
 * then those that passes removed. *out is freed with qn_free. */
QN_API qn_status qn_session_print_values(qn_session *session, int32_t n_tokens, int layer, char **out, qn_error *err);

/* ---- taps ---- */

/* A tap does something with values while a model is computed. It is PATTERN[@TOKENS]=ACTION[=ARGUMENT]:
 *
 *     ffn_out-3=stats                       ffn_res-*=save=DIR        *=check
 *     resid_post-4@0-7=scale=0.5            l_out-*=add=happy.gguf:2
 *
 * PATTERN: a name or an alias, * for any run of characters, ? for one; with one of these, steps that show a value under
 * another shape and the whole cache are left out. TOKENS: positions in their sequences, such as
 * 0,4-7,12- (at most 16 ranges); all without. Taps on one value act in the order in which they were set, and each sees
 * what those before it made of it. A value is float32 at a tap, whatever its type and backend. Values of the tokens of
 * a step have a row for each token; `out_rows` and what is made of it have one for each token whose logits are asked
 * for. Without a change no bit of a result differs from a run without taps.
 *
 * What a tapped value costs: two barriers, its copy, and the action. Memory is taken when a tap is set: four times the
 * largest value of the largest step, and what the action keeps. */
typedef struct qn_tap_action {
    const char *name, *argument, *text; /* argument: "" none, in brackets: may be left out */
} qn_tap_action;
QN_API const qn_tap_action *qn_tap_actions(void); /* the last row's name is NULL */

/* Sets a tap, from the next decode on. invalid, and nothing is set, for what cannot be read, an action's file of
 * another shape (the message has both), a pattern that matches nothing (with names that come close) or a value that a
 * pass removed (with the pass). io, format: a file cannot be read or made. Threads: as qn_session_decode. */
QN_API qn_status qn_session_tap(qn_session *session, const char *tap, qn_error *err);

/* Which token a row is of. */
typedef struct qn_tap_row {
    qn_token token;
    int32_t pos, seq;
} qn_tap_row;
typedef struct qn_tap_value {
    const char *name;
    int layer; /* -1 outside layers */
    /* of one row; of the whole value where rows is NULL */
    qn_shape row_shape;
    int64_t row_size;
    int64_t n_rows;
    const qn_tap_row *rows; /* [n_rows]; NULL: the value has none, and n_rows is 1 */
    float *data;            /* [n_rows, row_size] */
    bool changed;           /* set it after writing to data */
} qn_tap_value;
/* Called with each value, which is there during the call, by a thread of the computation. A failure stops the run,
 * which then fails with it. The function may compute with tensors (quern/array.h) and with other engines, on that
 * thread alone, and that isn't recorded (quern/trace.h); its own engine's sessions say `state`. */
typedef qn_status (*qn_tap_fn)(void *ctx, qn_tap_value *value, qn_error *err);
/* As qn_session_tap with a function of one's own; the pattern has no @TOKENS. Only with may_change are changes taken
 * over, and only values that can be changed are matched. */
QN_API qn_status qn_session_tap_fn(qn_session *session, const char *pattern, bool may_change, qn_tap_fn fn, void *ctx,
                                   qn_error *err);

/* What taps without a file have to say (stats, hash) so far, as text; "" when there is nothing. *out is freed with
 * qn_free. */
QN_API qn_status qn_session_tap_report(qn_session *session, char **out, qn_error *err);
/* Writes what taps have still to write and takes all away; they are gone on failure too, of which the first is
 * reported. A session that is destroyed with taps writes nothing more: files of `save` are whole after every step.
 * Until then nobody else may cut them: their headers are mapped where the file system allows it, and SIGBUS is
 * raised. */
QN_API qn_status qn_session_taps_end(qn_session *session, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
