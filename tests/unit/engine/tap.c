/* SPDX-License-Identifier: MIT */
/* tests/unit/engine/tap.c -- values by name, against those that NumPy computes in float64 (tap_figures.inc, written by
 * tests/oracle/taps.py); what changing them does, against the same change there; what changes nothing, to the bit; and
 * what is refused. With --write DIR it only writes the models, for that program. */
#include "rig.h"
#include "unit/main.h"

#include <quern/npy.h>
#include <quern/tap.h>
#include <sys/stat.h>

enum { N = 6, FOLDS = 4, VOCAB = 320, WIDTH = 64 };

/* ---- the models ---- */

enum { M_dense, M_experts, M_stories, N_MODELS };
static const qn_synth_options synth[] = {
    [M_dense] = {.arch = "llama",
                 .n_layer = 2,
                 .n_embd = WIDTH,
                 .n_head = 4,
                 .n_kv_head = 2,
                 .n_ff = 96,
                 .n_vocab = VOCAB,
                 .n_ctx = 64,
                 .spread = 0.2f,
                 .type = "F32",
                 .seed = 11},
    [M_experts] = {.arch = "qwen3moe",
                   .n_layer = 2,
                   .n_embd = WIDTH,
                   .n_head = 4,
                   .n_kv_head = 2,
                   .n_ff = 96,
                   .n_vocab = VOCAB,
                   .n_ctx = 64,
                   .n_embd_head = 16,
                   .spread = 0.2f,
                   .type = "F32",
                   .seed = 12,
                   .set = (const char *const[]){"expert_count=8", "expert_used_count=3",
                                                "expert_feed_forward_length=32", NULL}},
};
static char paths[N_MODELS][768];
static qn_engine *engines[N_MODELS];
static qn_token tokens[N];

static const struct figure {
    int model;
    const char *name; /* of a value, or a tap */
    bool changed;
    float sums[N * FOLDS];
} figures[] = {
#define VALUES(model, name, ...)  {M_##model, name, false, __VA_ARGS__},
#define CHANGED(model, name, ...) {M_##model, name, true, __VA_ARGS__},
#include "tap_figures.inc"
#undef VALUES
#undef CHANGED
};
enum { N_FIGURES = sizeof figures / sizeof figures[0] };

static qn_session *begin(int model, int batch)
{
    return rig_session(engines[model],
                       (qn_session_options){
                           .n_ctx = 64, .n_batch = batch, .n_logits = N, .kv_type = QN_DTYPE_F32, .kv_type_set = true});
}

static qn_status decode(qn_session *s, const qn_token *ids, qn_error *err)
{
    qn_batch_item items[N];
    for (int i = 0; i < N; i++) items[i] = (qn_batch_item){ids[i], i, 0, true};
    return qn_session_decode(s, items, N, err);
}

/* Chunk by chunk only the last one's logits stay: all of a batch that holds them. */
static void logits_of(qn_session *s, float out[N * VOCAB * 2])
{
    qn_engine_info info;
    qn_engine_get_info(qn_session_engine(s), &info);
    MUST(decode(s, tokens, err));
    memcpy(out, qn_session_logits(s, 0), (size_t)(N * info.n_vocab) * sizeof *out);
}

/* ---- against NumPy ---- */

static void fold(const float *x, int64_t width, float *sums)
{
    double all[FOLDS] = {0};
    for (int64_t i = 0; i < width; i++) all[i % FOLDS] += (i / FOLDS % 2 ? -1.0 : 1.0) * (double)x[i];
    for (int f = 0; f < FOLDS; f++) sums[f] = (float)all[f];
}

static double nmse(const float *have, const float *want, int n)
{
    double num = 0, den = 0;
    for (int i = 0; i < n; i++) {
        num += ((double)have[i] - (double)want[i]) * ((double)have[i] - (double)want[i]);
        den += (double)want[i] * (double)want[i];
    }
    return den > 0 ? num / den : num;
}

typedef struct seen {
    int model, rows[N_FIGURES];
    float sums[N_FIGURES][N * FOLDS];
} seen;

static qn_status note(void *ctx, qn_tap_value *v, qn_error *err)
{
    (void)err;
    seen *s = ctx;
    for (int f = 0; f < N_FIGURES; f++) {
        if (figures[f].model != s->model || figures[f].changed || strcmp(figures[f].name, v->name) != 0) continue;
        assert_non_null(v->rows);
        for (int r = 0; r < v->n_rows; r++) {
            assert_int_equal(v->rows[r].pos, s->rows[f]);
            assert_int_equal(v->rows[r].token, tokens[s->rows[f]]);
            assert_true(s->rows[f] < N);
            fold(v->data + r * v->row_size, v->row_size, s->sums[f] + FOLDS * s->rows[f]);
            s->rows[f]++;
        }
    }
    return QN_OK;
}

static void values_are_numpys(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) {
        for (int batch = 1; engines[m] && batch <= 8; batch += 7) {
            static seen have;
            int n = 0;
            have = (seen){.model = m};
            qn_session *s = begin(m, batch);
            MUST(qn_session_tap_fn(s, "*", false, note, &have, err));
            MUST(decode(s, tokens, err));
            double worst = 0;
            for (int f = 0; f < N_FIGURES; f++) {
                if (figures[f].model != m || figures[f].changed) continue;
                assert_int_equal(have.rows[f], N);
                const double off = nmse(have.sums[f], figures[f].sums, N * FOLDS);
                if (!(off < 1e-11)) fail_msg("model %d, %s: NMSE %g", m, figures[f].name, off);
                worst = off > worst ? off : worst;
                n++;
            }
            printf("model %d, batch %d: %d values, worst NMSE %.3g\n", m, batch, n, worst);
            assert_true(n > 20);
            qn_session_destroy(s);
        }
    }
}

static void write_npy(const char *name, int n, int width, const float *x)
{
    qn_npy_writer *w = NULL;
    const qn_shape shape = n ? qn_shape_of(n, width) : qn_shape_of(width);
    MUST(qn_npy_writer_open(tiny_path(name), QN_DTYPE_F32, &shape, &w, err));
    qn_npy_write(w, x, (uint64_t)(n ? n : 1) * (uint64_t)width);
    MUST(qn_npy_writer_commit(w, err));
}

static void write_files(void)
{
    float x[N * WIDTH];
    for (int i = 0; i < WIDTH; i++) x[i] = (float)((i * 37) % 19 - 9) / 8;
    write_npy("vector.npy", 0, WIDTH, x);
    for (int i = 0; i < N * WIDTH; i++) x[i] = (float)((i * 29) % 23 - 11) / 16;
    write_npy("rows.npy", N, WIDTH, x);
}

/* The tap with its file's name made a path. */
static const char *with_path(const char *tap)
{
    static char text[1024];
    const char *last = strrchr(tap, '=');
    const bool file = strstr(last, ".npy") || strstr(last, "other") || strstr(last, "own");
    snprintf(text, sizeof text, "%.*s%s", (int)(last + 1 - tap), tap, file ? tiny_path(last + 1) : last + 1);
    return text;
}

/* What another text says, and what this one does. */
static void save_runs(void)
{
    qn_token other[N];
    for (int i = 0; i < N; i++) other[i] = (tokens[i] * 7 + 3) % VOCAB;
    for (int own = 0; own <= 1; own++) {
        char text[1024];
        qn_session *s = begin(M_dense, 8);
        snprintf(text, sizeof text, "*=save=%s", tiny_path(own ? "own" : "other"));
        MUST(qn_session_tap(s, text, err));
        MUST(decode(s, own ? tokens : other, err));
        MUST(qn_session_taps_end(s, err));
        qn_session_destroy(s);
    }
}

static void changes_are_numpys(void **state)
{
    (void)state;
    static float logits[N * VOCAB * 2];
    float sums[N * FOLDS];
    int n = 0;
    for (int f = 0; f < N_FIGURES; f++) {
        if (!figures[f].changed) continue;
        qn_session *s = begin(M_dense, 8);
        MUST(qn_session_tap(s, with_path(figures[f].name), err));
        logits_of(s, logits);
        for (int i = 0; i < N; i++) fold(logits + i * VOCAB, VOCAB, sums + i * FOLDS);
        const double off = nmse(sums, figures[f].sums, N * FOLDS);
        printf("%s: NMSE %.3g\n", figures[f].name, off);
        if (!(off < 1e-11)) fail_msg("%s: NMSE %g", figures[f].name, off);
        qn_session_destroy(s);
        n++;
    }
    assert_int_equal(n, 6);
}

/* direction.N is for layer N; a layer without one stays as it is. */
static void control_vectors(void **state)
{
    (void)state;
    static float want[N * VOCAB * 2], have[N * VOCAB * 2];
    float x[WIDTH];
    char text[1024];
    qn_gguf_writer *w = NULL;
    for (int i = 0; i < WIDTH; i++) x[i] = (float)((i * 37) % 19 - 9) / 8;
    MUST(qn_gguf_writer_create(tiny_path("control.gguf"), &w, err));
    qn_gguf_write_str(w, "general.architecture", "controlvector");
    qn_gguf_declare(w, "direction.1", QN_DTYPE_F32, &qn_shape_of(WIDTH));
    qn_gguf_write_data(w, x, sizeof x);
    MUST(qn_gguf_writer_commit(w, err));
    qn_session *s = begin(M_dense, 8);
    MUST(qn_session_tap(s, with_path("l_out-1=add=vector.npy:2"), err));
    logits_of(s, want);
    qn_session_destroy(s);
    s = begin(M_dense, 8);
    snprintf(text, sizeof text, "l_out-*=add=%s:2", tiny_path("control.gguf"));
    MUST(qn_session_tap(s, text, err));
    logits_of(s, have);
    assert_memory_equal(have, want, N * VOCAB * sizeof *want);
    snprintf(text, sizeof text, "ffn_act-1=add=%s", tiny_path("control.gguf"));
    REFUSED(invalid, qn_session_tap(s, text, err), "[64]", "[96]", "ffn_act-1");
    snprintf(text, sizeof text, "l_out-1=add=%s", paths[M_dense]);
    REFUSED(format, qn_session_tap(s, text, err), "direction.N");
    qn_session_destroy(s);
}

static void these_change_no_bit(void **state)
{
    (void)state;
    static const char *const taps[] = {"*=scale=1",        "resid_post-*=add=vector.npy:0",
                                       "*=stats",          "*=hash",
                                       "*=check",          "ffn_*=patch=own",
                                       "*@2,4-=patch=own", "*=imatrix=im-own.gguf"};
    static float want[N * VOCAB * 2], have[N * VOCAB * 2];
    qn_session *s = begin(M_dense, 8);
    logits_of(s, want);
    qn_session_destroy(s);
    for (size_t i = 0; i < sizeof taps / sizeof taps[0]; i++) {
        s = begin(M_dense, 8);
        MUST(qn_session_tap(s, with_path(taps[i]), err));
        logits_of(s, have);
        if (memcmp(want, have, N * VOCAB * sizeof *want) != 0) fail_msg("%s changes bits", taps[i]);
        MUST(qn_session_taps_end(s, err));
        qn_session_destroy(s);
    }
}

/* ---- saved files ---- */

static char *slurp(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is not there", path);
    static char bytes[1 << 16];
    *n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return bytes;
}

typedef struct kept {
    float x[N * 512];
    int64_t n;
} kept;

static qn_status keep(void *ctx, qn_tap_value *v, qn_error *err)
{
    (void)err;
    kept *k = ctx;
    memcpy(k->x + k->n, v->data, (size_t)(v->n_rows * v->row_size) * sizeof(float));
    k->n += v->n_rows * v->row_size;
    return QN_OK;
}

/* Rows of steps of one token, one behind the other, and whose they are; whole after every step. */
static void saves_rows(void **state)
{
    (void)state;
    static kept q, logits;
    char text[1024], *bytes;
    size_t n;
    qn_session *s = begin(M_dense, 1);
    q.n = logits.n = 0;
    MUST(qn_session_tap_fn(s, "q-1", false, keep, &q, err));
    MUST(qn_session_tap_fn(s, "logits", false, keep, &logits, err));
    snprintf(text, sizeof text, "*@1-=save=%s", tiny_path("rows"));
    MUST(qn_session_tap(s, text, err));
    MUST(decode(s, tokens, err));
    bytes = slurp(tiny_path("rows/q-1.npy"), &n); /* before they are ended */
    assert_memory_equal(bytes, "\x93NUMPY\x01\x00", 8);
    assert_non_null(strstr(bytes + 10, "'shape': (5, 4, 16)"));
    assert_non_null(strstr(bytes + 10, "'descr': '<f4'"));
    const size_t head = 10 + (size_t)(unsigned char)bytes[8] + 256 * (size_t)(unsigned char)bytes[9];
    assert_int_equal(head % 64, 0);
    assert_int_equal(n, head + 5 * 64 * sizeof(float));
    assert_memory_equal(bytes + head, q.x + 64, 5 * 64 * sizeof(float));
    MUST(qn_session_taps_end(s, err));
    bytes = slurp(tiny_path("rows/rows.npy"), &n);
    const size_t rows_head = 10 + (size_t)(unsigned char)bytes[8] + 256 * (size_t)(unsigned char)bytes[9];
    assert_non_null(strstr(bytes + 10, "'descr': '<i4', 'fortran_order': False, 'shape': (5, 3)"));
    for (int i = 0; i < 5; i++) {
        const int32_t want[3] = {tokens[i + 1], i + 1, 0};
        assert_memory_equal(bytes + rows_head + (size_t)i * sizeof want, want, sizeof want);
    }
    bytes = slurp(tiny_path("rows/logits.npy"), &n);
    assert_memory_equal(bytes + n - 5 * VOCAB * sizeof(float), logits.x + VOCAB, 5 * VOCAB * sizeof(float));
    /* all taps are gone */
    q.n = 0;
    MUST(qn_session_seq_remove(s, 0, 0, -1, err));
    MUST(decode(s, tokens, err));
    assert_int_equal(q.n, 0);
    qn_session_destroy(s);
}

/* Without an allocation after the first steps. */
static _Atomic uint64_t n_allocs;
static void *counting(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    n_allocs++;
    void *p = NULL;
    return posix_memalign(&p, align, size) == 0 ? p : NULL;
}
static void release(void *ctx, void *p, size_t size)
{
    (void)ctx, (void)size;
    free(p);
}

static void saving_allocates_nothing(void **state)
{
    (void)state;
    char text[1024];
    qn_set_allocator(&(qn_allocator){counting, release, NULL});
    qn_engine *e = NULL;
    qn_session *s = NULL;
    MUST(qn_engine_open(paths[M_experts], &(qn_engine_options){.n_threads = 2}, &e, err));
    MUST(qn_session_create(e, &(qn_session_options){.n_ctx = 64, .n_batch = 4}, &s, err));
    snprintf(text, sizeof text, "*=save=%s", tiny_path("warm"));
    MUST(qn_session_tap(s, text, err));
    MUST(qn_session_tap(s, "*=stats", err));
    MUST(qn_session_tap(s, "*=check", err));
    MUST(qn_session_tap(s, "*@3-5=scale=1", err));
    for (int i = 0; i < 2; i++) rig_feed(s, 0, tokens + i, 1);
    const uint64_t warm = n_allocs;
    for (int i = 2; i < N; i++) rig_feed(s, 0, tokens + i, 1);
    assert_int_equal(n_allocs, warm);
    MUST(qn_session_taps_end(s, err));
    qn_session_destroy(s);
    qn_engine_close(e);
    qn_set_allocator(NULL);
}

/* ---- importance matrices ---- */

typedef struct squares {
    double sums[512];
    int64_t n;
} squares;

static qn_status add_squares(void *ctx, qn_tap_value *v, qn_error *err)
{
    (void)err;
    squares *s = ctx;
    for (int64_t i = 0; i < v->n_rows * v->row_size; i++)
        s->sums[i % v->row_size] += (double)v->data[i] * (double)v->data[i];
    s->n += v->n_rows;
    return QN_OK;
}

/* What a product of all tokens reads, and of experts together what all of them were given. */
static void writes_importance_matrices(void **state)
{
    (void)state;
    squares norm = {0}, hidden = {0};
    qn_gguf *file = NULL;
    char text[1024];
    qn_session *s = begin(M_experts, 4);
    snprintf(text, sizeof text, "*=imatrix=%s", tiny_path("imatrix.gguf"));
    MUST(qn_session_tap(s, text, err));
    MUST(qn_session_tap_fn(s, "ffn_norm-1", false, add_squares, &norm, err));
    MUST(qn_session_tap_fn(s, "ffn_moe_act-1", false, add_squares, &hidden, err));
    MUST(decode(s, tokens, err));
    MUST(qn_session_taps_end(s, err));
    qn_session_destroy(s);
    MUST(qn_gguf_open(tiny_path("imatrix.gguf"), NULL, &file, err));
    const qn_gguf_tensor *router = qn_gguf_tensor_find(file, "blk.1.ffn_gate_inp.weight.in_sum2"),
                         *counts = qn_gguf_tensor_find(file, "blk.1.ffn_gate_inp.weight.counts"),
                         *down = qn_gguf_tensor_find(file, "blk.1.ffn_down_exps.weight.in_sum2"),
                         *given = qn_gguf_tensor_find(file, "blk.1.ffn_down_exps.weight.counts");
    assert_true(router && counts && down && given);
    assert_true(qn_gguf_tensor_find(file, "output.weight.in_sum2") != NULL);
    assert_true(router->shape.rank == 2 && router->shape.dim[0] == 1 && router->shape.dim[1] == WIDTH);
    assert_true(down->shape.dim[0] == 8 && down->shape.dim[1] == 32 && given->shape.dim[0] == 8);
    assert_float_equal(*(const float *)counts->data, N, 0);
    for (int i = 0; i < WIDTH; i++) {
        const double have = (double)((const float *)router->data)[i];
        assert_true(fabs(have - norm.sums[i]) <= 1e-6 * norm.sums[i]);
    }
    double all = 0, want = 0, n_given = 0;
    for (int i = 0; i < 8 * 32; i++) all += (double)((const float *)down->data)[i];
    for (int i = 0; i < 3 * 32; i++) want += hidden.sums[i];
    for (int i = 0; i < 8; i++) n_given += (double)((const float *)given->data)[i];
    assert_true(fabs(all - want) <= 1e-6 * want);
    assert_true(n_given == 3 * N);
    qn_gguf_close(file);
}

/* ---- what is said ---- */

static void lists_its_actions(void **state)
{
    (void)state;
    qn_session *s = begin(M_dense, 8);
    char text[64];
    for (const qn_tap_action *a = qn_tap_actions(); a->name; a++) {
        assert_true(strlen(a->text) > 5);
        snprintf(text, sizeof text, "logits=%s", a->name);
        if (*a->argument && *a->argument != '[')
            REFUSED(invalid, qn_session_tap(s, text, err), "argument is missing");
        else
            MUST(qn_session_tap(s, text, err));
    }
    qn_session_destroy(s);
}

static void reports(void **state)
{
    (void)state;
    char *text = NULL, file[1024];
    qn_session *s = begin(M_dense, 8);
    MUST(qn_session_tap_report(s, &text, err));
    assert_string_equal(text, "");
    qn_free(text);
    MUST(qn_session_tap(s, "ffn_out-1=zero", err));
    MUST(qn_session_tap(s, "mlp_out-?=stats", err));
    MUST(qn_session_tap(s, "ffn_out-1@2=hash", err));
    snprintf(file, sizeof file, "ffn_out-1@2=hash=%s", tiny_path("hash.csv"));
    MUST(qn_session_tap(s, file, err));
    MUST(decode(s, tokens, err));
    MUST(qn_session_tap_report(s, &text, err));
    assert_non_null(strstr(text, "name  rows  min  max  mean  rms  nan  inf  zero  channels\nffn_out-0  6  "));
    assert_non_null(strstr(text, "\nffn_out-1  6  0  0  0  0  0  0  384  "));
    assert_non_null(strstr(text, "\nffn_out-1  1 rows  "));
    const char *hash = strstr(text, "1 rows  ") + 8;
    MUST(qn_session_taps_end(s, err));
    size_t n;
    char *csv = slurp(tiny_path("hash.csv"), &n), want[128];
    csv[n] = '\0';
    snprintf(want, sizeof want, "name,token,position,sequence,hash\nffn_out-1,%d,2,0,%.16s\n", tokens[2], hash);
    assert_string_equal(csv, want);
    qn_free(text);
    qn_session_destroy(s);
}

static qn_status spoil(void *ctx, qn_tap_value *v, qn_error *err)
{
    (void)ctx, (void)err;
    v->data[v->row_size + 5] = NAN; /* of the second token */
    v->changed = true;
    return QN_OK;
}

static qn_status refuse(void *ctx, qn_tap_value *v, qn_error *err)
{
    (void)ctx;
    if (err) *err = (qn_error){.status = QN_STATUS_limit};
    if (err) snprintf(err->text, sizeof err->text, "enough of %s", v->name);
    return QN_STATUS_limit;
}

/* The run ends there, what it added to the cache is taken back, and the session goes on. */
static void stops(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        qn_session *s = begin(M_dense, 8);
        MUST(qn_session_tap(s, "*=check", err));
        MUST(decode(s, tokens, err));
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        MUST(qn_session_tap_fn(s, "ffn_act-0", true, spoil, NULL, err));
        REFUSED(invalid, decode(s, tokens, err), "ffn_out-0 (layer 0): element 0 is NaN", "position 1 of sequence 0");
        assert_int_equal(qn_session_seq_len(s, 0), 0);
        MUST(qn_session_taps_end(s, err));
        MUST(qn_session_tap_fn(s, "attn-1", false, refuse, NULL, err));
        REFUSED(limit, decode(s, tokens, err), "enough of attn-1");
        MUST(qn_session_taps_end(s, err));
        MUST(decode(s, tokens, err));
        qn_session_destroy(s);
    }
}

typedef struct itself {
    qn_session *own, *other;
    int n;
    float logits[N * VOCAB];
} itself;

static qn_status compute(void *ctx, qn_tap_value *v, qn_error *err)
{
    itself *c = ctx;
    (void)v;
    c->n++;
    qn_status status = decode(c->other, tokens, err);
    if (status == QN_OK) memcpy(c->logits, qn_session_logits(c->other, 0), sizeof c->logits);
    if (status == QN_OK) status = qn_session_seq_remove(c->other, 0, 0, -1, err);
    return status == QN_OK ? decode(c->own, tokens, err) : status;
}

/* A function may compute with another engine, in the middle of a run that has all threads; its own says that it can't.
 */
static void functions_compute(void **state)
{
    (void)state;
    static float want[N * VOCAB * 2];
    for (int batch = 1; batch <= 8; batch += 7) {
        static itself c;
        c = (itself){.own = begin(M_dense, batch), .other = begin(M_experts, 8)};
        logits_of(c.other, want);
        MUST(qn_session_seq_remove(c.other, 0, 0, -1, err));
        MUST(qn_session_tap_fn(c.own, "ffn_out-1", false, compute, &c, err));
        REFUSED(state, decode(c.own, tokens, err), "called by a run of that");
        assert_int_equal(c.n, 1);
        assert_memory_equal(c.logits, want, sizeof c.logits);
        MUST(qn_session_taps_end(c.own, err));
        MUST(decode(c.own, tokens, err));
        qn_session_destroy(c.other);
        qn_session_destroy(c.own);
    }
}

static void refuses(void **state)
{
    (void)state;
    qn_session *s = begin(M_dense, 8), *m = begin(M_experts, 8);
    write_npy("narrow.npy", 2, WIDTH - 1, (float[2 * WIDTH]){0});
    REFUSED(invalid, qn_session_tap(s, "fnn_out-1=zero", err), "fnn_out-1", "close are ffn_out-1");
    REFUSED(invalid, qn_session_tap(s, "Qcurr-1=stats", err), "Qcur-1");
    REFUSED(invalid, qn_session_tap(s, "ffn_act.silu-1=zero", err), "pass fuse", "in ffn_act-1", "--no-pass fuse");
    REFUSED(invalid, qn_session_tap(s, "tokens=stats", err), "is an input");
    REFUSED(invalid, qn_session_tap(s, "blk.0.attn_q.weight=stats", err), "is a weight");
    REFUSED(invalid, qn_session_tap(s, "cache_k_new-0=zero", err), "lies in the cache");
    REFUSED(invalid, qn_session_tap(m, "expert_ids-0=zero", err), "ffn_moe_topk-0", "can only be looked at");
    REFUSED(invalid, qn_session_tap(s, with_path("ffn_out-1=add=narrow.npy"), err), "[2,63]", "[64]", "ffn_out-1");
    REFUSED(io, qn_session_tap(s, "ffn_act-1=patch=/no/such/folder", err), "/no/such/folder");
    REFUSED(io, qn_session_tap(s, "ffn_act-1=replace=/no/such/file.npy", err), "/no/such/file.npy");
    REFUSED(io, qn_session_tap(s, "ffn_act-1=save=/no/such/folder", err), "/no/such/folder");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1", err), "PATTERN[@TOKENS]=ACTION");
    REFUSED(invalid, qn_session_tap(s, "=zero", err), "PATTERN[@TOKENS]=ACTION");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1=zap", err), "unknown action", "replace");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1=zero=1", err), "no argument");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1=scale", err), "argument is missing");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1=scale=fast", err), "\"fast\"");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1=scale=1e40", err), "1e40");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1@5-2=zero", err), "positions");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1@=zero", err), "positions");
    REFUSED(invalid, qn_session_tap(s, "ffn_act-1@-3=zero", err), "positions");
    /* and nothing was set */
    static float want[N * VOCAB * 2], have[N * VOCAB * 2];
    logits_of(s, have);
    qn_session *plain = begin(M_dense, 8);
    logits_of(plain, want);
    assert_memory_equal(want, have, N * VOCAB * sizeof *want);
    qn_session_destroy(plain);
    qn_session_destroy(s);
    qn_session_destroy(m);
}

/* ---- set up ---- */

static int write_models(const char *folder)
{
    for (int m = 0; m < M_stories; m++) {
        snprintf(paths[m], sizeof paths[m], "%s/%s.gguf", folder, m == M_dense ? "dense" : "experts");
        if (qn_synth(paths[m], &synth[m], NULL, NULL, NULL) != QN_OK) return 1;
    }
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    struct stat st;
    if (write_models(tiny_path(".")) != 0) return 1;
    snprintf(paths[M_stories], sizeof paths[0], "%s/models/stories260K.gguf", QN_SHARED_DIR);
    for (int m = 0; m < N_MODELS; m++) {
        if (m == M_stories && stat(paths[m], &st) != 0) {
            printf("stories260K.gguf is not there: its values are not compared\n");
            continue;
        }
        MUST(qn_engine_open(paths[m], &(qn_engine_options){.n_threads = 2}, &engines[m], err));
    }
    write_files();
    save_runs();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int m = 0; m < N_MODELS; m++) qn_engine_close(engines[m]);
    return 0;
}

int main(void)
{
    for (int i = 0; i < N; i++) tokens[i] = (i * i * 31 + i * 97 + 1) % 320;
    if (test_argc == 3 && strcmp(test_argv[1], "--write") == 0) return write_models(test_argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_numpys),
        cmocka_unit_test(changes_are_numpys),
        cmocka_unit_test(control_vectors),
        cmocka_unit_test(these_change_no_bit),
        cmocka_unit_test(saves_rows),
        cmocka_unit_test(saving_allocates_nothing),
        cmocka_unit_test(writes_importance_matrices),
        cmocka_unit_test(lists_its_actions),
        cmocka_unit_test(reports),
        cmocka_unit_test(stops),
        cmocka_unit_test(functions_compute),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
