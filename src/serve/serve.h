/* SPDX-License-Identifier: MIT */
/* src/serve/serve.h -- the server, as the program starts it. This room sees the public headers and what it owns. */
#ifndef QN_SERVE_SERVE_H
#define QN_SERVE_SERVE_H

#include <quern/batch.h>
#include <quern/chat.h>

/* Zero is the default; strings and lists stay the caller's and outlive the server. */
typedef struct serve_options {
    const char *host;        /* address to listen on; NULL: 127.0.0.1 */
    int port;                /* 0: any that is free (serve_port) */
    const char *model;       /* the name that clients know it by */
    const char *path;        /* of its file: told to clients, accepted as a name */
    const char *const *keys; /* [n_keys] who has one of these may come in; none: everybody may */
    int n_keys;
    const char *const *allow_hosts; /* [n_allow_hosts] names that we are called by, beside our address and localhost */
    int n_allow_hosts;
    const char *const *origins; /* [n_origins] of web pages that may use us; "*": all */
    int n_origins;
    uint64_t max_body;                /* bytes of a request; 0: 32 MiB */
    int timeout_s;                    /* for a reader that does not read; 0: 600 */
    int request_timeout_s;            /* for a request that does not come; larger bodies get more; 0: 60 */
    int n_threads;                    /* that read requests: templates, tokenizing; 0: 2 */
    const qn_sampler_params *sampler; /* where a request says nothing; NULL: the library's */
    const qn_chat_template *tmpl;
    /* a line without its newline for each request, and for what goes wrong with none of them; from any thread. NULL:
     * none */
    void (*log)(const char *line);
    int grace_ms;            /* that serve_stop leaves to answers under way */
    int32_t max_tokens;      /* of an answer where a request says nothing; 0: until the context is full */
    const char *const *stop; /* [n_stop] for every answer */
    int n_stop;
} serve_options;

typedef struct server server;

/* Listens. The batcher (NULL for an encoder, which writes no text), its engine and the template outlive the server. io
 * when the address cannot be had. */
qn_status serve_start(qn_engine *engine, qn_batcher *batcher, const serve_options *options, server **out,
                      qn_error *err);
int serve_port(const server *s);
/* Ends the streams, in their dialect's form, and closes all connections. */
void serve_stop(server *s);

#endif
