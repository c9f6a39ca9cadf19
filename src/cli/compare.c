/* SPDX-License-Identifier: MIT */
/* src/cli/compare.c -- quern compare: one graph on two backends, node by node on the same inputs. */
#include <quern/compare.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cli/model.h"
#include "cli/texts.h"

#define DEFAULT_TOKENS 33

static const cli_usage usage = {
    .command = "compare",
    .arguments = "MODEL",
    .summary =
        "Computes a model on A, and each of its nodes on B too, from the same inputs; shows the first node whose "
        "values differ, and by how much.",
    .notes = "B computes every node from what A has computed, so that a difference is of the node that shows it. The "
             "status is 1 when a node differs by more than the tolerance.\n"
             "Of a value, the largest difference counts beside its largest magnitude: --tolerance 1e-5 lets 0.0001 "
             "pass in a value of up to 10. Units in the last place are those of float32.",
    .examples = "Does a device give the processor's bits?\nquern compare model.gguf --backends cpu,opencl\n"
                "What the plainest level makes of a prompt of its own:\n"
                "quern compare model.gguf --backends cpu,cpu:ref --tokens 1,15043,3186 --all\n",
    .min_args = 1,
    .max_args = 1,
};

typedef struct counts {
    int64_t nodes, differ, refused;
} counts;

typedef struct comparing {
    char *first, *second; /* backends */
    float tolerance;
    bool all, json;
    counts n;
    char refused[160]; /* the first node that B does not compute, and why */
} comparing;

static void put_shape(const qn_shape *s)
{
    printf("[");
    for (int i = 0; i < s->rank; i++) printf("%s%lld", i ? "," : "", (long long)s->dim[i]);
    printf("]");
}

static void put_index(const qn_shape *s, int64_t at)
{
    int64_t index[QN_MAX_RANK] = {0};
    for (int i = s->rank - 1; i >= 0; i--) {
        index[i] = at % s->dim[i];
        at /= s->dim[i];
    }
    printf("[");
    for (int i = 0; i < s->rank; i++) printf("%s%lld", i ? "," : "", (long long)index[i]);
    printf("]");
}

static void put_name(const qn_compared_value *v)
{
    printf("%s %s %s ", v->name[0] ? v->name : "(unnamed)", v->op, qn_dtype_get(v->dtype)->name);
    put_shape(&v->shape);
}

static void print_text(const comparing *c, const qn_compared *d)
{
    put_name(&d->value);
    printf(", a step of %d token%s: %lld of %lld elements differ\n", d->n_tokens, d->n_tokens == 1 ? "" : "s",
           (long long)d->n_differ, (long long)d->n);
    printf("  most at ");
    put_index(&d->value.shape, d->at);
    printf(": %.9g on %s, %.9g on %s: %.3g apart", (double)d->first, c->first, (double)d->second, c->second,
           d->distance);
    if (d->largest > 0) printf(", %.2g of the largest, %.4g", d->distance / d->largest, d->largest);
    if (d->ulps != UINT64_MAX) printf("; at most %llu units in the last place", (unsigned long long)d->ulps);
    printf("\n");
    for (int i = 0; i < d->n_sources; i++) {
        const qn_compared_value *s = &d->sources[i];
        printf("  of ");
        put_name(s);
        printf(", %.6g to %.6g", (double)s->min, (double)s->max);
        if (s->n_not_finite) printf(", %lld not finite", (long long)s->n_not_finite);
        printf("\n");
    }
}

static void put_number(double v)
{
    if (isfinite(v))
        printf("%.9g", v);
    else
        printf("null");
}

static void json_value(const qn_compared_value *v)
{
    printf("\"name\": ");
    cli_put_json(v->name, strlen(v->name));
    printf(", \"op\": \"%s\", \"layer\": %d, \"type\": \"%s\", \"shape\": ", v->op, v->layer,
           qn_dtype_get(v->dtype)->name);
    put_shape(&v->shape);
    printf(", \"min\": ");
    put_number((double)v->min);
    printf(", \"max\": ");
    put_number((double)v->max);
    printf(", \"not_finite\": %lld", (long long)v->n_not_finite);
}

static void print_json(const comparing *c, const qn_compared *d)
{
    printf("%s\n  {", c->n.differ > 1 ? "," : "");
    json_value(&d->value);
    printf(", \"tokens\": %d, \"elements\": %lld, \"differ\": %lld, \"at\": ", d->n_tokens, (long long)d->n,
           (long long)d->n_differ);
    put_index(&d->value.shape, d->at);
    printf(", \"values\": [");
    put_number((double)d->first);
    printf(", ");
    put_number((double)d->second);
    printf("], \"distance\": ");
    put_number(d->distance);
    printf(", \"ulps\": ");
    put_number(d->ulps == UINT64_MAX ? NAN : (double)d->ulps);
    printf(", \"sources\": [");
    for (int i = 0; i < d->n_sources; i++) {
        printf("%s{", i ? ", " : "");
        json_value(&d->sources[i]);
        printf("}");
    }
    printf("]}");
}

static qn_status take(void *ctx, const qn_compared *d, qn_error *err)
{
    comparing *c = ctx;
    (void)err;
    c->n.nodes++;
    if (d->why) {
        if (!c->n.refused++) snprintf(c->refused, sizeof c->refused, "%s: %s", d->value.op, d->why);
        return QN_OK;
    }
    if (!d->n_differ || d->distance <= (double)c->tolerance * d->largest) return QN_OK;
    if (c->n.differ++ && !c->all) return QN_OK;
    if (c->json)
        print_json(c, d);
    else
        print_text(c, d);
    return QN_OK;
}

/* ---- what is computed ---- */

/* Spread over the vocabulary, the same in every run. */
static int32_t *some_tokens(int32_t n_vocab, size_t *n)
{
    int32_t *ids = calloc(DEFAULT_TOKENS, sizeof *ids);
    *n = DEFAULT_TOKENS;
    for (int64_t i = 0; ids && i < DEFAULT_TOKENS; i++) ids[i] = (int32_t)((i * 7919 + 1) % n_vocab);
    return ids;
}

static int embed(qn_session *session, const qn_engine_info *info, const int32_t *ids, size_t n)
{
    const qn_embedding_text text = {.tokens = ids, .n_tokens = (int32_t)n};
    const size_t values = n * (size_t)info->n_embd_out;
    float *out = calloc(values, sizeof *out);
    qn_error err;
    if (!out) return cli_no_memory("out of memory for the embeddings");
    const qn_status status =
        qn_session_embeddings(session, &text, 1, &(qn_embedding_options){.pooling = QN_POOLING_none}, out, &err);
    free(out);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}

/* All but the last token at once, then that one. */
static int decode(qn_session *session, const int32_t *ids, size_t n)
{
    qn_batch_item *items = calloc(n, sizeof *items);
    qn_error err;
    if (!items) return cli_no_memory("out of memory for the tokens");
    for (size_t i = 0; i < n; i++) items[i] = (qn_batch_item){ids[i], (int32_t)i, 0, i + 2 >= n};
    const int32_t many = (int32_t)n - 1;
    qn_status status = many ? qn_session_decode(session, items, many, &err) : QN_OK;
    if (status == QN_OK) status = qn_session_decode(session, items + many, 1, &err);
    free(items);
    return status == QN_OK ? CLI_OK : cli_fail_error(&err);
}

static void print_sum(const comparing *c)
{
    const counts *n = &c->n;
    if (c->json) {
        printf("%s],\n \"nodes\": %lld, \"differ\": %lld, \"refused\": %lld}\n", n->differ ? "\n" : "",
               (long long)n->nodes, (long long)n->differ, (long long)n->refused);
        return;
    }
    printf("%lld nodes: %lld the same, %lld differ", (long long)n->nodes,
           (long long)(n->nodes - n->differ - n->refused), (long long)n->differ);
    if (n->refused) printf("; %s does not compute %lld, the first: %s", c->second, (long long)n->refused, c->refused);
    printf("\n");
}

static int run(comparing *c, qn_session *session, const qn_engine_info *info, const int32_t *ids, size_t n, int threads)
{
    qn_error err;
    qn_status status = qn_session_compare(session, c->second, threads, take, c, &err);
    if (status != QN_OK) return cli_fail_error(&err);
    if (c->json) {
        printf("{\"backends\": [");
        cli_put_json(c->first, strlen(c->first));
        printf(", ");
        cli_put_json(c->second, strlen(c->second));
        printf("],\n \"differences\": [");
    }
    const int computed = info->encoder ? embed(session, info, ids, n) : decode(session, ids, n);
    if (computed != CLI_OK) return computed;
    print_sum(c);
    const int finished = cli_finish_output();
    return finished != CLI_OK ? finished : c->n.differ ? CLI_FAILED : CLI_OK;
}

/* "A,B" into two names; m->backends is A. */
static int split_backends(cli_model_options *m, comparing *c)
{
    const char *comma = m->backends ? strchr(m->backends, ',') : NULL;
    if (!comma || comma == m->backends || !comma[1] || strchr(comma + 1, ','))
        return cli_bad_usage(
            "--backends wants two, such as cpu,opencl; usage: quern compare MODEL --backends A,B [options]");
    c->first = strndup(m->backends, (size_t)(comma - m->backends));
    c->second = strdup(comma + 1);
    if (!c->first || !c->second) return cli_no_memory("out of memory");
    m->backends = c->first;
    return CLI_OK;
}

static int compare(const char *model, cli_model_options *m, const char *tokens, comparing *c)
{
    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_engine_info info;
    size_t n = 0;
    int32_t *ids = NULL;
    int status = cli_open_engine(model, m, &engine);
    if (status == CLI_OK) {
        qn_engine_get_info(engine, &info);
        ids = tokens ? cli_read_tokens(tokens, &n) : some_tokens(info.n_vocab, &n);
        status = ids ? CLI_OK : CLI_FAILED;
    }
    if (status == CLI_OK && (n == 0 || n > 1 << 20))
        status = cli_fail("%zu tokens; at least one is needed, %d at most", n, 1 << 20);
    if (status == CLI_OK)
        status = cli_create_session(
            engine, m, (qn_session_options){.n_ctx = (int32_t)n, .n_batch = (int32_t)n, .embeddings = info.encoder},
            &session);
    if (status == CLI_OK) status = run(c, session, &info, ids, n, m->threads);
    free(ids);
    qn_session_destroy(session);
    qn_engine_close(engine);
    return status;
}

int cli_command_compare(int argc, char **argv)
{
    cli_model_options m = {0};
    comparing c = {0};
    const char *tokens = NULL, *model = NULL;
    const cli_option options[] = {
        {"tokens", 0, CLI_STRING, &tokens, "LIST",
         "token ids: 1,2,3 or @FILE; the last is computed alone (default: 33 of the vocabulary)", 0, 0, NULL},
        {"tolerance", 0, CLI_FLOAT, &c.tolerance, "X",
         "differences up to X times the value's largest magnitude pass (default: 0, the same bits)", 0, 1, NULL},
        {"all", 0, CLI_FLAG, &c.all, NULL, "show every node that differs, not the first alone", 0, 0, NULL},
        {"json", 0, CLI_FLAG, &c.json, NULL, "the same as JSON", 0, 0, NULL},
        CLI_MODEL_OPTIONS(m),
    };
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &model, &n_args);
    if (status >= 0) return status;
    status = split_backends(&m, &c);
    if (status == CLI_OK) status = compare(model, &m, tokens, &c);
    free(c.first);
    free(c.second);
    return status;
}
