/* SPDX-License-Identifier: MIT */
/* Opening: what the engine says of itself is what the file holds; every wrong file, option and rule is refused by name
 * and leaves nothing; weights are used where they are mapped, and wherever rules put them the logits are the same. */
#include "rig.h"

static uint64_t live(void)
{
    qn_metrics m;
    qn_metrics_snapshot(&m);
    return m.live_bytes;
}

static qn_status try_open(const char *path, const qn_engine_options *o, qn_error *err)
{
    qn_engine *e = NULL;
    const uint64_t before = live();
    const qn_status status = qn_engine_open(path, o, &e, err);
    if (status == QN_OK)
        qn_engine_close(e);
    else
        assert_null(e);
    assert_int_equal(live(), before);
    return status;
}

static void info(void **state)
{
    (void)state;
    qn_engine_info i;
    qn_metrics before, after;
    qn_metrics_snapshot(&before);
    qn_engine *e = rig_open(&(tiny){.arch = "qwen3",
                                    .n_layer = 3,
                                    .n_embd = 48,
                                    .n_head = 6,
                                    .n_kv_head = 3,
                                    .head = 10,
                                    .n_ff = 64,
                                    .type = QN_DTYPE_F16},
                            &(qn_engine_options){.n_threads = 2});
    qn_metrics_snapshot(&after);
    assert_int_equal(after.gguf_parses - before.gguf_parses, 1);
    qn_engine_get_info(e, &i);
    assert_string_equal(i.arch, "qwen3");
    assert_string_equal(i.name, "tiny");
    assert_int_equal(i.n_vocab, RIG_VOCAB);
    assert_int_equal(i.n_ctx_train, 128);
    assert_int_equal(i.n_embd, 48);
    assert_int_equal(i.n_layer, 3);
    assert_int_equal(i.n_head, 6);
    assert_int_equal(i.n_kv_head, 3);
    assert_int_equal(i.n_embd_head, 10);
    assert_int_equal(i.n_ff, 64);
    assert_int_equal(i.n_threads, 2);
    assert_int_equal(i.n_backends, 1);
    assert_int_equal(i.copied_bytes, 0); /* mapped, not copied */
    assert_true(i.load_seconds > 0 && i.load_seconds < 60);
    /* Matrices: embedding and output, and a layer's q 60, k and v 30 each, output 60, feed-forward 3 times 64, all
     * times 48; norms. */
    const uint64_t matrices = (uint64_t)48 * (2 * RIG_VOCAB + 3 * (60 + 30 + 30 + 60 + 3 * 64)),
                   vectors = 48 + 3 * (2 * 48 + 2 * 10);
    assert_int_equal(i.n_params, matrices + vectors);
    assert_int_equal(i.weight_bytes, matrices * 2 + vectors * 4);
    qn_cpu_level level;
    assert_true(qn_cpu_level_find(i.cpu_level, &level));
    char name[32];
    snprintf(name, sizeof(name), "cpu:%s", i.cpu_level);
    assert_string_equal(qn_engine_backend_name(e, 0), name);
    assert_null(qn_engine_backend_name(e, 1));
    assert_null(qn_engine_backend_name(e, -1));
    assert_int_equal(qn_tokenizer_n_tokens(qn_engine_tokenizer(e)), RIG_VOCAB);
    qn_engine_close(e);
    qn_engine_close(NULL);
}

static void wrong_files(void **state)
{
    (void)state;
    const qn_engine_options o = {.n_threads = 1};
    REFUSED(io, try_open(tiny_path("none.gguf"), &o, err), "none.gguf", "No such file");
    REFUSED(invalid, try_open("/", &o, err), "directory");
    REFUSED(invalid, try_open("", &o, err));
    FILE *f = fopen(tiny_path("text.gguf"), "w");
    assert_non_null(f);
    fputs("once upon a time", f);
    fclose(f);
    REFUSED(format, try_open(tiny_path("text.gguf"), &o, err), "text.gguf");
    qn_gguf_writer *w = NULL;
    MUST(qn_gguf_writer_create(tiny_path("bare.gguf"), &w, err));
    qn_gguf_write_str(w, "general.name", "no model");
    MUST(qn_gguf_writer_commit(w, err));
    REFUSED(format, try_open(tiny_path("bare.gguf"), &o, err), "bare.gguf", "general.architecture");
    MUST(qn_gguf_writer_create(tiny_path("bare.gguf"), &w, err));
    qn_gguf_write_str(w, "general.architecture", "llama");
    MUST(qn_gguf_writer_commit(w, err));
    REFUSED(format, try_open(tiny_path("bare.gguf"), &o, err), "tokenizer.ggml.model");
    MUST(tiny_write(tiny_path("m.gguf"), &(tiny){0}, err));
    MUST(try_open(tiny_path("m.gguf"), &o, err));
    /* The data cut off: the header is fine, the last tensor is not there. */
    f = fopen(tiny_path("m.gguf"), "rb+");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    fclose(f);
    assert_int_equal(truncate(tiny_path("m.gguf"), size - 4000), 0);
    REFUSED(format, try_open(tiny_path("m.gguf"), &o, err), "m.gguf", "blk.1.ffn_down.weight");
}

static bool more_tokens(const char *name, qn_dtype *dtype, qn_shape *shape)
{
    (void)dtype;
    if (strcmp(name, "token_embd.weight") == 0 || strcmp(name, "output.weight") == 0) shape->dim[0] = 260;
    return false;
}

static void wrong_models(void **state)
{
    (void)state;
    MUST(tiny_write(tiny_path("v.gguf"), &(tiny){.tensor = more_tokens}, err)); /* 300 tokens, 260 rows */
    REFUSED(format, try_open(tiny_path("v.gguf"), NULL, err), "v.gguf", "300", "260");
}

static void wrong_options(void **state)
{
    (void)state;
    MUST(tiny_write(tiny_path("o.gguf"), &(tiny){0}, err));
    const char *path = tiny_path("o.gguf");
    const qn_place_rule far[] = {{"blk.*", 0}, {"out*", 2}}, negative[] = {{"*", -1}};
#define WITH(...) try_open(path, &(qn_engine_options){__VA_ARGS__}, err)
    REFUSED(unsupported, WITH(.backends = "tpu"), "\"tpu\"", "cpu");
    REFUSED(unsupported, WITH(.backends = "cpux"), "\"cpux\"");
    REFUSED(invalid, WITH(.backends = "cpu:mmx"), "\"mmx\"", "avx2");
    REFUSED(invalid, WITH(.backends = "cpu:"), "\"\"");
    REFUSED(invalid, WITH(.backends = ""), "empty");
    REFUSED(invalid, WITH(.backends = "cpu,,cpu"), "empty");
    REFUSED(invalid, WITH(.backends = "cpu,"), "empty");
    REFUSED(invalid, WITH(.backends = "cpu:a-level-with-a-name-that-goes-on-and-on-and-on-and-on"), "too long");
    REFUSED(limit, WITH(.backends = "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu", .n_threads = 1), "8");
    REFUSED(invalid, WITH(.n_threads = -1), "-1 threads");
    REFUSED(invalid, WITH(.n_threads = 257), "257 threads", "256");
    REFUSED(invalid, WITH(.backends = "cpu,cpu", .rules = far, .n_rules = 2), "\"out*\"", "backend 2", "0 to 1");
    REFUSED(invalid, WITH(.rules = negative, .n_rules = 1), "backend -1");
    static const char *const slips[] = {"blk.9.*", "weight", "blk", "?", ""}; /* none matches a whole name */
    for (size_t i = 0; i < sizeof(slips) / sizeof(slips[0]); i++) {
        const qn_place_rule slip[] = {{"blk.*", 0}, {slips[i], 0}};
        char quoted[32];
        snprintf(quoted, sizeof(quoted), "\"%s\" matches no weight", slips[i]);
        REFUSED(invalid, WITH(.rules = slip, .n_rules = 2), quoted, "inspect");
    }
    MUST(WITH(.backends = "cpu,cpu,cpu:ref,cpu,cpu,cpu,cpu,cpu", .n_threads = 1)); /* eight there may be */
}

static bool stop_loading(void *ctx, uint64_t done, uint64_t total)
{
    (*(int *)ctx)++;
    return done > total;
}

static bool watch_loading(void *ctx, uint64_t done, uint64_t total)
{
    uint64_t *last = ctx;
    *last = done == total ? total : 0;
    return true;
}

static void policies(void **state)
{
    (void)state;
    int calls = 0;
    uint64_t last = 0;
    MUST(tiny_write(tiny_path("p.gguf"), &(tiny){0}, err));
    REFUSED(cancelled,
            try_open(tiny_path("p.gguf"),
                     &(qn_engine_options){.policy = QN_GGUF_populate, .progress = stop_loading, .progress_ctx = &calls},
                     err),
            "p.gguf");
    assert_int_equal(calls, 1);
    MUST(try_open(tiny_path("p.gguf"),
                  &(qn_engine_options){.policy = QN_GGUF_populate, .progress = watch_loading, .progress_ctx = &last},
                  err));
    assert_true(last > 10000);
}

/* What loading cost: nothing is read by mapping, the whole file by a policy that reads it, and copies count. Locking
 * may be forbidden; then the error says where to look. */
static void what_loading_says(void **state)
{
    (void)state;
    static const struct {
        qn_gguf_policy policy;
        bool reads;
    } rows[] = {{QN_GGUF_lazy, false}, {QN_GGUF_populate, true}, {QN_GGUF_lock, true}, {QN_GGUF_ahead, false}};
    const char *path = tiny_path("l.gguf");
    MUST(tiny_write(path, &(tiny){.n_embd = 256, .n_ff = 1024, .type = QN_DTYPE_F16}, err));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        qn_engine *e = NULL;
        qn_engine_info info;
        qn_error error;
        const qn_status status =
            qn_engine_open(path, &(qn_engine_options){.policy = rows[i].policy, .n_threads = 1}, &e, &error);
        if (rows[i].policy == QN_GGUF_lock && status == QN_STATUS_io) {
            assert_non_null(strstr(error.text, "ulimit -l"));
            continue;
        }
        assert_int_equal(status, QN_OK);
        qn_engine_get_info(e, &info);
        assert_int_equal(info.load_bytes, rows[i].reads ? qn_gguf_file_bytes(qn_engine_file(e)) : 0);
        assert_true(rows[i].reads ? info.load_gb_s > 0 && info.load_gb_s < 1e3 : info.load_gb_s == 0);
        assert_true((double)info.load_bytes * 1e-9 <= info.load_gb_s * info.load_seconds * 1.001);
        if (rows[i].reads)
            assert_int_equal(qn_gguf_resident_bytes(qn_engine_file(e)), qn_gguf_file_bytes(qn_engine_file(e)));
        qn_engine_close(e);
    }
    /* What a policy would read is asked for first. */
    const uint64_t little = 10000;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const qn_engine_options o = {.policy = rows[i].policy, .n_threads = 1, .memory_limit = little};
        if (rows[i].reads)
            REFUSED(limit, try_open(path, &o, err), "l.gguf", "loading takes", "9.8 KiB are free", "lazy");
        else
            MUST(try_open(path, &o, err));
    }
}

/* Any split of the weights over any backends: names match as globs, the first rule wins, and K4 holds. */
static void placement(void **state)
{
    (void)state;
    static const struct {
        const char *backends;
        qn_place_rule rules[4];
        int n;
        const char *where, *not_where;
    } rows[] = {
        {"cpu:ref", {{0}}, 0, NULL, NULL},
        {"cpu:ref,cpu:ref", {{"blk.?.*", 1}}, 1, "\"attn-0\" -> cpu:ref#1", "\"logits\" -> cpu:ref#1"},
        {"cpu:ref,cpu:ref", {{"blk.1.*", 0}, {"*", 1}}, 2, "\"logits\" -> cpu:ref#1", "\"attn-1\" -> cpu:ref#1"},
        {"cpu:ref,cpu:ref,cpu:ref",
         {{"*.ffn_*", 2}, {"blk.0.attn_k*", 1}},
         2,
         "\"attn-0\" -> cpu:ref#1",
         "\"attn-1\" -> cpu:ref#1"},
        {"cpu:ref,cpu:ref",
         {{"*attn*q*weight", 1}, {"output.weight", 1}, {"token_embd.weigh?", 1}},
         3,
         "\"logits\" -> cpu:ref#1",
         "\"attn-0\" -> cpu:ref#1"},
    };
    rig_row want;
    qn_token tokens[25];
    rig_story(0, tokens, 25);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        qn_engine *e = rig_open(&(tiny){.arch = "qwen2"}, &(qn_engine_options){.backends = rows[i].backends,
                                                                               .n_threads = 1,
                                                                               .rules = rows[i].rules,
                                                                               .n_rules = rows[i].n,
                                                                               .strict = true});
        qn_session *s = rig_session(e, (qn_session_options){.n_batch = 9});
        char *plan = NULL;
        rig_feed(s, 0, tokens, 25);
        if (i == 0) want = rig_logits(s, -1);
        SAME(rig_logits(s, -1), want);
        MUST(qn_session_print_plan(s, 4, &plan, err));
        if (rows[i].where && !strstr(plan, rows[i].where)) fail_msg("%zu: no %s in\n%s", i, rows[i].where, plan);
        if (rows[i].not_where && strstr(plan, rows[i].not_where))
            fail_msg("%zu: %s in\n%s", i, rows[i].not_where, plan);
        qn_free(plan);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

/* Rules that put every matrix of a layer on backend 1, and nothing else. */
static int matrices(const qn_arch *arch, const char *layer, qn_place_rule *rules)
{
    static char names[16][64];
    int n = 0;
    qn_hparams hp = tiny_hp(&(tiny){0}, arch);
    for (int i = 0; i < arch->n_hparams; i++) /* what is not written, a reader takes so */
        if (qn__hparam_get(&hp, &arch->hparams[i]) == 0)
            qn__hparam_set(&hp, &arch->hparams[i], arch->hparams[i].fallback);
    const qn_layer_hp l = qn__layer_hp(&hp, 1);
    for (int r = 0; r < arch->n_tensors; r++) {
        const qn_tensor_row *row = &arch->tensors[r];
        if (!qn__tensor_row_in(row, &hp, &l)) continue;
        if (!row->layer || row->flags & (W_VECTOR | W_NO_SYNTH)) continue;
        assert_in_range(n, 0, 15);
        snprintf(names[n], sizeof names[0], "%s%s", layer, row->name + strlen("blk.%d."));
        rules[n] = (qn_place_rule){names[n], 1};
        n++;
    }
    return n;
}

/* A layer on another backend: the stream goes there once and comes back once, and nothing else does: inputs go up to
 * both places, and the table of angles is computed at both. Norms and biases that no rule names lie with their matrix.
 */
static void norms_follow_their_layer(void **state)
{
    (void)state;
    qn_token tokens[9];
    rig_story(0, tokens, 9);
    for (size_t i = 0; i < TINY_N_ARCHS; i++) {
        if (tiny_sees_ahead(tiny_archs[i])) continue;
        qn_place_rule rules[16];
        const int n_rules = matrices(qn__arch_find(tiny_archs[i]), "blk.1.", rules);
        qn_engine *e = rig_open(&(tiny){.arch = tiny_archs[i]}, &(qn_engine_options){.backends = "cpu:ref,cpu:ref",
                                                                                     .n_threads = 1,
                                                                                     .rules = rules,
                                                                                     .n_rules = n_rules});
        qn_session *s = rig_session(e, (qn_session_options){0});
        qn_metrics before, after;
        qn_session_stats stats;
        rig_feed(s, 0, tokens, 8);
        qn_metrics_snapshot(&before);
        rig_feed(s, 0, tokens + 8, 1);
        qn_metrics_snapshot(&after);
        qn_session_get_stats(s, &stats);
        assert_int_equal(after.weight_transfers, before.weight_transfers);
        /* nothing rotates in three; in olmo and talkie the last norm has no weight that it would follow, and talkie's
         * layers read the embeddings too; gemma3n's stream is four versions, each of which goes by itself and is put
         * together where its parts are, and layers have embeddings of their own */
        const bool talkie = strcmp(tiny_archs[i], "talkie") == 0, altup = strcmp(tiny_archs[i], "gemma3n") == 0;
        const bool one = strcmp(tiny_archs[i], "olmo") == 0 || strcmp(tiny_archs[i], "grovemoe") == 0;
        const int more = talkie ? 2 : altup ? 11 : one;
        assert_int_equal(stats.n_transfers, 2 + more);
        assert_int_equal(after.transfers - before.transfers, stats.n_transfers);
        assert_int_equal(stats.n_splits, altup ? 7 : 3);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

/* Every kind of tokenizer is opened with the model, and goes there and back. */
static void tokenizers(void **state)
{
    (void)state;
    static const char *const kinds[] = {"llama", "gpt2", "bert", "t5"};
    for (int k = 0; k < 4; k++) {
        qn_engine *e = rig_open(&(tiny){.tokenizer = kinds[k]}, NULL);
        const qn_tokenizer *tok = qn_engine_tokenizer(e);
        static const char text[] = "ka lo";
        qn_token *ids = NULL;
        size_t n = 0, len = 0;
        char *back = NULL;
        assert_string_equal(qn_tokenizer_model(tok), kinds[k]);
        MUST(qn_tokenize(tok, text, strlen(text), NULL, &ids, &n, err));
        assert_true(n >= 2);
        MUST(qn_detokenize(tok, ids, n, NULL, &back, &len, err));
        assert_string_equal(back, text);
        qn_free(ids);
        qn_free(back);
        qn_engine_close(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_loading_says), cmocka_unit_test(info),
        cmocka_unit_test(wrong_files),       cmocka_unit_test(wrong_models),
        cmocka_unit_test(wrong_options),     cmocka_unit_test(policies),
        cmocka_unit_test(placement),         cmocka_unit_test(norms_follow_their_layer),
        cmocka_unit_test(tokenizers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
