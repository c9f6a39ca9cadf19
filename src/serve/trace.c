/* SPDX-License-Identifier: MIT */
/* src/serve/trace.c -- GET /trace: what the flight recorder of --trace-last keeps, as a file for `quern trace`. It may
 * have the prompts of all, as token ids: with several keys it is told only where they were left out. */
#include "serve/routes.h"
#include <quern/trace.h>

void serve_trace(exchange *x)
{
    const server *s = x->server;
    problem p = {0};
    qn_error err;
    char *bytes = NULL;
    size_t n = 0;
    text t = {0};
    if (!s->o.trace_last)
        problem_set(&p, 404, "", "nothing is recorded here: start the server with --trace FILE --trace-last SIZE");
    else if (s->o.trace_tokens && s->o.n_keys > 1)
        problem_set(&p, 403, "", "the recording has the prompts of all keys: start the server with --trace-no-tokens");
    else if (qn_trace_copy(&bytes, &n, &err) != QN_OK)
        problem_error(&p, "", &err);
    else if (exchange_count(x, n, &p))
        text_put(&t, bytes, n);
    qn_free(bytes);
    if (p.status)
        exchange_refuse(x, &p);
    else
        exchange_reply_type(x, 200, "application/octet-stream", &t);
}
