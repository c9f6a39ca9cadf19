/* SPDX-License-Identifier: MIT */
/* tests/golden/golden.c -- models that qn_synth writes from a seed (models.def): the bytes are the same everywhere, and
 * the logits those that NumPy computes of them in float64 (figures.inc, written by tests/oracle/golden_logits.py, which
 * also says what the limits are). With --write DIR it only writes the models, for that program; with --bytes it looks
 * at the bytes alone, where an emulator would take minutes for the rest. */
#include "golden.h"
#include "models.h"
#include "model/arch.h"

#include <zlib.h>

enum { FOLDS = 16 };
_Static_assert((int)N_MODELS <= (int)MAX_GOLDENS, "room for every model");

static const struct {
    const char *name;
    uint32_t crc;
    long size;
    double limit;
    float sums[N_TOKENS * FOLDS];
} figures[] = {
#define FIGURES(name, crc, size, limit, ...) {#name, crc, size, limit, {__VA_ARGS__}},
#define KV_FIGURES(type, error)
#include "figures.inc"
#undef FIGURES
#undef KV_FIGURES
};

static qn_token tokens[N_TOKENS];

/* All below the smallest vocabulary. */
static void make_tokens(void)
{
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (i * i * 31 + i * 97 + 1) % 320;
}

static void write_model(int m, const char *path) { MUST(qn_synth(path, &models[m].options, NULL, NULL, err)); }

static uint32_t file_crc(const char *path, long *size)
{
    static unsigned char part[1 << 16];
    uLong crc = crc32(0, NULL, 0);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *size = 0;
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0; *size += (long)n) crc = crc32(crc, part, (uInt)n);
    fclose(file);
    return (uint32_t)crc;
}

static void bytes_are_the_same_everywhere(void **state)
{
    (void)state;
    int wrong = 0;
    for (int m = 0; m < N_MODELS; m++) {
        long size;
        const uint32_t crc = file_crc(goldens[m].path, &size);
        if (crc == figures[m].crc && size == figures[m].size) continue;
        printf("%s has %ld bytes of CRC %08x, %ld of %08x expected\n", models[m].name, size, crc, figures[m].size,
               figures[m].crc);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* A new architecture, or a new type of weights, is no row without figures. */
static void covers(void **state)
{
    (void)state;
    bool types[QN_DTYPE_COUNT] = {false};
    int n_archs = 0;
    const qn_arch *const *archs = qn__archs(&n_archs);
    for (int a = 0; a < n_archs; a++) {
        int n = 0;
        for (int m = 0; m < N_MODELS; m++)
            n += strcmp(models[m].options.arch ? models[m].options.arch : "llama", archs[a]->name) == 0;
        if (n == 0) fail_msg("no model of architecture %s in models.def", archs[a]->name);
    }
    for (int m = 0; m < N_MODELS; m++) {
        qn_gguf *file = NULL;
        MUST(qn_gguf_open(goldens[m].path, NULL, &file, err));
        const qn_gguf_tensor *up = qn_gguf_tensor_find(file, "blk.0.ffn_up.weight");
        if (up) types[up->dtype] = true;
        qn_gguf_close(file);
    }
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);
        const bool weights = info->class_ == QN_CLASS_block || (info->class_ == QN_CLASS_real && d != QN_DTYPE_F64);
        if (weights && !types[d] && d != QN_DTYPE_Q3_K && d != QN_DTYPE_Q4_K && d != QN_DTYPE_Q5_K)
            fail_msg("no model of %s in models.def", info->name);
    }
}

/* What rounding keys and values alone costs in NumPy, which has no IQ4_NL: closer than Q4_0. */
static void every_kv_type(void **state)
{
    (void)state;
    static const kv_limit listed[] = {
#define FIGURES(...)
#define KV_FIGURES(type, error) {QN_DTYPE_##type, error},
#include "figures.inc"
#undef FIGURES
#undef KV_FIGURES
    };
    kv_limit types[sizeof(listed) / sizeof(listed[0]) + 1];
    int n = 0;
    for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
        types[n++] = (kv_limit){listed[i].type, listed[i].limit > 0 ? listed[i].limit : 1e-9};
        if (listed[i].type == QN_DTYPE_Q4_0) types[n++] = (kv_limit){QN_DTYPE_IQ4_NL, listed[i].limit};
    }
    int n_rows = 0;
#define COUNT(name) n_rows++;
    QN_KV_TYPE_ROWS(COUNT)
#undef COUNT
    assert_int_equal(n, n_rows);
    with_kv_types("llama_F16", types, n);
}

static bool note_alias(void *ctx, const char *alias)
{
    bool *used = ctx;
    const qn_value_alias *rows = qn_value_aliases();
    for (int a = 0; rows[a].alias; a++) {
        const size_t n = strlen(rows[a].alias);
        used[a] |= !strncmp(alias, rows[a].alias, n) && (alias[n] == '-' || !alias[n]);
    }
    return false;
}

static bool aliases_used[64];

/* No node without a name, no name twice. */
static void look_at_names(const golden *g, const qn_graph *graph, const char *when, bool *used)
{
    static const char *names[8192];
    const qn_value_role *roles = qn_value_roles();
    assert_in_range(graph->n_nodes, 1, 8192);
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        names[i] = graph->nodes[i]->name;
        const qn_value_role *role = qn__role_of(graph->nodes[i]);
        if (role) used[role - roles] = true;
        (void)qn__aliases(graph, graph->nodes[i], note_alias, aliases_used);
        if (!names[i][0]) fail_msg("%s %s: node %d has no name", g->name, when, i);
        for (int32_t k = 0; k < i; k++)
            if (!strcmp(names[i], names[k])) fail_msg("%s %s: two nodes are called %s", g->name, when, names[i]);
    }
}

/* As built, and as it runs on two backends. */
static void every_value_has_a_name(void **state)
{
    (void)state;
    const qn_value_role *roles = qn_value_roles();
    bool used[QN_ROLE_COUNT] = {false};
    for (golden *g = goldens; g < goldens + n_goldens; g++) {
        qn_engine *engine = NULL;
        qn_session *session = NULL;
        qn_engine_info info;
        qn_graph *graph = NULL;
        const qn_place_rule rule = {"blk.1.*", 1};
        const qn_engine_options options = {.backends = "cpu:ref,cpu:ref", .n_threads = 1, .rules = &rule, .n_rules = 1};
        MUST(qn_engine_open(g->path, &options, &engine, err));
        qn_engine_get_info(engine, &info);
        const qn_session_options so = {.n_ctx = 64, .n_batch = 8, .embeddings = info.encoder};
        MUST(qn_session_create(engine, &so, &session, err));
        const qn_decode_spec spec = qn__decode_spec(engine, &session->shape, 5, 2);
        MUST(qn__build_decode(engine->model, &session->kv_desc, &spec, &graph, err));
        look_at_names(g, graph, "as built", used);
        MUST(qn__sched_dry_run(session->sched, graph, NULL, NULL, NULL, err));
        look_at_names(g, graph, "as it runs", used);
        qn__graph_destroy(graph);
        const qn_kv_desc *kv = &session->kv_desc;
        if (!info.encoder && !engine->model->top.pos_embd) {
            MUST(qn__build_shift(engine->model, kv, 3, true, &graph, err));
            look_at_names(g, graph, "a shift", used);
            qn__graph_destroy(graph);
        }
        qn_session_destroy(session);
        qn_engine_close(engine);
    }
    for (int r = 0; r < QN_ROLE_COUNT; r++)
        if (!used[r]) fail_msg("no model has a value called %s", roles[r].name);
    for (int a = 0; qn_value_aliases()[a].alias; a++)
        if (!aliases_used[a]) fail_msg("no model has a value called %s", qn_value_aliases()[a].alias);
}

static int write_all(const char *folder)
{
    char path[768];
    snprintf(path, sizeof(path), "%s/models.json", folder);
    FILE *list = fopen(path, "w");
    if (!list) return 1;
    fprintf(list, "{\"tokens\": [");
    for (int i = 0; i < N_TOKENS; i++) fprintf(list, "%s%d", i ? ", " : "", tokens[i]);
    fprintf(list, "], \"names\": [");
    for (int m = 0; m < N_MODELS; m++) {
        qn_error err;
        fprintf(list, "%s\"%s\"", m ? ", " : "", models[m].name);
        snprintf(path, sizeof(path), "%s/%s.gguf", folder, models[m].name);
        if (qn_synth(path, &models[m].options, NULL, NULL, &err) != QN_OK) {
            fprintf(stderr, "%s: %s\n", models[m].name, err.text);
            return 1;
        }
    }
    fprintf(list, "], \"exact\": [");
    for (int m = 0, n = 0; m < N_MODELS; m++)
        if (models[m].exact) fprintf(list, "%s\"%s\"", n++ ? ", " : "", models[m].name);
    fprintf(list, "]}\n");
    return fclose(list) != 0;
}

static int write_models(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        golden *g = &goldens[n_goldens++];
        char name[64];
        snprintf(name, sizeof(name), "%s.gguf", models[m].name);
        *g = (golden){.name = models[m].name,
                      .tokens = tokens,
                      .width = FOLDS,
                      .kv_type = models[m].exact ? QN_DTYPE_F32 : QN_DTYPE_F16};
        snprintf(g->path, sizeof(g->path), "%s", tiny_path(name));
        assert_string_equal(figures[m].name, models[m].name); /* in the same order */
        g->limit = figures[m].limit;
        g->want = figures[m].sums;
        write_model(m, g->path);
    }
    return 0;
}

int main(int argc, char **argv)
{
    make_tokens();
    if (argc == 3 && strcmp(argv[1], "--write") == 0) return write_all(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_the_same_everywhere),
        cmocka_unit_test(covers),
        cmocka_unit_test(every_value_has_a_name),
        cmocka_unit_test(error_at_every_level),
        cmocka_unit_test(bit_identical),
        cmocka_unit_test(every_kv_type),
        cmocka_unit_test(split_over_two_backends),
    };
    if (argc == 2 && strcmp(argv[1], "--bytes") == 0) {
        const struct CMUnitTest bytes[] = {tests[0]};
        return cmocka_run_group_tests(bytes, write_models, release_goldens);
    }
    return cmocka_run_group_tests(tests, write_models, release_goldens);
}
