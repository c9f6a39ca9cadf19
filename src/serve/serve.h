/* SPDX-License-Identifier: MIT */
/* src/serve/serve.h -- the server, as the program starts it. This room sees the public headers and what it owns. */
#ifndef QN_SERVE_SERVE_H
#define QN_SERVE_SERVE_H

#include <quern/batch.h>
#include <quern/chat.h>
#include <quern/store.h>

/* Zero is the default; strings and lists stay the caller's and outlive the server. */
/* A model that was named. */
typedef struct serve_named {
    const char *name, *path;     /* to clients, and of its file */
    const qn_store_model *found; /* what a store says of it; NULL: it is a plain file */
} serve_named;

typedef struct serve_key {
    const char *secret, *name; /* name: for the log; NULL: none */
} serve_key;

typedef struct serve_lora {
    const char *path;
    float scale;
} serve_lora;

typedef struct serve_options {
    const char *host; /* address to listen on; NULL: 127.0.0.1 */
    int port;         /* 0: any that is free (serve_port) */

    const serve_named *models; /* [n_models] one alone is loaded at once; none: all of the store */
    int n_models;
    void *ctx;                                         /* of the functions */
    qn_store *(*open_store)(void *ctx, qn_error *err); /* as it is now, owned by the server */
    bool trace_last, trace_tokens;                     /* the last is recorded for /trace; token ids are in it */
    const char *models_store;                          /* folder of what /api/create makes; NULL: none */
    uint64_t memory;                                   /* bytes that models may take in sum; 0: what the machine has */
    int keep_alive_s;                                  /* that a model stays without use; < 0: for ever */
    qn_engine_options engine;                          /* of each model; progress is the server's */
    qn_batcher_options batcher;
    const serve_lora *loras; /* [n_loras] for each model */
    int n_loras;
    const char *template_name;   /* of each model's templates; NULL: its first */
    const char *template_source; /* in the place of a model's own; NULL: none */
    /* Where a request says nothing: made for a model when it is loaded, on any thread; NULL after an error. NULL: the
     * library's. What it gives is given back to sampler_free. */
    const qn_sampler_params *(*sampler)(void *ctx, const qn_tokenizer *tok, int32_t n_ctx, qn_error *err);
    void (*sampler_free)(const qn_sampler_params *params);
    const char *const *fixed; /* [n_fixed] members of requests of which a model's own defaults do not count */
    int n_fixed;
    int32_t max_tokens;      /* of an answer where a request says nothing; 0: until the context is full */
    bool context_shift;      /* an answer that fills the context goes on, up to its max_tokens */
    int32_t n_keep;          /* tokens of the prompt that stay then, where a request says nothing; < 0: all of them */
    const char *const *stop; /* [n_stop] for every answer */
    int n_stop;

    const serve_key *keys; /* [n_keys] who has one of these may come in; none: everybody may */
    int n_keys;
    int requests_per_key;           /* under way; 0: any number */
    int connections;                /* 0: 4096 */
    int connections_per_address;    /* 0: any number */
    const char *tls_cert, *tls_key; /* files in PEM; NULL: no TLS */
    const char *const *allow_hosts; /* [n_allow_hosts] names that we are called by, beside our address and localhost */
    int n_allow_hosts;
    const char *const *origins; /* [n_origins] of web pages that may use us; "*": all */
    int n_origins;
    uint64_t max_body;     /* bytes of a request; 0: 32 MiB */
    int timeout_s;         /* for a reader that does not read; 0: 600 */
    int request_timeout_s; /* for a request that does not come; larger bodies get more; 0: 60 */
    int n_threads;         /* that read requests: templates, tokenizing; 0: 2 */
    /* a line without its newline for each request, and for what goes wrong with none of them; from any thread. NULL:
     * none */
    void (*log)(const char *line);
    bool log_prompts;
    int grace_ms; /* that serve_stop leaves to answers under way */
} serve_options;

typedef struct server server;

/* Reads the list of models and listens. io when the address or the model cannot be had. */
qn_status serve_start(const serve_options *options, server **out, qn_error *err);
int serve_port(const server *s);
/* Seconds that the longest of the steps under way has taken, 0 when idle: for a watchdog. Takes the locks that requests
 * take, so it does not return where one is held for ever. */
double serve_longest_step(server *s);
/* Reads certificate and key, and the list of models, again, and takes new keys, at least one where there were some
 * (copied). What cannot be had stays as it was, which the log tells. */
void serve_reload(server *s, const serve_key *list, int n);
/* Ends the streams, in their dialect's form, and closes all connections. */
void serve_stop(server *s);

#endif
