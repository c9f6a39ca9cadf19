/* SPDX-License-Identifier: MIT */
/* src/serve/model.h -- the models that are served: which there are (catalog.c), which are loaded, and who waits for one
 * (loader.c). An exchange that holds a model finds it loaded until it lets go. One thread, the loader, loads, unloads
 * and makes room; it alone changes what is below "loaded". */
#ifndef QN_SERVE_MODEL_H
#define QN_SERVE_MODEL_H

#include "serve/histogram.h"
#include "serve/problem.h"
#include "serve/serve.h"
#include <pthread.h>
#include <quern/store.h>
#include <stdatomic.h>
#include <sys/stat.h>

typedef struct exchange exchange;
typedef struct server server;
typedef struct model model;

typedef enum model_state { MODEL_unloaded, MODEL_loading, MODEL_loaded, MODEL_unloading } model_state;

struct model {
    model *next; /* in the order in which they are listed */
    server *server;

    /* what is known without loading it; stays */
    char *name; /* to clients */
    char *path;
    char *system, *tmpl_source; /* NULL: none of its own */
    json_t *params;             /* of requests that do not say, by their names; NULL: none */
    char **adapters;            /* [n_adapters] paths */
    int n_adapters;
    struct stat st; /* of the file that the facts are from */
    qn_model_facts facts;
    uint64_t bytes_of_file;
    char why_not[256]; /* it is there and cannot be used; "": it can */
    bool why_passes;   /* it could not be read: it may be, later */
    bool derived;      /* made by /api/create or copy */

    /* under server.models_lock */
    model_state state;
    bool gone;              /* no longer in the list: freed when nobody has it */
    bool wanted;            /* in the list of loads */
    bool leaving;           /* makes room when nobody holds it; who comes waits for the next time */
    bool unload;            /* somebody asked for that; who comes later has a say */
    int n_users;            /* exchanges that hold it */
    exchange *first, **end; /* who waits for it, in order */
    model *next_wanted;
    int64_t keep_ns;        /* that it stays when nobody uses it; < 0: for ever */
    int64_t used_ns;        /* when it was last let go, or loaded */
    _Atomic bool abandoned; /* nobody waits for what is being loaded */
    qn_batcher_stats past;  /* counters of earlier times that it was loaded */

    /* Under server.events_lock: from a request's coming to its first token, between tokens, and of the first the wait
     * for a stream. */
    histogram first_token, between, queue;

    /* loaded */
    qn_engine *engine;
    const qn_tokenizer *tok;
    qn_batcher *batcher; /* NULL for one that writes no text */
    qn_chat_template *tmpl;
    qn_chat_needs needs;
    qn_engine_info info;
    const qn_sampler_params *command; /* what the caller's function gave */
    qn_sampler_params sampler;        /* where a request says nothing */
    int32_t max_tokens, n_keep;
    const char *stops[32]; /* [n_stops] borrowed from params and options */
    int n_stops;
    qn_lora_use loras[QN_MAX_LORAS]; /* where a request says nothing; scales are under server.models_lock */
    int n_loras;
    double load_seconds;
    _Atomic uint64_t bytes; /* weights and sessions */
    _Atomic uint64_t least; /* of them what others have to leave it: all, or where it is paged what is no weights */
    bool paged;             /* it takes more than all models may: its weights make do with what is left */
    qn_session *embedder;   /* the computer's; NULL until it is needed */
    bool told_slow;         /* the pump's: of the step under way */
};

/* ---- catalog.c ---- */
/* Reads the list: those that were named, or all of the store. */
bool catalog_start(server *s, qn_error *err);
/* Looks again; what is loaded stays, also where its file is gone. False after a problem, 503: the list is the one that
 * it was. Not on an HTTP thread. */
bool catalog_refresh(server *s, problem *p);
/* Under models_lock: it is so long ago, or failed, that a name which is not in the list may have come since. */
bool catalog_is_old(const server *s);
void catalog_deinit(server *s);
/* The one that a client means, under models_lock; NULL after a problem: 404 with the names there are, 503
 * where the list could not be read anew. name NULL: the only one. "MODEL:ADAPTER" names one of --lora too, by its
 * file's name without folder and ending: *adapter is 1 + its number, 0 where none was named; NULL: a model alone is
 * meant. */
model *catalog_find(server *s, const char *name, int *adapter, problem *p);
/* The name of adapter i of --lora in that; returns its length. */
size_t catalog_adapter(const server *s, int i, const char **out);
/* An entry that is in no list yet; NULL when out of memory. */
model *catalog_new(server *s, const char *name, const char *path, const qn_store_model *found);
bool catalog_add_adapters(model *m, const char *const *paths, int n);
void catalog_free(model *m);

/* ---- derived.c ---- */
/* Models made here, of others in the list. False when out of memory. */
bool derived_add(server *s, model **list);

/* ---- loader.c ---- */
bool loader_start(server *s, qn_error *err);
/* Whoever waits is refused; no more is loaded. */
void loader_stop(server *s);
/* The model that an exchange asks for is loaded and held by it: true. Else it waits, and comes back as a job; or it was
 * refused. */
bool loader_enter(exchange *x);
/* The client is gone: it waits no longer. */
void loader_leave(exchange *x);
void loader_release(model *m);
/* Unloads it when nobody holds it. */
void loader_unload(model *m);
/* How long it stays without use; < 0: for ever. Of this request and until the next. */
void loader_keep(model *m, int64_t ns);
/* More memory for a loaded model: false after a problem. */
bool loader_take(model *m, uint64_t bytes, problem *p);
/* Calls fn for each model in the list, under models_lock. */
void models_each(server *s, void (*fn)(model *m, void *ctx), void *ctx);

/* ---- load.c: on the loader's thread, without models_lock ---- */
/* What it will take, weights and session, and how little it can do with when weights are read again and again; opens
 * the engine where that reads nothing. */
bool model_measure(model *m, uint64_t *bytes, uint64_t *least, problem *p);
/* limit: bytes that it may take; 0: what is free. */
bool model_load(model *m, uint64_t limit, problem *p);
void model_unload(model *m);
/* Under models_lock, before that, when nobody uses it: what it counted is in `past`, and no longer in its batcher. */
void model_keep_counts(model *m);
int32_t model_n_ctx(const model *m);
int32_t model_served_ctx(const model *m);           /* loaded or not; under models_lock */
const char *model_lora_path(const model *m, int i); /* of the file */
qn_session_options model_embedder_options(const model *m);
/* Those of qn_batcher_stats that are counted over all times that a model is loaded. */
#define MODEL_COUNTERS(ROW) \
    ROW(n_requests) \
    ROW(n_ended) \
    ROW(tokens_read) \
    ROW(tokens_reused) \
    ROW(tokens_read_again) \
    ROW(tokens_generated) \
    ROW(n_steps) ROW(n_stopped) ROW(n_set_backs) ROW(n_context_shifts) ROW(n_evictions) ROW(busy_seconds)

#endif
