/* SPDX-License-Identifier: MIT */
/* src/cli/graph.c -- quern graph: the graph that computes a prompt or one token, as text, DOT or SVG; its memory plan;
 * or what the passes did to it. */
#include "cli/model.h"
#include <quern/tap.h>
#include <stdlib.h>
#include <string.h>

static const cli_usage usage = {
    .command = "graph",
    .arguments = "MODEL",
    .summary = "Prints the graph that a model is computed by, as it runs: after all passes, placed on backends.",
    .notes = "SVG opens in any browser; DOT is for Graphviz.",
    .examples = "A picture of the first layer, decoding:\nquern graph model.gguf --layer 0 --svg -o graph.svg\n"
                "Where a prompt's values lie in memory:\nquern graph model.gguf --phase prompt --plan\n"
                "What the values of a layer are called:\nquern graph model.gguf --names --layer 0\n",
    .min_args = 1,
    .max_args = 1,
};

int cli_command_graph(int argc, char **argv)
{
    cli_model_options m = {0};
    const char *model = NULL, *phase = "decode", *out = "-";
    int32_t layer = -1, n_tokens = 0;
    bool text = false, dot = false, svg = false, plan = false, passes = false, names = false;
    const cli_option options[] = {
        {"phase", 0, CLI_STRING, &phase, "PHASE", "many tokens at once or one (default: decode)", 0, 0, NULL},
        {"tokens", 0, CLI_INT, &n_tokens, "N", "tokens computed at once (default: 512 for prompt)", 1, 1 << 20, NULL},
        {"layer", 0, CLI_INT, &layer, "N", "only this layer", 0, 4095, NULL},
        {"text", 0, CLI_FLAG, &text, NULL, "one line a node (the default)", 0, 0, NULL},
        {"dot", 0, CLI_FLAG, &dot, NULL, "Graphviz DOT", 0, 0, NULL},
        {"svg", 0, CLI_FLAG, &svg, NULL, "a picture", 0, 0, NULL},
        {"plan", 0, CLI_FLAG, &plan, NULL, "the memory plan and node -> backend instead", 0, 0, NULL},
        {"passes", 0, CLI_FLAG, &passes, NULL, "what each graph pass removed and fused, and how long it took, instead",
         0, 0, NULL},
        {"names", 0, CLI_FLAG, &names, NULL, "its values instead: what each is called, and what it is", 0, 0, NULL},
        {"output", 'o', CLI_STRING, &out, "FILE", "where to (default: standard output)", 0, 0, NULL},
        CLI_MODEL_OPTIONS(m),
    };
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, &model, &n_args);
    if (status >= 0) return status;
    const bool prompt = strcmp(phase, "prompt") == 0;
    if (text + dot + svg + plan + passes + names > 1)
        return cli_bad_usage("--text, --dot, --svg, --plan, --passes and --names exclude each other");

    qn_engine *engine = NULL;
    qn_session *session = NULL;
    qn_error err;
    char *printed = NULL;
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
        const qn_graph_format format = dot ? QN_GRAPH_dot : svg ? QN_GRAPH_svg : QN_GRAPH_text;
        const qn_status printing = plan     ? qn_session_print_plan(session, n_tokens, &printed, &err)
                                   : passes ? qn_session_print_passes(session, n_tokens, &printed, &err)
                                   : names  ? qn_session_print_values(session, n_tokens, layer, &printed, &err)
                                            : qn_session_print_graph(session, n_tokens, layer, format, &printed, &err);
        status = printing == QN_OK ? cli_write_text(out, printed, strlen(printed)) : cli_fail_error(&err);
    }
    qn_free(printed);
    qn_session_destroy(session);
    qn_engine_close(engine);
    return status;
}
