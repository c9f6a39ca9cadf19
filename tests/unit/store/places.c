/* SPDX-License-Identifier: MIT */
/* tests/unit/store/places.c -- a store over small trees: what is found, what is meant by a name, and every allocation
 * failing once. The e2e test has the whole of what other programs write. */
#include "store/store.h"
#include "unit/base/files.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define HASH   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OLDER  "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define LAYER_OF(hash, type, size) \
    "{\"mediaType\":\"application/vnd.ollama.image." type "\",\"digest\":\"sha256:" hash "\",\"size\":" size "}"
#define LAYER(type, size) LAYER_OF(HASH, type, size)

static void lay_out(void)
{
    scratch_make("t_store_places");
    write_text("home/.ollama/models/blobs/sha256-" HASH, "GGUF");
    write_text("home/.ollama/models/manifests/registry.ollama.ai/library/one/latest",
               "{\"layers\":[" LAYER("model", "4") "," LAYER("system", "4") "," LAYER("adapter", "4") "]}");
    write_text("home/.ollama/models/manifests/registry.ollama.ai/library/short/latest",
               "{\"layers\":[" LAYER("model", "5") "]}");
    /* blobs were named with a colon at first */
    write_text("home/.ollama/models/blobs/sha256:" OLDER, "GGUF");
    write_text("home/.ollama/models/manifests/registry.ollama.ai/library/old/latest",
               "{\"layers\":[" LAYER_OF(OLDER, "model", "4") "]}");
    write_text("home/.cache/huggingface/hub/models--o--r/refs/main", COMMIT "\n");
    write_text("home/.cache/huggingface/hub/models--o--r/blobs/x.incomplete", "GGUF");
    write_text("home/.cache/huggingface/hub/models--o--r/snapshots/" COMMIT "/a-Q4_0.gguf", "GGUF");
    write_text("home/.cache/huggingface/hub/models--o--r/snapshots/" COMMIT "/b-Q4_0.gguf", "GGUF");
    write_text("home/.cache/huggingface/hub/models--o--r/snapshots/" COMMIT "/BF16/c-00001-of-00002.gguf", "GGUF");
    write_text("home/.cache/huggingface/hub/models--o--r/snapshots/" COMMIT "/BF16/c-00002-of-00002.gguf", "GG");
    write_text("home/.cache/huggingface/hub/models--o--s/blobs/x.incomplete", "GGUF");
    write_text("home/.cache/huggingface/hub/models--o--s/snapshots/" COMMIT "/s-Q4_0.gguf", "GGUF");
    write_text("home/.cache/huggingface/hub/models--o--t/blobs/x.incomplete", "GGUF");
    write_text("home/.lmstudio/models/p/r/r-F16.gguf", "GGUF");
    char settings[1200];
    snprintf(settings, sizeof settings, "{\"other\": [1], \"downloadsFolder\": \"%s/chosen\"}", scratch);
    write_text("home/.lmstudio/settings.json", settings);
    write_text("chosen/q/s/s-F16.gguf", "GGUF");
    write_text("home/.cache/llama.cpp/manifest=o_o=n=latest.json", "{}");
    write_text("home/.cache/llama.cpp/o_o_n_file-Q8_0.gguf", "GGUF");
    write_text("folder/x.gguf", "GGUF");
    write_text("folder/y.gguf.part", "GG");
    symlink(".", in_scratch("folder/again"));
}

static qn_status open_all(qn_store **store, qn_error *err)
{
    static char home[1024], folder[1024];
    static const char *folders[] = {NULL, folder}; /* a place that is NULL is passed over */
    snprintf(home, sizeof home, "%s/home", scratch);
    snprintf(folder, sizeof folder, "%s/folder", scratch);
    return qn_store_open(&(qn_store_places){.home = home, .folders = folders, .n_folders = 2}, store, err);
}

static void found(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        qn_store_kind store;
        const char *problem;
    } want[] = {
        {"x", QN_STORE_folder, NULL},
        {"y", QN_STORE_folder, "half-downloaded"},
        {"old:latest", QN_STORE_ollama, NULL},
        {"one:latest", QN_STORE_ollama, NULL},
        {"short:latest", QN_STORE_ollama, "half-downloaded: 4 bytes of 5"},
        {"o/r", QN_STORE_huggingface, "half-downloaded: 4 bytes so far"},
        {"o/r:a-Q4_0", QN_STORE_huggingface, NULL}, /* two files of one quantization */
        {"o/r:b-Q4_0", QN_STORE_huggingface, NULL},
        {"o/r:c", QN_STORE_huggingface, NULL},
        {"o/s", QN_STORE_huggingface, "half-downloaded: 4 bytes so far"},
        {"o/s:Q4_0", QN_STORE_huggingface, NULL},
        {"o/t", QN_STORE_huggingface, "half-downloaded: 4 bytes so far"},
        {"p/r:F16", QN_STORE_lmstudio, NULL},
        {"q/s:F16", QN_STORE_lmstudio, NULL}, /* where LM Studio's settings say */
        {"o_o/n:Q8_0", QN_STORE_llamacpp, NULL},
    };
    qn_store *store;
    qn_error err;
    lay_out();
    assert_int_equal(open_all(&store, &err), QN_OK);
    for (size_t i = 0; i < qn_store_n_models(store); i++) {
        const qn_store_model *m = qn_store_get(store, i);
        if (i >= ARRAY_LEN(want) || strcmp(m->name, want[i].name) != 0 || m->store != want[i].store)
            fail_msg("model %zu is %s (%s): %s", i, m->name, qn_store_kind_name(m->store), m->problem);
        if (!m->problem != !want[i].problem || (m->problem && strcmp(m->problem, want[i].problem) != 0))
            fail_msg("%s: %s", m->name, m->problem ? m->problem : "no problem");
        assert_int_equal(access(m->path, R_OK), 0);
        if (!m->problem) assert_int_equal(m->bytes, m->n_parts == 2 ? 6 : 4);
    }
    assert_int_equal(qn_store_n_models(store), ARRAY_LEN(want));
    assert_null(qn_store_get(store, ARRAY_LEN(want)));
    assert_int_equal(qn_store_get(store, 3)->n_adapters, 1);
    assert_int_equal(qn_store_get(store, 8)->n_parts, 2);
    char *system;
    assert_int_equal(qn_store_read_system(qn_store_get(store, 3), &system, &err), QN_OK);
    assert_string_equal(system, "GGUF");
    qn_free(system);
    assert_int_equal(qn_store_read_system(qn_store_get(store, 0), &system, &err), QN_OK);
    assert_null(system);
    qn_store_close(store);
    remove_tree(scratch);
}

static void meant(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        qn_status status;
        const char *text; /* of the error, or the name of the model */
    } rows[] = {
        {"one", QN_OK, "one:latest"},
        {"o/r:c", QN_OK, "o/r:c"},
        {"o/r:Q4_0", QN_STATUS_invalid, "o/r:a-Q4_0, o/r:b-Q4_0"},
        {"o/r", QN_STATUS_invalid, "o/r:a-Q4_0, o/r:b-Q4_0, o/r:c"}, /* the whole name of half a download, too */
        {"o/s", QN_OK, "o/s:Q4_0"},                                  /* as here, where one is whole */
        {"o/t", QN_STATUS_io, "half-downloaded"},                    /* and none here */
        {"short", QN_STATUS_io, "4 bytes of 5"},
        {"nothing", QN_STATUS_state, "no model is called \"nothing\""},
        {"o_o/n", QN_OK, "o_o/n:Q8_0"},
    };
    qn_store *store;
    qn_error err;
    lay_out();
    assert_int_equal(open_all(&store, &err), QN_OK);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const qn_store_model *m = NULL;
        const qn_status status = qn_store_find(store, rows[i].name, &m, &err);
        if (status != rows[i].status) fail_msg("%s: %s", rows[i].name, status ? err.text : m->name);
        assert_non_null(strstr(status ? err.text : m->name, rows[i].text));
    }
    qn_store_close(store);
    remove_tree(scratch);
}

static void nothing(void **state)
{
    (void)state;
    qn_store *store;
    qn_error err;
    assert_int_equal(qn_store_open(&(qn_store_places){0}, &store, &err), QN_OK);
    assert_int_equal(qn_store_n_models(store), 0);
    qn_store_close(store);
    qn_store_close(NULL);
    assert_int_equal(qn_store_open(&(qn_store_places){.home = "/nonexistent"}, &store, &err), QN_OK);
    assert_int_equal(qn_store_n_models(store), 0);
    qn_store_close(store);
}

static void faults(void **state)
{
    (void)state;
    long n_nomem = 0;
    lay_out();
    for (long at = 0;; at++) {
        qn_store *store = NULL;
        qn_error err = {0};
        books_open(at);
        qn_status status = open_all(&store, &err);
        const qn_store_model *m;
        char *system = NULL;
        if (status == QN_OK) {
            status = qn_store_find(store, "o/r:Q4_0", &m, &err);
            if (status == QN_STATUS_invalid) status = qn_store_find(store, "one", &m, &err);
            if (status == QN_OK) status = qn_store_read_system(m, &system, &err);
            assert_int_equal(qn_store_n_models(store), 15);
        }
        const bool failed = books.n_failed > 0;
        qn_free(system);
        qn_store_close(store);
        books_close();
        if (!failed) {
            assert_int_equal(status, QN_OK);
            break;
        }
        if (status == QN_OK) continue; /* a growing string asked again for less and got it */
        if (status != QN_STATUS_nomem) fail_msg("allocation %ld: %s %s", at, qn_status_name(status), err.text);
        n_nomem++;
    }
    assert_true(n_nomem > 5);
    remove_tree(scratch);
}

/* Links to folders, in a ring and fanned out: the walk ends, and each file is seen once. */
static void rings(void **state)
{
    (void)state;
    char name[64], target[64];
    qn_store *store;
    qn_error err;
    scratch_make("t_store_places");
    write_text("folder/real/x.gguf", "GGUF");
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "folder/d%d/file", i);
        write_text(name, "");
        for (int k = 0; k < 30; k++) {
            snprintf(name, sizeof name, "folder/d%d/to%d", i, k);
            snprintf(target, sizeof target, "../d%d", k);
            assert_int_equal(symlink(target, in_scratch(name)), 0);
        }
    }
    assert_int_equal(open_all(&store, &err), QN_OK);
    assert_int_equal(qn_store_n_models(store), 1);
    qn_store_close(store);
    remove_tree(scratch);
}

/* A folder that is named several times, by several paths, is looked into once. */
static void named_twice(void **state)
{
    (void)state;
    static char plain[1024], around[1100], link[1100];
    const char *folders[] = {plain, around, link, plain};
    qn_store *store;
    qn_error err;
    scratch_make("t_store_places");
    write_text("folder/x.gguf", "GGUF");
    write_text("folder/y.gguf", "GGUF");
    assert_int_equal(symlink("folder", in_scratch("link")), 0);
    snprintf(plain, sizeof plain, "%s/folder", scratch);
    snprintf(around, sizeof around, "%s/folder/../folder/", scratch);
    snprintf(link, sizeof link, "%s/link", scratch);
    assert_int_equal(qn_store_open(&(qn_store_places){.folders = folders, .n_folders = 4}, &store, &err), QN_OK);
    assert_int_equal(qn_store_n_models(store), 2);
    qn_store_close(store);
    remove_tree(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(found),   cmocka_unit_test(meant),
                                       cmocka_unit_test(nothing), cmocka_unit_test(faults),
                                       cmocka_unit_test(rings),   cmocka_unit_test(named_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
