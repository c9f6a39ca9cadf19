/* SPDX-License-Identifier: MIT */
/* Adapters: what a session adds is what merging adds, a zero b changes no bit, results don't depend on threads, batches
 * or neighbours, a changed adapter is another graph, and what does not fit is refused by name. */
#include "adapter.h"

enum { N = 20 };

static const char *model_file(const char *name, const tiny *t)
{
    static char kept[2][768]; /* one model at a time, and the one of `refused` */
    char *path = kept[strcmp(name, "base.gguf") != 0];
    snprintf(path, sizeof(kept[0]), "%s", tiny_path(name));
    MUST(tiny_write(path, t, err));
    return path;
}

static qn_engine *open_engine(const char *path, int n_threads)
{
    qn_engine *e = NULL;
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = n_threads}, &e, err));
    return e;
}

static qn_lora *open_lora(qn_engine *e, const char *path)
{
    qn_lora *l = NULL;
    MUST(qn_lora_open(e, path, &l, err));
    return l;
}

static rig_row logits_with(qn_engine *e, const qn_lora_use *use, int n_use)
{
    qn_token tokens[N];
    rig_story(0, tokens, N);
    return rig_fresh(e, (qn_session_options){.loras = use, .n_loras = n_use}, tokens, N);
}

/* Without the roundings of an F16 cache, which turn the last bit of a key into the tenth. */
static rig_row exact_with(qn_engine *e, const qn_lora_use *use, int n_use)
{
    qn_token tokens[N];
    rig_story(0, tokens, N);
    return rig_fresh(e,
                     (qn_session_options){.loras = use, .n_loras = n_use, .kv_type = QN_DTYPE_F32, .kv_type_set = true},
                     tokens, N);
}

/* ---- merging is the oracle: another road to the same function ---- */

static void close_to(rig_row a, rig_row b, double most, const char *what)
{
    const double d = rig_distance(&a, &b);
    if (!(d <= most)) fail_msg("%s: logits are %g apart, %g at most expected", what, d, most);
}

static void merged_and_added_agree(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_N_ARCHS; i++) {
        if (tiny_sees_ahead(tiny_archs[i])) continue;
        const char *base = model_file("base.gguf", &(tiny){.arch = tiny_archs[i]}), *out = tiny_path("merged.gguf");
        const qn_lora_file files[2] = {
            {adapter_write(&(adapter){.path = base, .alpha = 6, .seed = 1}), 0.75f},
            {adapter_write(&(adapter){.path = base, .rank = 3, .seed = 2, .only = "ffn_", .type = QN_DTYPE_F16}),
             -0.5f}};
        qn_engine *e = open_engine(base, 2);
        const qn_lora_use use[2] = {{open_lora(e, files[0].path), files[0].scale},
                                    {open_lora(e, files[1].path), files[1].scale}};
        const rig_row plain = exact_with(e, NULL, 0), one = exact_with(e, use, 1), both = exact_with(e, use, 2);
        DIFFERENT(plain, one);
        DIFFERENT(one, both);
        for (int n = 1; n <= 2; n++) {
            MUST(qn_lora_export(base, files, n, out, NULL, err));
            qn_engine *merged = open_engine(out, 1);
            close_to(n == 1 ? one : both, exact_with(merged, NULL, 0), 1e-5, tiny_archs[i]); /* measured: 1.7e-6 */
            qn_engine_close(merged);
        }
        qn_engine_close(e);
    }
}

/* Over a quantized base the merged model rounds anew: close, not equal. */
static void quantized_bases(void **state)
{
    (void)state;
    const char *base = model_file("base.gguf", &(tiny){.type = QN_DTYPE_Q8_0, .n_ff = 64}),
               *out = tiny_path("merged.gguf");
    const qn_lora_file file = {adapter_write(&(adapter){.path = base, .alpha = 4}), 1};
    qn_engine *e = open_engine(base, 2), *merged = NULL;
    const qn_lora_use use = {open_lora(e, file.path), 1};
    const rig_row added = logits_with(e, &use, 1);
    DIFFERENT(added, logits_with(e, NULL, 0));
    MUST(qn_lora_export(base, &file, 1, out, NULL, err));
    merged = open_engine(out, 2);
    close_to(added, logits_with(merged, NULL, 0), 0.06, "Q8_0"); /* measured: 0.030 */
    assert_int_equal(qn_gguf_tensor_find(qn_engine_file(merged), "blk.0.ffn_up.weight")->dtype, QN_DTYPE_Q8_0);
    qn_engine_close(merged);
    MUST(qn_lora_export(base, &file, 1, out, &(qn_lora_export_options){.type = "F16"}, err));
    merged = open_engine(out, 2);
    close_to(added, logits_with(merged, NULL, 0), 0.04, "F16"); /* measured: 0.019, what 8-bit activations cost */
    assert_int_equal(qn_gguf_tensor_find(qn_engine_file(merged), "blk.0.ffn_up.weight")->dtype, QN_DTYPE_F16);
    assert_int_equal(qn_gguf_tensor_find(qn_engine_file(merged), "output_norm.weight")->dtype, QN_DTYPE_F32);
    qn_engine_close(merged);
    /* What overflows is said, by whichever thread it comes from. */
    const qn_lora_file far = {adapter_write(&(adapter){.path = base, .times = 1e30f, .only = "ffn_up"}), 1};
    for (int n = 1; n <= 3; n += 2)
        REFUSED(invalid, qn_lora_export(base, &far, 1, out, &(qn_lora_export_options){.n_threads = n}, err),
                "tensor blk.0.ffn_up.weight", "a finite number expected");
    qn_engine_close(e);
}

static void *read_whole(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    void *bytes = malloc(*n);
    assert_int_equal(fread(bytes, 1, *n, f), *n);
    fclose(f);
    return bytes;
}

typedef struct merging {
    int calls, stop_at;
    uint64_t done, total;
} merging;

static bool watch_merging(void *ctx, uint64_t done, uint64_t total)
{
    merging *m = ctx;
    assert_true(done > m->done && done <= total);
    assert_true(m->calls == 0 || total == m->total);
    m->done = done;
    m->total = total;
    return ++m->calls != m->stop_at;
}

/* Progress counts up to the bytes of the base's tensors; a false answer ends the export, and no file is left. */
static void merging_tells_how_far_it_is(void **state)
{
    (void)state;
    const char *base = model_file("base.gguf", &(tiny){0}), *out = tiny_path("watched.gguf");
    const qn_lora_file file = {adapter_write(&(adapter){.path = base}), 1};
    merging m = {0};
    qn_lora_export_options o = {.progress = watch_merging, .progress_ctx = &m};
    MUST(qn_lora_export(base, &file, 1, out, &o, err));
    assert_true(m.calls > 10 && m.done == m.total);
    uint64_t bytes = 0;
    qn_engine *e = open_engine(base, 1);
    for (size_t i = 0; i < qn_gguf_n_tensors(qn_engine_file(e)); i++)
        bytes += qn_gguf_tensor_get(qn_engine_file(e), i)->size_bytes;
    assert_int_equal(m.total, bytes);
    qn_engine_close(e);
    unlink(out);

    m = (merging){.stop_at = 4};
    REFUSED(cancelled, qn_lora_export(base, &file, 1, out, &o, err), "cancelled after");
    assert_int_equal(m.calls, 4);
    assert_int_equal(access(out, F_OK), -1);
}

static void merging_does_not_depend_on_threads(void **state)
{
    (void)state;
    const char *base = model_file("base.gguf", &(tiny){.type = QN_DTYPE_Q4_0, .n_ff = 96}),
               *outs[2] = {tiny_path("m1.gguf"), tiny_path("m3.gguf")};
    const qn_lora_file file = {adapter_write(&(adapter){.path = base}), 1};
    void *bytes[2];
    size_t n[2];
    for (int i = 0; i < 2; i++) {
        MUST(qn_lora_export(base, &file, 1, outs[i], &(qn_lora_export_options){.n_threads = 1 + 2 * i}, err));
        bytes[i] = read_whole(outs[i], &n[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    free(bytes[0]);
    free(bytes[1]);
}

/* ---- to the bit ---- */

static void zero_b_is_the_identity(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_F32, QN_DTYPE_Q8_0, QN_DTYPE_Q4_0};
    for (int i = 0; i < 3; i++) {
        const char *base = model_file("base.gguf", &(tiny){.type = types[i], .n_ff = 64});
        qn_engine *e = open_engine(base, 2);
        const qn_lora_use zero = {open_lora(e, adapter_write(&(adapter){.path = base, .alpha = 8, .zero_b = true})), 1};
        const qn_lora_use off = {open_lora(e, adapter_write(&(adapter){.path = base})), 0};
        SAME(logits_with(e, &zero, 1), logits_with(e, NULL, 0));
        SAME(logits_with(e, &off, 1), logits_with(e, NULL, 0));
        qn_engine_close(e);
    }
}

/* Alone a token at a time, in one batch, among others, on one thread and three, in two CPU backends. */
static void a_row_is_a_row(void **state)
{
    (void)state;
    const char *base = model_file("base.gguf", &(tiny){.n_layer = 3, .type = QN_DTYPE_Q8_0, .n_ff = 64});
    const char *path = adapter_write(&(adapter){.path = base, .alpha = 4, .rank = 5});
    static const qn_place_rule rules[] = {{"blk.1.*", 1}};
    const qn_engine_options options[] = {
        {.n_threads = 1},
        {.n_threads = 3},
        {.backends = "cpu,cpu:ref", .rules = rules, .n_rules = 1, .strict = true, .n_threads = 2}};
    qn_token tokens[N];
    rig_row want = {0};
    rig_story(0, tokens, N);
    for (int i = 0; i < 3; i++) {
        qn_engine *e = NULL;
        MUST(qn_engine_open(base, &options[i], &e, err));
        const qn_lora_use use = {open_lora(e, path), 1.5f};
        const rig_row alone = logits_with(e, &use, 1);
        if (i == 0) want = alone;
        SAME(alone, want);
        qn_session *s = rig_session(e, (qn_session_options){.n_seq = 2, .loras = &use, .n_loras = 1});
        rig_feed(s, 0, tokens, N);
        SAME(rig_logits(s, -1), want);
        qn_batch_item items[2 * N];
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        for (int k = 0; k < N; k++) {
            items[2 * k] = (qn_batch_item){tokens[k], k, 0, k == N - 1};
            items[2 * k + 1] = (qn_batch_item){rig_token(3, k), k, 1, false};
        }
        rig_decode(s, items, 2 * N);
        SAME(rig_logits(s, 0), want);
        qn_session_destroy(s);
        qn_engine_close(e);
    }
}

/* ---- sessions ---- */

static qn_session_stats stats_of(const qn_session *s)
{
    qn_session_stats stats;
    qn_session_get_stats(s, &stats);
    return stats;
}

static rig_row again(qn_session *s)
{
    qn_token tokens[N];
    rig_story(0, tokens, N);
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    rig_feed(s, 0, tokens, N);
    return rig_logits(s, -1);
}

static void a_changed_adapter_is_another_graph(void **state)
{
    (void)state;
    const char *base = model_file("base.gguf", &(tiny){0});
    qn_engine *e = open_engine(base, 2);
    const qn_lora_use a = {open_lora(e, adapter_write(&(adapter){.path = base, .seed = 1})), 1};
    const qn_lora_use b = {open_lora(e, adapter_write(&(adapter){.path = base, .seed = 2, .rank = 9})), 1},
                      half = {a.lora, 0.5f};
    qn_session *s = rig_session(e, (qn_session_options){0});
    const rig_row plain = again(s);
    static const struct {
        int which;
        bool miss;
    } steps[] = {{1, true}, {1, false}, {2, true}, {3, true}, {0, false}, {1, false}, {3, false}};
    const qn_lora_use *uses[] = {NULL, &a, &b, &half};
    const rig_row want[] = {plain, logits_with(e, &a, 1), logits_with(e, &b, 1), logits_with(e, &half, 1)};
    DIFFERENT(want[0], want[1]);
    DIFFERENT(want[1], want[2]);
    DIFFERENT(want[1], want[3]);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const int which = steps[i].which;
        const qn_session_stats before = stats_of(s);
        MUST(qn_session_set_loras(s, uses[which], which != 0, err));
        SAME(again(s), want[which]);
        const qn_session_stats after = stats_of(s);
        assert_int_equal(after.plan_cache_misses - before.plan_cache_misses, steps[i].miss);
        assert_int_equal(after.plan_cache_hits - before.plan_cache_hits, !steps[i].miss);
    }
    qn_lora_use many[QN_MAX_LORAS + 1];
    for (int i = 0; i <= QN_MAX_LORAS; i++) many[i] = a;
    REFUSED(invalid, qn_session_set_loras(s, many, QN_MAX_LORAS + 1, err), "17 adapters");
    REFUSED(invalid, qn_session_set_loras(s, many, 2, err), "adapters 0 and 1 are the same");
    REFUSED(invalid, qn_session_set_loras(s, many, -1, err));
    REFUSED(invalid, qn_session_set_loras(s, &(qn_lora_use){NULL, 1}, 1, err), "adapter 0");
    REFUSED(invalid, qn_session_set_loras(s, &(qn_lora_use){a.lora, NAN}, 1, err), "scale nan");
    qn_engine *other = open_engine(base, 1);
    REFUSED(invalid,
            qn_session_set_loras(s, &(qn_lora_use){open_lora(other, adapter_write(&(adapter){.path = base})), 1}, 1,
                                 err),
            "adapter 0");
    SAME(again(s), want[3]); /* as before all those refusals */
    qn_engine_close(other);
    qn_session_destroy(s);
    qn_lora_close(a.lora); /* b ends with the engine */
    qn_engine_close(e);
}

/* Sets taken in turn by calls: each call's logits are its set's, whoever else is in the session; and whatever the set,
 * a session's memory for activations is what was planned when it was created. */
static void sets_by_call(void **state)
{
    (void)state;
    enum { N_ADAPTERS = 19 }; /* more than one set can have */
    const char *base = model_file("base.gguf", &(tiny){0});
    qn_engine *e = open_engine(base, 2);
    qn_lora *lora[N_ADAPTERS];
    for (int i = 0; i < N_ADAPTERS; i++)
        lora[i] = open_lora(e, adapter_write(&(adapter){.path = base, .seed = (uint32_t)i, .rank = 1 + i * 7 % 23}));
    const qn_lora_use uses[4][3] = {{{0}},
                                    {{lora[0], 1}},
                                    {{lora[18], 0.5f}, {lora[3], -1}},
                                    {{lora[2], 1}, {lora[17], 1}, {lora[7], 2}}};
    qn_session *s = rig_session(e, (qn_session_options){.n_seq = 4, .n_batch = N, .n_ctx = 4 * N, .n_logits = N});
    const uint64_t planned = stats_of(s).reserved_bytes;
    qn_token tokens[N];
    rig_story(0, tokens, N);
    rig_row want[4];
    for (int k = 0; k < 4; k++) want[k] = logits_with(e, uses[k], k);
    DIFFERENT(want[1], want[2]);
    DIFFERENT(want[2], want[3]);
    for (int i = 0; i < N; i += 5)
        for (int k = 0; k < 4; k++) {
            qn_batch_item items[5];
            for (int j = 0; j < 5; j++) items[j] = (qn_batch_item){tokens[i + j], i + j, k, true};
            MUST(qn_session_decode_with(s, uses[k], k, items, 5, err));
            if (i + 5 == N) SAME(rig_logits(s, -1), want[k]);
        }
    qn_batch_item all[N];
    for (int k = 0; k < 4; k++) {
        MUST(qn_session_seq_keep(s, 0, err));
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        for (int i = 0; i < N; i++) all[i] = (qn_batch_item){tokens[i], i, 0, true};
        MUST(qn_session_decode_with(s, uses[k], k, all, N, err));
        SAME(rig_logits(s, -1), want[k]);
    }
    assert_int_equal(stats_of(s).reserved_bytes, planned);
    SAME(again(s), want[0]); /* the session's own set is as it was */
    REFUSED(invalid, qn_session_decode_with(s, uses[1], 2, all, 1, err), "adapter 1");
    REFUSED(invalid, qn_session_decode_with(s, uses[1], 1, all, 1, err), "position 0 of sequence 0");
    qn_session_destroy(s);
    qn_engine_close(e);
}

/* The estimate of a session with adapters is what it takes. */
static void estimated(void **state)
{
    (void)state;
    const char *base = model_file("base.gguf", &(tiny){0});
    qn_engine *e = open_engine(base, 1);
    const qn_session_options bare = {.n_ctx = 64, .n_batch = 16};
    qn_estimate est, plain;
    MUST(qn_engine_estimate(e, &bare, &plain, err));
    qn_session *early = rig_session(e, bare);
    assert_int_equal(stats_of(early).reserved_bytes, plain.activation_bytes);
    const qn_lora_use use = {open_lora(e, adapter_write(&(adapter){.path = base, .rank = 200})), 1};
    const qn_session_options o = {.n_ctx = 64, .n_batch = 16, .loras = &use, .n_loras = 1};
    MUST(qn_engine_estimate(e, &o, &est, err));
    assert_true(est.activation_bytes > plain.activation_bytes);
    qn_session *s = rig_session(e, o);
    assert_int_equal(stats_of(s).reserved_bytes, est.activation_bytes);
    qn_session_destroy(s);
    s = rig_session(e, bare); /* has room for the adapter, which it may be given */
    assert_int_equal(stats_of(s).reserved_bytes, est.activation_bytes);
    MUST(qn_session_set_loras(s, &use, 1, err));
    assert_int_equal(stats_of(s).reserved_bytes, est.activation_bytes);
    qn_session_destroy(s);
    MUST(qn_session_set_loras(early, &use, 1, err)); /* planned before the adapter was there */
    assert_int_equal(stats_of(early).reserved_bytes, est.activation_bytes);
    qn_session_destroy(early);
    qn_lora_info info;
    qn_lora_get_info(use.lora, &info);
    assert_int_equal(info.n_pairs, 15);
    assert_int_equal(info.max_rank, 200);
    qn_engine_close(e);
}

/* ---- what is refused ---- */

static bool wide_a(char *name, qn_shape *shape)
{
    if (strstr(name, "blk.1.attn_k.weight.lora_a")) shape->dim[1]++;
    return true;
}
static bool tall_b(char *name, qn_shape *shape)
{
    if (strstr(name, "blk.1.attn_k.weight.lora_b")) shape->dim[0]--;
    return true;
}
static bool other_rank(char *name, qn_shape *shape)
{
    if (strstr(name, "blk.1.attn_k.weight.lora_b")) shape->dim[1]++;
    return true;
}
static bool turned(char *name, qn_shape *shape)
{
    if (strstr(name, "ffn_down.weight.lora_a")) *shape = qn_shape_of(shape->dim[1], shape->dim[0]);
    return true;
}
static bool no_b(char *name, qn_shape *shape)
{
    (void)shape;
    return !strstr(name, "output.weight.lora_b");
}
static bool other_layer(char *name, qn_shape *shape)
{
    (void)shape;
    if (strstr(name, "blk.1.ffn_up")) name[4] = '7';
    return true;
}
static bool other_suffix(char *name, qn_shape *shape)
{
    (void)shape;
    if (strstr(name, "blk.1.ffn_up.weight.lora_a")) name[strlen(name) - 1] = 'c';
    return true;
}
static bool of_embedding(char *name, qn_shape *shape)
{
    (void)shape;
    if (strcmp(name, "output.weight.lora_a") == 0) strcpy(name, "token_embd.weight.lora_a");
    return true;
}
static bool of_norm(char *name, qn_shape *shape)
{
    (void)shape;
    if (strcmp(name, "output.weight.lora_a") == 0) strcpy(name, "output_norm.weight.lora_a");
    return true;
}
static bool none(char *name, qn_shape *shape)
{
    (void)name, (void)shape;
    return false;
}
static bool other_kind(qn_gguf_writer *w, const char *key)
{
    if (strcmp(key, "general.type")) return false;
    qn_gguf_write_str(w, key, "model");
    return true;
}
static bool other_adapter(qn_gguf_writer *w, const char *key)
{
    if (strcmp(key, "adapter.type")) return false;
    qn_gguf_write_str(w, key, "control_vector");
    return true;
}
static bool other_arch(qn_gguf_writer *w, const char *key)
{
    if (strcmp(key, "general.architecture")) return false;
    qn_gguf_write_str(w, key, "qwen3");
    return true;
}
static bool number_for_type(qn_gguf_writer *w, const char *key)
{
    if (strcmp(key, "adapter.type")) return false;
    qn_gguf_write_u32(w, key, 7);
    return true;
}
static bool no_type(qn_gguf_writer *w, const char *key)
{
    (void)w;
    return !strcmp(key, "general.type");
}

static void refused(void **state)
{
    (void)state;
    const char *base = model_file("base.gguf", &(tiny){0}), *first = tiny_path("merged.gguf");
    char out[768];
    snprintf(out, sizeof(out), "%s", first);
    static const struct {
        qn_status status;
        adapter o;
        const char *words[3];
    } rows[] = {
        {QN_STATUS_format, {.tensor = wide_a}, {"blk.1.attn_k.weight.lora_a", "[4,33]", "[r,32]"}},
        {QN_STATUS_format, {.tensor = tall_b}, {"blk.1.attn_k.weight.lora_b", "[15,4]", "[16,r]"}},
        {QN_STATUS_format, {.tensor = other_rank}, {"blk.1.attn_k.weight", "[4,32]", "[16,5]"}},
        {QN_STATUS_format, {.tensor = turned}, {"ffn_down.weight.lora_a", "[48,4]", "[r,48]"}},
        {QN_STATUS_format, {.tensor = no_b}, {"output.weight.lora_a", "lora_b is missing", ""}},
        {QN_STATUS_format, {.tensor = other_layer}, {"blk.7.ffn_up.weight", "another model", ""}},
        {QN_STATUS_format, {.tensor = other_suffix}, {"blk.1.ffn_up.weight.lora_c", "neither", ""}},
        {QN_STATUS_unsupported, {.tensor = of_embedding}, {"token_embd.weight", "linear layer", ""}},
        {QN_STATUS_unsupported, {.tensor = of_norm}, {"output_norm.weight", "linear layer", ""}},
        {QN_STATUS_format, {.tensor = none}, {"no tensors", "", ""}},
        {QN_STATUS_format, {.key = other_kind}, {"general.type", "\"model\"", "\"adapter\""}},
        {QN_STATUS_format, {.key = other_adapter}, {"adapter.type", "control_vector", "\"lora\""}},
        {QN_STATUS_format, {.key = other_arch}, {"general.architecture", "qwen3", "llama"}},
        {QN_STATUS_format, {.key = number_for_type}, {"adapter.type", "", ""}},
        {QN_STATUS_format, {.key = no_type}, {"general.type is missing", "", ""}},
        {QN_STATUS_format, {.alpha = -1}, {"adapter.lora.alpha", "-1", ""}},
        {QN_STATUS_format, {.alpha = NAN}, {"adapter.lora.alpha", "nan", ""}},
    };
    qn_engine *e = open_engine(base, 1);
    const int n_files = tiny_n_files();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        adapter o = rows[i].o;
        o.path = base;
        const qn_lora_file file = {adapter_write(&o), 1};
        qn_lora *l = NULL;
        for (int merge = 0; merge < 2; merge++) {
            qn_error error = {0};
            const qn_status status =
                merge ? qn_lora_export(base, &file, 1, out, NULL, &error) : qn_lora_open(e, file.path, &l, &error);
            check_refusal(status, rows[i].status, &error, __FILE__, (int)i,
                          (const char *const[]){file.path, rows[i].words[0], rows[i].words[1], rows[i].words[2], NULL});
        }
    }
    assert_int_equal(tiny_n_files() - n_files, sizeof(rows) / sizeof(rows[0])); /* the adapters, no merged model */
    qn_lora *l = NULL;
    REFUSED(format, qn_lora_open(e, base, &l, err), "general.type is missing");
    REFUSED(io, qn_lora_open(e, tiny_path("nowhere.gguf"), &l, err), "nowhere.gguf");
    qn_engine_close(e);

    const qn_lora_file good = {adapter_write(&(adapter){.path = base}), 1}, far = {good.path, INFINITY};
    REFUSED(invalid, qn_lora_export(base, &good, 0, out, NULL, err), "0 adapters");
    REFUSED(invalid, qn_lora_export(base, &good, 17, out, NULL, err), "17 adapters");
    REFUSED(invalid, qn_lora_export(base, &far, 1, out, NULL, err), "scale inf");
    REFUSED(invalid, qn_lora_export(base, &good, 1, out, &(qn_lora_export_options){.type = "Q9_Z"}, err), "Q9_Z");
    const char *packed =
        model_file("iq.gguf", &(tiny){.type = QN_DTYPE_IQ2_XXS, .n_embd = 256, .n_ff = 256, .n_head = 4, .head = 64});
    const qn_lora_file over = {adapter_write(&(adapter){.path = packed}), 1};
    REFUSED(unsupported, qn_lora_export(packed, &over, 1, out, NULL, err), "IQ2_XXS", "--type");
    MUST(qn_lora_export(packed, &over, 1, out, &(qn_lora_export_options){.type = "Q4_K_M"}, err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_and_added_agree),
        cmocka_unit_test(quantized_bases),
        cmocka_unit_test(merging_tells_how_far_it_is),
        cmocka_unit_test(merging_does_not_depend_on_threads),
        cmocka_unit_test(zero_b_is_the_identity),
        cmocka_unit_test(a_row_is_a_row),
        cmocka_unit_test(a_changed_adapter_is_another_graph),
        cmocka_unit_test(sets_by_call),
        cmocka_unit_test(estimated),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
