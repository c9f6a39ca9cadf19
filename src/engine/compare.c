/* SPDX-License-Identifier: MIT */
/* src/engine/compare.c -- a session whose nodes are computed on another backend too: see quern/compare.h. */
#include "engine/engine.h"

#include "backend/compare.h"
#include "base/mem.h"

struct qn_session_comparison {
    qn_comparison *other;
    qn_session *session;
    qn_compare_fn fn;
    void *ctx;
    qn_error error; /* what stopped the run */
};

static qn_status compare(qn_session_comparison *c, const qn_node *node, bool after, qn_error *err)
{
    qn_compared found;
    qn_error why = {0};
    if (!after) return qn__comparison_before(c->other, c->session->running, node, err);
    QN_TRY(qn__comparison_after(c->other, c->session->running, node, &found, &why, err));
    found.n_tokens = c->session->running_tokens;
    return c->fn(c->ctx, &found, err);
}

static bool look(void *ctx, const qn_node *node, bool after)
{
    qn_session_comparison *c = ctx;
    c->error = (qn_error){0};
    return compare(c, node, after, &c->error) == QN_OK;
}

qn_status qn__comparison_why(const qn_session *s, qn_status status, qn_error *err)
{
    const qn_session_comparison *c = s->comparison;
    if (!c || s->eval != look || status != QN_STATUS_cancelled || c->error.status == QN_OK) return status;
    if (err) *err = c->error;
    return c->error.status;
}

void qn__session_end_comparison(qn_session *s)
{
    if (!s->comparison) return;
    if (s->eval == look) qn_session_set_eval(s, NULL, NULL);
    qn__comparison_destroy(s->comparison->other);
    qn__free(s->comparison);
    s->comparison = NULL;
}

qn_status qn_session_compare(qn_session *s, const char *backend, int n_threads, qn_compare_fn fn, void *ctx,
                             qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    if (!backend) {
        qn__session_end_comparison(s);
        return QN_OK;
    }
    if (!fn) return QN_FAIL(err, invalid, "nobody is told what is compared: a function is missing");
    qn_session_comparison *c = qn__calloc(1, sizeof(*c));
    if (!c) return QN_FAIL_NOMEM(err, sizeof(*c));
    *c = (qn_session_comparison){.session = s, .fn = fn, .ctx = ctx};
    const qn_status status = qn__comparison_create(backend, n_threads, &c->other, err);
    if (status != QN_OK) {
        qn__free(c);
        return status;
    }
    qn__session_end_comparison(s);
    s->comparison = c;
    qn_session_set_eval(s, look, c);
    return QN_OK;
}
