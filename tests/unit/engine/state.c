/* SPDX-License-Identifier: MIT */
/* Saving and restoring: the continuation is bit for bit the same in a session of another size, on other backends and in
 * another process; whatever is wrong with a state file is said, and leaves the session as it was. */
#include "rig.h"
#include "base/file.h"
#include "base/str.h"
#include "unit/main.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

static qn_engine *engine;
static char model_path[768], self[768];

static int open_one(void **state)
{
    (void)state;
    engine = rig_open(&(tiny){.arch = "qwen3"}, NULL);
    snprintf(model_path, sizeof(model_path), "%s", qn_gguf_path(qn_engine_file(engine)));
    return 0;
}
static int close_one(void **state)
{
    (void)state;
    qn_engine_close(engine);
    return 0;
}

/* Three sequences: 0 has a hole, 1 shares its first 20 positions, 2 is its own; cells lie round the end of the cache.
 */
static qn_session *busy_session(qn_engine *e, qn_session_options o)
{
    qn_token tokens[60];
    o.n_seq = o.n_seq ? o.n_seq : 3;
    o.n_ctx = o.n_ctx ? o.n_ctx : 90;
    qn_session *s = rig_session(e, o);
    rig_story(5, tokens, 60);
    rig_feed(s, 2, tokens, 50);
    MUST(qn_session_seq_remove(s, 2, 0, -1, err));
    rig_story(0, tokens, 60);
    rig_feed(s, 0, tokens, 33);
    MUST(qn_session_seq_copy(s, 0, 1, 0, 20, err));
    rig_feed(s, 1, tokens + 40, 5);
    rig_story(1, tokens, 60);
    rig_feed(s, 2, tokens, 15);
    MUST(qn_session_seq_remove(s, 0, 10, 13, err));
    return s;
}

/* What each sequence says next. */
static void next_logits(qn_session *s, rig_row out[3])
{
    qn_batch_item items[3];
    for (int q = 0; q < 3; q++) items[q] = (qn_batch_item){7 + q, qn_session_seq_pos_max(s, q) + 1, q, true};
    rig_decode(s, items, 3);
    for (int q = 0; q < 3; q++) out[q] = rig_logits(s, q);
    for (int q = 0; q < 3; q++) MUST(qn_session_seq_remove(s, q, items[q].pos, -1, err));
}

static void same_continuation(qn_session *s, const rig_row want[3])
{
    rig_row got[3];
    static const int len[3] = {30, 25, 15}, last[3] = {32, 24, 14};
    for (int q = 0; q < 3; q++) {
        assert_int_equal(qn_session_seq_len(s, q), len[q]);
        assert_int_equal(qn_session_seq_pos_max(s, q), last[q]);
    }
    /* 33 + 5 + 15: shared cells once, and the hole's are sequence 1's */
    assert_int_equal(qn_session_n_ctx(s) - qn_session_free_cells(s), 53);
    next_logits(s, got);
    for (int q = 0; q < 3; q++) SAME(got[q], want[q]);
}

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static char *read_file(const char *path, size_t *n)
{
    char *data = NULL;
    MUST(qn__read_all(path, 1 << 30, &data, n, err));
    return data;
}

/* ---- what goes well ---- */

static void round_trip(void **state)
{
    (void)state;
    static const qn_dtype types[] = {QN_DTYPE_F32, QN_DTYPE_F16, QN_DTYPE_BF16};
    for (int k = 0; k < 3; k++) {
        qn_session_options o = {.kv_type = types[k], .kv_type_set = true};
        rig_row want[3];
        size_t n = 0, n2 = 0;
        qn_session *s = busy_session(engine, o);
        next_logits(s, want);
        DIFFERENT(want[0], want[1]);
        MUST(qn_session_save(s, tiny_path("s.state"), err));
        same_continuation(s, want); /* saving changes nothing */
        qn_session_destroy(s);
        static const struct {
            int n_ctx, n_seq, n_batch;
        } others[] = {{90, 3, 32}, {53 + 3, 3, 1}, {1000, 9, 128}};
        for (int i = 0; i < 3; i++) {
            o.n_ctx = others[i].n_ctx;
            o.n_seq = others[i].n_seq;
            o.n_batch = others[i].n_batch;
            qn_session *r = rig_session(engine, o);
            rig_feed(r, 1, (qn_token[]){1, 2, 3}, 3); /* goes */
            MUST(qn_session_restore(r, tiny_path("s.state"), err));
            assert_int_equal(qn_session_n_logits(r), 0);
            same_continuation(r, want);
            if (i != 0) { /* the file says how many sequences there were; cells are numbered anew */
                qn_session_destroy(r);
                continue;
            }
            MUST(qn_session_restore(r, tiny_path("s.state"), err)); /* over itself */
            MUST(qn_session_save(r, tiny_path("s2.state"), err));
            char *a = read_file(tiny_path("s.state"), &n), *b = read_file(tiny_path("s2.state"), &n2);
            assert_int_equal(n, n2);
            assert_memory_equal(a, b, n);
            qn_free(a);
            qn_free(b);
            qn_session_destroy(r);
        }
    }
}

static void long_continuation(void **state)
{
    (void)state;
    qn_session *s = busy_session(engine, (qn_session_options){.n_ctx = 200}),
               *r = rig_session(engine, (qn_session_options){.n_seq = 3, .n_ctx = 300});
    MUST(qn_session_save(s, tiny_path("l.state"), err));
    MUST(qn_session_restore(r, tiny_path("l.state"), err));
    for (int i = 0; i < 12; i++) {
        for (int q = 0; q < 3; q++) {
            const qn_token t = rig_token(9, i * 3 + q);
            rig_feed(s, q, &t, 1);
            rig_feed(r, q, &t, 1);
            SAME(rig_logits(s, -1), rig_logits(r, -1));
        }
        if (i == 6) {
            MUST(qn_session_seq_shift(s, 1, 0, -1, 4, err));
            MUST(qn_session_seq_shift(r, 1, 0, -1, 4, err));
        }
    }
    qn_session_destroy(s);
    qn_session_destroy(r);
}

static void empty_session(void **state)
{
    (void)state;
    qn_session *s = rig_session(engine, (qn_session_options){0}),
               *r = rig_session(engine, (qn_session_options){.n_seq = 2});
    MUST(qn_session_save(s, tiny_path("e.state"), err));
    rig_feed(r, 0, (qn_token[]){1, 2, 3}, 3);
    rig_feed(r, 1, (qn_token[]){1, 2, 3}, 3);
    MUST(qn_session_restore(r, tiny_path("e.state"), err));
    assert_int_equal(qn_session_free_cells(r), RIG_MAX);
    qn_token tokens[10];
    rig_story(0, tokens, 10);
    rig_feed(r, 1, tokens, 10);
    SAME(rig_logits(r, -1), rig_fresh(engine, (qn_session_options){0}, tokens, 10));
    qn_session_destroy(s);
    qn_session_destroy(r);
}

/* The same file on two backends, half the layers on each: the cache lies in two buffers there. */
static void other_backends(void **state)
{
    (void)state;
    qn_engine *two = NULL;
    const qn_place_rule rules[] = {{"blk.1.*", 1}};
    MUST(qn_engine_open(
        model_path,
        &(qn_engine_options){.backends = "cpu,cpu", .n_threads = 1, .rules = rules, .n_rules = 1, .strict = true}, &two,
        err));
    rig_row want[3];
    qn_session *s = busy_session(engine, (qn_session_options){0});
    next_logits(s, want);
    MUST(qn_session_save(s, tiny_path("b.state"), err));
    qn_session *r = rig_session(two, (qn_session_options){.n_seq = 3, .n_ctx = 90});
    MUST(qn_session_restore(r, tiny_path("b.state"), err));
    same_continuation(r, want);
    MUST(qn_session_save(r, tiny_path("b2.state"), err));
    MUST(qn_session_restore(s, tiny_path("b2.state"), err));
    same_continuation(s, want);
    qn_session_destroy(s);
    qn_session_destroy(r);
    qn_engine_close(two);
}

/* The program calls itself: --child MODEL STATE OUT. */
static int child(char **argv)
{
    qn_engine *e = NULL;
    qn_session *s = NULL;
    rig_row row[3];
    qn_error err;
    const qn_session_options o = {.n_ctx = 200, .n_seq = 4};
    FILE *f = NULL;
    if (qn_engine_open(argv[2], NULL, &e, &err) != QN_OK || qn_session_create(e, &o, &s, &err) != QN_OK ||
        qn_session_restore(s, argv[3], &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    next_logits(s, row);
    qn_session_destroy(s);
    qn_engine_close(e);
    f = fopen(argv[4], "wb");
    return f && fwrite(row, sizeof(row), 1, f) == 1 && fclose(f) == 0 ? 0 : 1;
}

static void another_process(void **state)
{
    (void)state;
    extern char **environ;
    rig_row want[3];
    qn_session *s = busy_session(engine, (qn_session_options){0});
    next_logits(s, want);
    MUST(qn_session_save(s, tiny_path("p.state"), err));
    qn_session_destroy(s);
    char state_path[768], out[768];
    snprintf(state_path, sizeof(state_path), "%s", tiny_path("p.state"));
    snprintf(out, sizeof(out), "%s", tiny_path("p.out"));
    pid_t pid = 0;
    int status = -1;
    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, (char *[]){self, "--child", model_path, state_path, out, NULL},
                                 environ),
                     0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    size_t n = 0;
    char *got = read_file(out, &n);
    assert_int_equal(n, sizeof(want));
    for (int q = 0; q < 3; q++) {
        rig_row row;
        memcpy(&row, got + (size_t)q * sizeof(row), sizeof(row));
        SAME(row, want[q]);
    }
    qn_free(got);
}

/* ---- what goes wrong ---- */

static void wrong_session(void **state)
{
    (void)state;
    qn_session *s = busy_session(engine, (qn_session_options){0});
    MUST(qn_session_save(s, tiny_path("w.state"), err));
    qn_session_destroy(s);
    const char *path = tiny_path("w.state");

    static const tiny others[] = {{.arch = "qwen3", .seed = 1},
                                  {.arch = "qwen2"},
                                  {.arch = "qwen3", .n_layer = 3},
                                  {.arch = "qwen3", .n_ff = 64},
                                  {.arch = "qwen3", .type = QN_DTYPE_F16},
                                  {.arch = "qwen3", .tied = true}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        qn_engine *e = rig_open(&others[i], NULL);
        qn_session *r = rig_session(e, (qn_session_options){.n_seq = 3});
        REFUSED(format, qn_session_restore(r, path, err), "w.state", "another model");
        qn_session_destroy(r);
        qn_engine_close(e);
    }
    qn_session *r = rig_session(engine, (qn_session_options){.n_seq = 3, .kv_type = QN_DTYPE_F32, .kv_type_set = true});
    REFUSED(format, qn_session_restore(r, path, err), "w.state", "F16", "F32");
    qn_session_destroy(r);
    /* rows of the same size */
    r = rig_session(engine, (qn_session_options){.n_seq = 3, .kv_type = QN_DTYPE_BF16, .kv_type_set = true});
    REFUSED(format, qn_session_restore(r, path, err), "F16", "BF16");
    qn_session_destroy(r);
    r = rig_session(engine, (qn_session_options){.n_seq = 3, .n_ctx = 52});
    REFUSED(limit, qn_session_restore(r, path, err), "53 cells", "52");
    qn_session_destroy(r);
    r = rig_session(engine, (qn_session_options){.n_seq = 2});
    REFUSED(limit, qn_session_restore(r, path, err), "3 sequences", "2");
    REFUSED(io, qn_session_restore(r, tiny_path("none"), err), "none");
    REFUSED(invalid, qn_session_restore(r, "/", err), "directory");
    write_file(tiny_path("empty"), "", 0);
    REFUSED(format, qn_session_restore(r, tiny_path("empty"), err), "empty", "no session state");
    REFUSED(format, qn_session_restore(r, model_path, err), "no session state");
    qn_session_destroy(r);
}

/* A session in the middle of something, which every bad file must leave as it was. */
typedef struct victim {
    qn_session *s;
    rig_row want[3];
} victim;
static victim make_victim(void)
{
    victim v = {.s = busy_session(engine, (qn_session_options){0})};
    next_logits(v.s, v.want);
    return v;
}

static void refuses(victim *v, const char *data, size_t n, bool thoroughly)
{
    static const int len[3] = {30, 25, 15};
    const char *path = tiny_path("bad.state");
    write_file(path, data, n);
    REFUSED(format, qn_session_restore(v->s, path, err), "bad.state");
    for (int q = 0; q < 3; q++) assert_int_equal(qn_session_seq_len(v->s, q), len[q]);
    if (thoroughly) same_continuation(v->s, v->want);
}

/* The state of another moment, so that anything of it that got into the victim shows. */
static char *other_state(size_t *n)
{
    qn_token tokens[30];
    qn_session *s = rig_session(engine, (qn_session_options){.n_seq = 3});
    rig_story(4, tokens, 30);
    rig_feed(s, 0, tokens, 10);
    rig_feed(s, 1, tokens + 10, 12);
    MUST(qn_session_seq_copy(s, 1, 2, 0, 5, err));
    MUST(qn_session_save(s, tiny_path("o.state"), err));
    qn_session_destroy(s);
    return read_file(tiny_path("o.state"), n);
}

enum { HEADER = 64, AT_CHECK = 32, USED = 22, SEQS = 3, ENTRIES = 27, TABLES = (2 * USED + SEQS + ENTRIES) * 4 };

static void truncated(void **state)
{
    (void)state;
    size_t n = 0;
    char *data = other_state(&n);
    victim v = make_victim();
    assert_int_equal(n, HEADER + TABLES + USED * 2 * 2 * 2 * 16); /* rows: 2 layers, keys and values, 16 F16 */
    for (size_t at = 0; at < n; at += 64) refuses(&v, data, at, at % 1024 == 0);
    for (size_t at = 0; at < HEADER + TABLES; at += 3) refuses(&v, data, at, false);
    refuses(&v, data, n - 1, true);
    char *more = calloc(1, n + 64);
    memcpy(more, data, n);
    refuses(&v, more, n + 1, false);
    refuses(&v, more, n + 64, true);
    MUST(qn_session_restore(v.s, tiny_path("o.state"), err)); /* the whole file is fine */
    assert_int_equal(qn_session_seq_len(v.s, 0), 10);
    free(more);
    qn_free(data);
    qn_session_destroy(v.s);
}

/* Every bit of header and tables. A row that is off by a bit is not noticed: see session_state.c. */
static void flipped(void **state)
{
    (void)state;
    size_t n = 0;
    char *data = other_state(&n);
    victim v = make_victim();
    const char *path = tiny_path("bad.state");
    write_file(path, data, n);
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (int bit = 0; bit < (HEADER + TABLES) * 8; bit++) {
        const char turned = data[bit / 8] ^ (char)(1 << bit % 8);
        assert_int_equal(pwrite(fd, &turned, 1, bit / 8), 1);
        qn_error err = {0};
        const qn_status status = qn_session_restore(v.s, path, &err);
        /* The version is unsupported, sizes may exceed the session's, everything else is damage. */
        const bool expected = status == QN_STATUS_format || (status == QN_STATUS_unsupported && bit / 32 == 1) ||
                              (status == QN_STATUS_limit && (bit / 32 == 6 || bit / 32 == 14));
        if (!expected || !err.text[0]) fail_msg("bit %d: %s: %s", bit, qn_status_name(status), err.text);
        if (bit % 256 == 0) same_continuation(v.s, v.want);
        assert_int_equal(pwrite(fd, &data[bit / 8], 1, bit / 8), 1);
    }
    close(fd);
    same_continuation(v.s, v.want);
    MUST(qn_session_restore(v.s, path, err)); /* all turned back, it is the good one */
    qn_free(data);
    qn_session_destroy(v.s);
}

/* Lies with a right hash: what an attacker, not a disk, would write. */
static void malicious_tables(void **state)
{
    (void)state;
    size_t n = 0;
    char *data = other_state(&n), *bad = malloc(n);
    victim v = make_victim();
    /* 10, ten cells, 12, twelve, 5, five */
    int32_t *cells = (int32_t *)(void *)(bad + HEADER), *lists = cells + 2 * USED;
#define LIE(change, ...) \
    do { \
        uint64_t zero = 0, check; \
        memcpy(bad, data, n); \
        change; \
        memcpy(bad + AT_CHECK, &zero, 8); \
        check = qn__hash(QN_HASH_INIT, bad, HEADER + TABLES); \
        memcpy(bad + AT_CHECK, &check, 8); \
        write_file(tiny_path("bad.state"), bad, n); \
        REFUSED(format, qn_session_restore(v.s, tiny_path("bad.state"), err), __VA_ARGS__); \
        same_continuation(v.s, v.want); \
    } while (0)
    LIE(lists[1] = USED, "sequence 0", "cell 22 of 22");
    LIE(lists[1] = -1, "sequence 0", "cell -1");
    LIE(lists[1] = INT32_MAX, "cell 2147483647");
    LIE(lists[2] = lists[1], "position 0");                          /* a cell twice */
    LIE((lists[3] = lists[4], lists[4] = lists[3] - 1), "position"); /* out of order */
    LIE(lists[0] = 11, "sequence");                                  /* the next length read as a cell, and so on */
    LIE(lists[0] = -1, "sequence 0 claims -1");
    LIE(lists[0] = INT32_MAX, "sequence 0 claims 2147483647");
    LIE(lists[0] = 9, "sequence");
    LIE(lists[24] = 6, "sequence 2 claims 6"); /* one past the end */
    LIE(cells[0] = -1, "position -1");
    LIE(cells[0] = INT32_MAX, "position 2147483647");
    LIE(cells[1] = RIG_VOCAB, "token 300");
    LIE(cells[1] = -1, "token -1");
    LIE(cells[2 * 9] = 3, "position 3");                     /* two cells of one position in one sequence */
    LIE(lists[10] = lists[12 + 9], "cell 9", "no sequence"); /* sequence 1's cell of that position */
    free(bad);
    qn_free(data);
    qn_session_destroy(v.s);
}

static void full_disk(void **state)
{
    (void)state;
    size_t n = 0, n2 = 0;
    victim v = make_victim();
    if (access("/dev/full", W_OK) == 0)
        REFUSED(io, qn_session_save(v.s, "/dev/full", err), "/dev/full", "No space left");
    REFUSED(io, qn_session_save(v.s, tiny_path("no/such/folder.state"), err), "folder.state");
    /* What was there stays whole when a new one cannot be written. */
    MUST(qn_session_save(v.s, tiny_path("d.state"), err));
    char *before = read_file(tiny_path("d.state"), &n);
    rig_feed(v.s, 0, (qn_token[]){1}, 1);
    if (geteuid() != 0) {
        chmod(tiny_path("d.state"), 0444);
        REFUSED(io, qn_session_save(v.s, tiny_path("d.state"), err), "d.state");
        chmod(tiny_path("d.state"), 0644);
    }
    char *after = read_file(tiny_path("d.state"), &n2);
    if (geteuid() != 0) assert_memory_equal(before, after, n);
    MUST(qn_session_seq_remove(v.s, 0, 33, -1, err));
    same_continuation(v.s, v.want);
    qn_free(before);
    qn_free(after);
    qn_session_destroy(v.s);
}

int main(void)
{
    if (test_argc == 5 && strcmp(test_argv[1], "--child") == 0) return child(test_argv);
    snprintf(self, sizeof(self), "%s", test_argv[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),     cmocka_unit_test(long_continuation), cmocka_unit_test(empty_session),
        cmocka_unit_test(other_backends), cmocka_unit_test(another_process),   cmocka_unit_test(wrong_session),
        cmocka_unit_test(truncated),      cmocka_unit_test(flipped),           cmocka_unit_test(malicious_tables),
        cmocka_unit_test(full_disk),
    };
    return cmocka_run_group_tests(tests, open_one, close_one);
}
