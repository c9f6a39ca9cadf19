/* SPDX-License-Identifier: MIT */
/* Embeddings: a text's bits are its own, whatever threads, batches and neighbours there are; each pooling against what
 * is made of hidden states here; nothing is left in the cache and nothing allocated once warm; what is refused, in
 * words. That the numbers are right is tests/golden's. */
#include "rig.h"
#include "engine/engine.h"
#include <pthread.h>

enum { WIDTH = 32, LONG = 23, N_TEXTS = 5 };

static qn_token tokens[RIG_MAX];
static const qn_embedding_text texts[N_TEXTS] = {
    {tokens, LONG}, {tokens + 3, 1}, {tokens + 40, 9}, {tokens, 7}, {tokens + 20, 16}};

static qn_engine *open_arch(const char *arch, int threads, bool (*tensor)(const char *, qn_dtype *, qn_shape *))
{
    return rig_open(&(tiny){.arch = arch, .n_kv_head = 4, .tensor = tensor},
                    &(qn_engine_options){.n_threads = threads});
}

static qn_session *open_session(qn_engine *e, int32_t n_batch, int32_t n_seq)
{
    return rig_session(e, (qn_session_options){.n_batch = n_batch, .n_seq = n_seq, .embeddings = true});
}

static void embed(qn_session *s, const qn_embedding_text *t, int n, qn_pooling pooling, float *out)
{
    MUST(qn_session_embeddings(s, t, n, &(qn_embedding_options){.pooling = pooling}, out, err));
    assert_int_equal(qn_session_free_cells(s), RIG_MAX);
}

static int n_rows(qn_pooling pooling, const qn_embedding_text *t, int n)
{
    int rows = 0;
    for (int i = 0; i < n; i++) rows += pooling == QN_POOLING_none ? t[i].n_tokens : 1;
    return rows;
}

/* Alone in sessions of their own; then all at once, with as many at a time as there are sequences, on other numbers of
 * threads. Decoders also in chunks of 5 tokens. */
static void bits_are_a_texts_own(void **state)
{
    (void)state;
    static const char *const archs[] = {"bert", "modern-bert", "gemma-embedding", "qwen3"};
    for (int a = 0; a < 4; a++) {
        for (int p = QN_POOLING_none; p < QN_POOLING_rank; p++) {
            float alone[64 * WIDTH], all[64 * WIDTH];
            float *to = alone;
            const qn_pooling pooling = (qn_pooling)p;
            qn_engine *e = open_arch(archs[a], 1, NULL);
            for (int i = 0; i < N_TEXTS; i++) {
                qn_session *s = open_session(e, 64, 1);
                embed(s, &texts[i], 1, pooling, to);
                to += n_rows(pooling, &texts[i], 1) * WIDTH;
                qn_session_destroy(s);
            }
            qn_engine_close(e);
            const size_t bytes = (size_t)(to - alone) * sizeof(float);
            for (int t = 1; t <= 3; t++) {
                static const int seqs[] = {0, 1, 2, N_TEXTS}, batches[] = {0, 64, 30, LONG};
                e = open_arch(archs[a], t, NULL);
                const bool chunks = strcmp(archs[a], "qwen3") == 0 && t == 2;
                qn_session *s = rig_session(e, (qn_session_options){.n_batch = chunks ? 5 : batches[t],
                                                                    .n_seq = seqs[t],
                                                                    .embeddings = true,
                                                                    .no_plan_cache = t == 1});
                memset(all, 0, sizeof all);
                embed(s, texts, N_TEXTS, pooling, all);
                if (memcmp(all, alone, bytes) != 0)
                    fail_msg("%s, %s: %d threads, %d sequences", archs[a], qn_pooling_name(pooling), t, seqs[t]);
                qn_session_destroy(s);
                qn_engine_close(e);
            }
        }
    }
}

static void close_to(const float *have, const double *want)
{
    for (int k = 0; k < WIDTH; k++)
        if (fabs((double)have[k] - want[k]) > 1e-6 * (1 + fabs(want[k])))
            fail_msg("element %d is %.9g, %.9g expected", k, (double)have[k], want[k]);
}

static void pools(void **state)
{
    (void)state;
    float hidden[64 * WIDTH], have[N_TEXTS * WIDTH];
    qn_engine *e = open_arch("nomic-bert", 2, NULL);
    qn_session *s = open_session(e, 64, 3);
    qn_engine_info info;
    qn_engine_get_info(e, &info);
    assert_true(info.encoder && info.both_ways && info.pooling == QN_POOLING_mean);
    assert_int_equal(info.n_embd_out, WIDTH);
    assert_int_equal(info.n_label, 0);
    embed(s, texts, N_TEXTS, QN_POOLING_none, hidden);
    for (int p = QN_POOLING_unset; p < QN_POOLING_rank; p++) {
        if (p == QN_POOLING_none) continue;
        for (int normal = 0; normal < 2; normal++) {
            const float *rows = hidden;
            MUST(qn_session_embeddings(s, texts, N_TEXTS, &(qn_embedding_options){(qn_pooling)p, normal}, have, err));
            for (int i = 0; i < N_TEXTS; i++) {
                double want[WIDTH] = {0}, size = 0;
                for (int j = 0; j < texts[i].n_tokens; j++, rows += WIDTH)
                    for (int k = 0; k < WIDTH; k++)
                        want[k] += p == QN_POOLING_first ? (j == 0) * (double)rows[k]
                                   : p == QN_POOLING_last
                                       ? (j == texts[i].n_tokens - 1) * (double)rows[k]
                                       : (double)rows[k] / (double)texts[i].n_tokens; /* mean, which is the default */
                for (int k = 0; k < WIDTH; k++) size += want[k] * want[k];
                for (int k = 0; k < WIDTH && normal; k++) want[k] /= sqrt(size);
                close_to(have + i * WIDTH, want);
            }
        }
    }
    qn_session_destroy(s);
    qn_engine_close(e);
}

static void nothing_allocates_once_warm(void **state)
{
    (void)state;
    float want[WIDTH], have[2 * WIDTH];
    qn_metrics warm, after;
    qn_engine *e = open_arch("gemma3", 2, NULL);
    qn_session *s = open_session(e, 16, 3);
    embed(s, texts, 1, QN_POOLING_mean, want);
    for (int i = 0; i < 3; i++) {
        qn_metrics_snapshot(&warm);
        MUST(qn_session_embeddings(s, texts, 2, &(qn_embedding_options){.pooling = QN_POOLING_mean}, have, err));
        qn_metrics_snapshot(&after);
        assert_memory_equal(have, want, sizeof want);
    }
    assert_int_equal(after.allocs, warm.allocs);
    qn_session_destroy(s);
    qn_engine_close(e);
}

static bool stop_second(void *ctx, const qn_node *node, bool after)
{
    int *n_runs = ctx;
    if (!after && strcmp(qn_node_name(node), "embd") == 0) ++*n_runs;
    return *n_runs != 2;
}

static void *a_turn(void *engine)
{
    qn_turn_taker stranger = {0};
    qn_engine *e = engine;
    qn__turns_take(&e->turns, &stranger);
    qn__turns_give(&e->turns, &stranger);
    return NULL;
}

/* Where others compute, texts are computed in chunks; when the second fails, the first's are gone as well. */
static void nothing_left_by_a_failure(void **state)
{
    (void)state;
    float want[2 * WIDTH], have[2 * WIDTH];
    qn_engine *e = open_arch("qwen3", 1, NULL);
    qn_session *s = open_session(e, 64, 2);
    int n_runs = 0;
    pthread_t stranger;
    embed(s, texts, 2, QN_POOLING_mean, want);
    s->token_s = 1; /* so that a chunk is the least there is */
    qn_session_set_eval(s, stop_second, &n_runs);
    assert_int_equal(pthread_create(&stranger, NULL, a_turn, e), 0);
    pthread_join(stranger, NULL);
    REFUSED(cancelled,
            qn_session_embeddings(s, texts, 2, &(qn_embedding_options){.pooling = QN_POOLING_mean}, have, err));
    assert_int_equal(qn_session_free_cells(s), RIG_MAX);
    qn_session_set_eval(s, NULL, NULL);
    embed(s, texts, 2, QN_POOLING_mean, have);
    assert_memory_equal(have, want, sizeof want);
    qn_session_destroy(s);
    qn_engine_close(e);
}

static void decode_refused(void **state)
{
    (void)state;
    qn_engine *e = open_arch("bert", 1, NULL);
    qn_session *s = NULL;
    qn_batch_item item = {1, 0, 0, true};
    REFUSED(unsupported, qn_session_create(e, NULL, &s, err), "bert", "encoder");
    s = open_session(e, 16, 1);
    REFUSED(state, qn_session_decode(s, &item, 1, err), "embeddings");
    REFUSED(state, qn_session_decode_start(s, &item, 1, err), "embeddings");
    REFUSED(state, qn_session_feed(s, 0, tokens, 3, err), "embeddings");
    assert_null(qn_session_logits(s, 0));
    qn_session_destroy(s);
    qn_engine_close(e);
}

static void texts_refused(void **state)
{
    (void)state;
    float out[WIDTH];
    qn_token wrong[2] = {1, RIG_VOCAB};
    qn_token many[RIG_MAX + 1] = {0};
    qn_engine *e = open_arch("bert", 1, NULL), *decoder = open_arch("qwen3", 1, NULL);
    qn_session *s = open_session(e, 16, 2), *d = open_session(decoder, 16, 1),
               *logits = rig_session(decoder, (qn_session_options){0});
    const qn_embedding_text none = {tokens, 0}, unknown = {wrong, 2}, longer = {tokens, 17},
                            longest = {many, RIG_MAX + 1};
    const qn_embedding_options rank = {.pooling = QN_POOLING_rank}, odd = {.pooling = (qn_pooling)9};
    REFUSED(invalid, qn_session_embeddings(s, texts, 0, NULL, out, err), "0 texts");
    REFUSED(invalid, qn_session_embeddings(s, &none, 1, NULL, out, err), "text 0", "no tokens");
    REFUSED(invalid, qn_session_embeddings(s, &unknown, 1, NULL, out, err), "300");
    REFUSED(limit, qn_session_embeddings(s, &longer, 1, NULL, out, err), "17", "16");
    REFUSED(limit, qn_session_embeddings(s, &longest, 1, NULL, out, err), "129", "128", "bert");
    REFUSED(limit, qn_session_embeddings(d, &longest, 1, NULL, out, err), "129", "128");
    REFUSED(unsupported, qn_session_embeddings(s, texts + 1, 1, &rank, out, err), "head", "cls");
    REFUSED(invalid, qn_session_embeddings(s, texts + 1, 1, &odd, out, err), "pooling 9");
    REFUSED(state, qn_session_embeddings(logits, texts, 1, NULL, out, err), "logits");
    MUST(qn_session_embeddings(d, &longer, 1, NULL, out, err)); /* in two chunks */
    qn_session_destroy(s);
    qn_session_destroy(d);
    qn_session_destroy(logits);
    qn_engine_close(e);
    qn_engine_close(decoder);
}

/* ---- keys ---- */

static void dense_alone(qn_gguf_writer *w) { qn_gguf_write_u32(w, "gemma-embedding.dense_2_feat_out", 40); }
static void dense_apart(qn_gguf_writer *w)
{
    dense_alone(w);
    qn_gguf_write_u32(w, "gemma-embedding.dense_3_feat_in", 48);
    qn_gguf_write_u32(w, "gemma-embedding.dense_3_feat_out", 16);
}
static void sixth_pooling(qn_gguf_writer *w) { qn_gguf_write_u32(w, "gemma-embedding.pooling_type", 6); }
static void labels_are_a_number(qn_gguf_writer *w)
{
    qn_gguf_write_u32(w, "gemma-embedding.classifier.output_labels", 2);
}

static void keys_refused(void **state)
{
    (void)state;
    static const struct {
        void (*extra)(qn_gguf_writer *);
        const char *words[2];
    } rows[] = {{dense_alone, {"dense_2_feat_out 40", "dense_3_feat_in 0"}},
                {dense_apart, {"dense_3_feat_in 48", "dense_3_feat_out 16"}},
                {sixth_pooling, {"pooling_type", "from 0 to 4"}},
                {labels_are_a_number, {"classifier.output_labels", "array"}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = tiny_path("keys.gguf");
        qn_engine *e = NULL;
        MUST(tiny_write(path, &(tiny){.arch = "gemma-embedding", .extra = rows[i].extra}, err));
        REFUSED(format, qn_engine_open(path, NULL, &e, err), rows[i].words[0], rows[i].words[1]);
    }
}

static void names(void **state)
{
    (void)state;
    qn_pooling pooling = QN_POOLING_unset;
    assert_true(qn_pooling_find("mean", &pooling) && pooling == QN_POOLING_mean);
    assert_false(qn_pooling_find("unset", &pooling) || qn_pooling_find("cls", &pooling));
    assert_string_equal(qn_pooling_name(QN_POOLING_rank), "rank");
    assert_null(qn_pooling_name((qn_pooling)99));
}

/* ---- pairs ---- */

static const char *rerank_template;
static void write_template(qn_gguf_writer *w)
{
    if (rerank_template) qn_gguf_write_str(w, "tokenizer.chat_template.rerank", rerank_template);
}
static void write_ends(qn_gguf_writer *w)
{
    qn_gguf_write_bool(w, "tokenizer.ggml.add_bos_token", true);
    qn_gguf_write_bool(w, "tokenizer.ggml.add_eos_token", true);
    qn_gguf_write_bool(w, "tokenizer.ggml.add_sep_token", true);
    qn_gguf_write_u32(w, "tokenizer.ggml.seperator_token_id", 2);
}

static size_t pair_of(qn_engine *e, const char *query, const char *text, qn_token *out)
{
    qn_token *ids = NULL;
    size_t n = 0;
    MUST(qn_engine_tokenize_pair(e, (qn_gguf_str){query, strlen(query)}, (qn_gguf_str){text, strlen(text)}, &ids, &n,
                                 err));
    assert_in_range(n, 0, 64);
    memcpy(out, ids, n * sizeof *ids);
    qn_free(ids);
    return n;
}

static size_t ids_of(qn_engine *e, const char *text, qn_token *out)
{
    qn_token *ids = NULL;
    size_t n = 0;
    MUST(qn_tokenize(qn_engine_tokenizer(e), text, strlen(text),
                     &(qn_tokenize_options){.no_bos = true, .no_special = true}, &ids, &n, err));
    memcpy(out, ids, n * sizeof *ids);
    qn_free(ids);
    return n;
}

/* [CLS] query [SEP] text [SEP]; with unigrams <s> query </s> </s> text </s>, as XLM-RoBERTa has it. */
static void pair_by_vocabulary(void **state)
{
    (void)state;
    qn_token want[64], have[64];
    for (int k = 0; k < 2; k++) {
        qn_engine *e = rig_open(
            &(tiny){.arch = "bert", .n_kv_head = 4, .tokenizer = k ? "t5" : "bert", .extra = k ? write_ends : NULL},
            NULL);
        const qn_tokenizer *tok = qn_engine_tokenizer(e);
        const qn_token end = k ? qn_tokenizer_eos(tok) : qn_tokenizer_sep(tok);
        size_t n = 0;
        want[n++] = qn_tokenizer_bos(tok);
        n += ids_of(e, "la [SEP] </s> ko", want + n);
        want[n++] = end;
        if (k) want[n++] = qn_tokenizer_sep(tok);
        n += ids_of(e, "ni", want + n);
        want[n++] = end;
        assert_int_equal(pair_of(e, "la [SEP] </s> ko", "ni", have), n);
        assert_memory_equal(have, want, n * sizeof *want);
        qn_engine_close(e);
    }
}

/* What is filled in is not looked at again, and is no control token; the template's own are. */
static void pair_by_template(void **state)
{
    (void)state;
    qn_token have[64];
    rerank_template = "<s>{query}</s>{document}{nothing}";
    qn_engine *e = rig_open(&(tiny){.extra = write_template}, NULL);
    const size_t n = pair_of(e, "la{document}<s>", "{query}", have);
    int n_bos = 0, n_eos = 0;
    char *text = NULL;
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        n_bos += have[i] == 1;
        n_eos += have[i] == 2;
    }
    assert_int_equal(n_bos, 1);
    assert_int_equal(n_eos, 1);
    MUST(qn_detokenize(qn_engine_tokenizer(e), have, n, &(qn_detokenize_options){.show_special = true}, &text, &len,
                       err));
    assert_non_null(strstr(text, "la{document}<s></s>"));
    assert_non_null(strstr(text, "{query}{nothing}"));
    qn_free(text);
    qn_engine_close(e);
    rerank_template = "{query}{query}{query}{query}{query}{query}{query}{query}{query}";
    e = rig_open(&(tiny){.extra = write_template}, NULL);
    qn_token *ids = NULL;
    size_t n_ids = 0;
    REFUSED(unsupported, qn_engine_tokenize_pair(e, (qn_gguf_str){"a", 1}, (qn_gguf_str){"b", 1}, &ids, &n_ids, err),
            "rerank", "8");
    qn_engine_close(e);
}

int main(void)
{
    rig_story(0, tokens, RIG_MAX);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_a_texts_own),
        cmocka_unit_test(pools),
        cmocka_unit_test(nothing_allocates_once_warm),
        cmocka_unit_test(nothing_left_by_a_failure),
        cmocka_unit_test(decode_refused),
        cmocka_unit_test(texts_refused),
        cmocka_unit_test(names),
        cmocka_unit_test(keys_refused),
        cmocka_unit_test(pair_by_vocabulary),
        cmocka_unit_test(pair_by_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
