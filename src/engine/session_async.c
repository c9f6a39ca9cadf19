/* SPDX-License-Identifier: MIT */
/* src/engine/session_async.c -- decoding in the background: a thread of the session's own calls what decode calls, so
 * the results are the same to the bit. The thread is there because CPU backends compute on whoever calls them; it is
 * member 0 of the backend's team while it does. */
#include "engine/engine.h"
#include "engine/tap.h"

qn_status qn__session_idle(const qn_session *s, qn_error *err)
{
    if (qn__tap_calls(s->engine))
        return QN_FAIL(err, state, "a function of a tap can't use its engine: it is called by a run of that");
    return s->started ? QN_FAIL(err, state, "a decode of this session is under way; wait for it first") : QN_OK;
}

static void run_job(void *session)
{
    qn_session *s = session;
    s->job_error = (qn_error){0};
    s->job_status = qn__session_decode(s, s->job_items, s->n_job_items, &s->job_error);
    atomic_store_explicit(&s->job_done, true, memory_order_release);
}

qn_status qn_session_decode_start(qn_session *s, const qn_batch_item *items, int32_t n, qn_error *err)
{
    QN_TRY(qn__session_check(s, items, n, err));
    if (!s->worker) QN_TRY(qn__worker_create(&s->worker, err));
    s->job_items = items;
    s->n_job_items = n;
    atomic_store_explicit(&s->job_done, false, memory_order_relaxed);
    QN_TRY(qn__worker_submit(s->worker, run_job, s, err));
    s->started = true;
    return QN_OK;
}

bool qn_session_poll(const qn_session *s)
{
    return !s->started || atomic_load_explicit(&s->job_done, memory_order_acquire);
}

qn_status qn_session_wait(qn_session *s, qn_error *err)
{
    if (!s->started) return QN_FAIL(err, state, "no decode of this session was started");
    qn__worker_wait(s->worker);
    s->started = false;
    if (s->job_status != QN_OK && err) *err = s->job_error;
    return s->job_status;
}
