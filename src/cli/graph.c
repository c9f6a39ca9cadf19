/* SPDX-License-Identifier: MIT */
/* src/cli/graph.c -- quern graph: the graph that computes a prompt or one token, as text, DOT or SVG; its memory plan;
 * what the passes did to it; or the graph that a step of a recording ran, with what each node took. */
#include "cli/model.h"
#include "cli/trace.h"
#include <quern/tap.h>
#include <stdlib.h>
#include <string.h>

static const cli_usage usage = {
    .command = "graph",
    .arguments = "[MODEL]",
    .summary =
        "Prints the graph that a model is computed by, as it runs: after all passes, placed on backends. Or, with "
        "--trace and without MODEL, the graph that a step of a recording ran.",
    .notes = "SVG opens in any browser; DOT is for Graphviz.",
    .examples = "A picture of the first layer, decoding:\nquern graph model.gguf --layer 0 --svg -o graph.svg\n"
                "Where a prompt's values lie in memory:\nquern graph model.gguf --phase prompt --plan\n"
                "What the values of a layer are called:\nquern graph model.gguf --names --layer 0\n"
                "What took the time of the 7th step of a recording:\n"
                "quern trace run model.gguf \"Once upon a time\" -n 8 && quern graph --trace trace.qtr --step 7 --svg "
                "-o step.svg\n",
    .min_args = 0,
    .max_args = 1,
};

typedef struct wish {
    const char *color; /* NULL: what there is to tell */
    int32_t layer;
    qn_graph_format format;
} wish;

static qn_graph_color color_of(const wish *w, qn_graph_color otherwise)
{
    for (int i = 0; w->color && i < QN_GRAPH_COLOR_COUNT; i++)
        if (strcmp(w->color, qn_graph_color_name(i)) == 0) return (qn_graph_color)i;
    return otherwise;
}

/* ---- of a recording ---- */

typedef struct measured {
    const qn_trace_step *step;
    double *ns, *bytes; /* [n_nodes], by id */
} measured;

/* Thread 0 takes part in every node. */
static bool add_time(void *ctx, const qn_trace_event *e)
{
    const measured *m = ctx;
    if (e->kind == QN_TRACE_node && e->node && e->step == m->step && e->lane->member <= 0)
        m->ns[e->node->id] = (double)e->ns + (m->ns[e->node->id] > 0 ? m->ns[e->node->id] : 0);
    return true;
}

/* 0: the first that there is; of a recording that kept the last it is not the first of the run. */
static int find_step(const char *path, const qn_trace *t, int32_t number, const qn_trace_step **out)
{
    qn_trace_info info;
    qn_trace_get_info(t, &info);
    for (int64_t i = 0; i < info.n_steps; i++)
        if ((number == 0 || info.steps[i].number == (uint64_t)number) && info.steps[i].plan) {
            *out = &info.steps[i];
            return CLI_OK;
        }
    if (!info.n_steps) return cli_fail("%s: no step was recorded", path);
    return cli_fail("%s: there is no step %d; there are %llu to %llu", path, number,
                    (unsigned long long)info.steps[0].number, (unsigned long long)info.steps[info.n_steps - 1].number);
}

static int check_layer(const qn_trace_step *step, int32_t layer)
{
    int32_t last = -1;
    for (int32_t i = 0; i < step->plan->n_nodes; i++)
        if (step->plan->nodes[i].layer > last) last = step->plan->nodes[i].layer;
    if (layer <= last) return CLI_OK;
    if (last < 0) return cli_fail("layer %d; the graph of step %llu has none", layer, (unsigned long long)step->number);
    return cli_fail("layer %d; the graph of step %llu has 0 to %d", layer, (unsigned long long)step->number, last);
}

static int print_step(const char *path, qn_trace *t, const wish *w, int32_t number, char **printed)
{
    measured m = {0};
    qn_error err;
    int status = find_step(path, t, number, &m.step);
    if (status == CLI_OK) status = check_layer(m.step, w->layer);
    if (status != CLI_OK) return status;
    const int32_t n = m.step->plan->n_nodes;
    m.ns = calloc((size_t)n + 1, sizeof(*m.ns));
    m.bytes = calloc((size_t)n + 1, sizeof(*m.bytes));
    if (!m.ns || !m.bytes) status = cli_no_memory("out of memory");
    for (int32_t i = 0; i < n && status == CLI_OK; i++) {
        const qn_trace_cost c = qn_trace_cost_of(&m.step->plan->nodes[i], m.step);
        m.bytes[i] = c.weight_bytes + c.cache_bytes + c.act_bytes;
        if (m.step->plan->nodes[i].computes)
            m.ns[i] = -1; /* until there is an event: what was left out took something */
    }
    if (status == CLI_OK && (qn_trace_walk(t, add_time, &m, &err) != QN_OK ||
                             qn_trace_print_graph(m.step, m.ns, m.bytes, w->layer, w->format,
                                                  color_of(w, QN_GRAPH_COLOR_time), printed, &err) != QN_OK))
        status = cli_fail_error(&err);
    free(m.ns);
    free(m.bytes);
    return status;
}

/* What is damaged is printed as far as it goes, with status 1. */
static int recorded(const char *path, const wish *w, int32_t number, const char *out)
{
    qn_trace *t = NULL;
    bool damaged = false;
    char *printed = NULL;
    int status = trace_open(path, &t, &damaged);
    if (status == CLI_OK) status = print_step(path, t, w, number, &printed);
    if (status == CLI_OK) status = cli_write_text(out, printed, strlen(printed));
    qn_free(printed);
    qn_trace_close(t);
    return status == CLI_OK && damaged ? CLI_FAILED : status;
}

/* ---- of a model ---- */

int cli_command_graph(int argc, char **argv)
{
    cli_model_options m = {0};
    const char *model = NULL, *phase = "decode", *out = "-", *trace = NULL;
    wish w = {.layer = -1};
    int32_t n_tokens = 0, step = 0;
    bool text = false, dot = false, svg = false, plan = false, passes = false, names = false;
    const cli_option options[] = {
        {"phase", 0, CLI_STRING, &phase, "PHASE", "many tokens at once or one (default: decode)", 0, 0, NULL},
        {"tokens", 0, CLI_INT, &n_tokens, "N",
         "tokens computed at once (default: 1; with --phase prompt 512, or the context where that is shorter)", 1,
         1 << 20, NULL},
        {"layer", 0, CLI_INT, &w.layer, "N", "only this layer", 0, 4095, NULL},
        {"text", 0, CLI_FLAG, &text, NULL, "one line a node (the default)", 0, 0, NULL},
        {"dot", 0, CLI_FLAG, &dot, NULL, "Graphviz DOT", 0, 0, NULL},
        {"svg", 0, CLI_FLAG, &svg, NULL, "a picture", 0, 0, NULL},
        {"color", 0, CLI_STRING, &w.color, "COLOR",
         "what colours tell (default: time of a recording, else the backend)", 0, 0, NULL},
        {"trace", 0, CLI_STRING, &trace, "FILE", "a recording instead of MODEL; shows what each node took", 0, 0, NULL},
        {"step", 0, CLI_INT, &step, "N", "which step of it (default: the first)", 1, INT32_MAX, NULL},
        {"plan", 0, CLI_FLAG, &plan, NULL, "the memory plan and node -> backend instead", 0, 0, NULL},
        {"passes", 0, CLI_FLAG, &passes, NULL, "what each graph pass removed and fused, and how long it took, instead",
         0, 0, NULL},
        {"names", 0, CLI_FLAG, &names, NULL, "its values instead: what each is called, and what it is", 0, 0, NULL},
        {"output", 'o', CLI_OUTPUT, &out, "FILE", "where to (default: standard output)", 0, 0, NULL},
        CLI_MODEL_OPTIONS(m),
    };
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &model, &n_args);
    if (status >= 0) return status;
    const bool prompt = strcmp(phase, "prompt") == 0;
    if (text + dot + svg + plan + passes + names > 1)
        return cli_bad_usage("--text, --dot, --svg, --plan, --passes and --names exclude each other");

    if (!model == !trace) return cli_bad_usage("either MODEL or --trace FILE is expected");
    if (step && !trace) return cli_bad_usage("--step needs --trace FILE");
    if (trace && plan + passes + names) return cli_bad_usage("--plan, --passes and --names are of a MODEL");
    if (trace && cli_only(options, CLI_N(options), argc, argv, "trace step layer text dot svg color output",
                          "--trace") != CLI_OK)
        return CLI_USAGE;
    if (!trace && w.color && color_of(&w, QN_GRAPH_COLOR_backend) == QN_GRAPH_COLOR_time)
        return cli_bad_usage("--color time needs --trace FILE: nothing has run");

    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_error err;
    char *printed = NULL;
    w.format = dot ? QN_GRAPH_dot : svg ? QN_GRAPH_svg : QN_GRAPH_text;
    if (trace) return recorded(trace, &w, step, out);
    status = cli_open_engine(model, &m, &engine);
    if (status == CLI_OK) {
        qn_engine_info info;
        qn_engine_get_info(engine, &info);
        if (!n_tokens) n_tokens = prompt ? (info.n_ctx_train < 512 ? info.n_ctx_train : 512) : 1;
        status =
            cli_create_session(engine, &m,
                               (qn_session_options){.n_ctx = n_tokens, .n_batch = n_tokens, .embeddings = info.encoder},
                               &session);
    }
    if (status == CLI_OK) {
        const qn_status printing = plan     ? qn_session_print_plan(session, n_tokens, &printed, &err)
                                   : passes ? qn_session_print_passes(session, n_tokens, &printed, &err)
                                   : names
                                       ? qn_session_print_values(session, n_tokens, w.layer, &printed, &err)
                                       : qn_session_print_colored(session, n_tokens, w.layer, w.format,
                                                                  color_of(&w, QN_GRAPH_COLOR_backend), &printed, &err);
        status = printing == QN_OK ? cli_write_text(out, printed, strlen(printed)) : cli_fail_error(&err);
    }
    qn_free(printed);
    qn_session_destroy(session);
    qn_engine_close(engine);
    return status;
}
