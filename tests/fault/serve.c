/* SPDX-License-Identifier: MIT */
/* Allocations fail while a request is read, answered and written, in each dialect (the seeds of fuzz_serve): the reply
 * is the one that it is otherwise, to the byte, or says that memory is short; a stream has the beginning of the good
 * one then, without a gap; nothing is lost silently, and every block comes back. So while the list of models is read
 * anew: it is the new one, or the old one whole. Clocks and random ids stand still. A part of all N is tried, another
 * one for each seed; QN_FAULT=all tries all. */
#include "failing.h"

#include "fuzz/serve_rig.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

/* ---- this program's malloc: the server's, jansson's, and the library's (failing.h) ---- */

void *__real_malloc(size_t n);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

static bool fails(void)
{
    const long i = hook.n++;
    return hook.fail_at >= 0 && (hook.all_after ? i >= hook.fail_at : i == hook.fail_at);
}

void *__wrap_malloc(size_t n)
{
    void *p = fails() ? NULL : __real_malloc(n);
    hook.live += p != NULL;
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = __wrap_malloc(n * size);
    if (p) memset(p, 0, n * size);
    return p;
}

void *__wrap_realloc(void *old, size_t n)
{
    if (!old) return __wrap_malloc(n);
    return fails() ? NULL : __real_realloc(old, n);
}

void __wrap_free(void *p)
{
    hook.live -= p != NULL;
    __real_free(p);
}

char *__wrap_strndup(const char *s, size_t n)
{
    const size_t len = strnlen(s, n);
    char *copy = __wrap_malloc(len + 1);
    if (!copy) return NULL;
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *__wrap_strdup(const char *s) { return __wrap_strndup(s, SIZE_MAX); }

/* The library's: hook_release would count twice. */
static void release(void *ctx, void *p, size_t size)
{
    (void)ctx, (void)size;
    __wrap_free(p);
}

json_t *__real_json_loadb(const char *data, size_t n, size_t flags, json_error_t *error);
json_t *__wrap_json_loadb(const char *data, size_t n, size_t flags, json_error_t *error);

/* Nothing fails in here but the call: the reader of jansson 2.14 loses count of its buffer when memory is short. */
json_t *__wrap_json_loadb(const char *data, size_t n, size_t flags, json_error_t *error)
{
    const long at = hook.fail_at, before = hook.n;
    json_malloc_t alloc;
    json_get_alloc_funcs(&alloc, NULL);
    void *p = alloc(1);
    free(p);
    if (!p) {
        static const json_error_t why = {.text = "out of memory"};
        if (error) *error = why;
        if (error) error->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory;
        return NULL;
    }
    hook.fail_at = -1;
    json_t *value = __real_json_loadb(data, n, flags, error);
    hook.fail_at = at;
    hook.n = before + 1;
    return value;
}

/* ---- what differs each time ---- */

ssize_t __wrap_getrandom(void *out, size_t n, unsigned flags);
time_t __wrap_time(time_t *out);
int64_t __wrap_now_ns(void);

ssize_t __wrap_getrandom(void *out, size_t n, unsigned flags)
{
    (void)flags;
    memset(out, 7, n);
    return (ssize_t)n;
}

time_t __wrap_time(time_t *out)
{
    (void)out;
    return 1000;
}

int64_t __wrap_now_ns(void) { return 1000000000; }

/* ---- seeds ---- */

typedef struct seed {
    char name[64];
    char *data;
    size_t n, n_body;
    bool failed;
    int status;
    text reply;
} seed;

static void read_seed(seed *in, const char *folder, const char *name)
{
    char path[1024];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    snprintf(in->name, sizeof(in->name), "%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    in->data = malloc((size_t)st.st_size);
    assert_non_null(in->data);
    in->n = fread(in->data, 1, (size_t)st.st_size, f);
    fclose(f);
    const char *script = memchr(in->data + 2, 1, in->n - 2);
    in->n_body = script ? (size_t)(script - in->data) - 2 : in->n - 2;
}

static void says(const seed *in)
{
    const size_t at = in->n_body + 3;
    if (at < in->n)
        mock_says(in->data + at, in->n - at);
    else
        mock_says(MOCK_SAID, strlen(MOCK_SAID));
}

static exchange *serve_seed(const seed *in)
{
    return mock_serve(mock_paths[(unsigned char)in->data[0] % MOCK_PATHS], in->data + 2, in->n_body,
                      in->data[1] & MOCK_each);
}

static bool is_the_same(const seed *in, const exchange *x)
{
    return !x->out.failed && x->status == in->status && x->out.n == in->reply.n &&
           memcmp(x->out.data, in->reply.data, in->reply.n) == 0;
}

/* Of a stream: what was sent is the good one's, event by event, and behind it is nothing but why it ended. */
static bool is_beginning(const seed *in, const text *out)
{
    const char *at = out->n ? out->data : "", *good = in->reply.data;
    for (size_t n; *at && (n = strcspn(at, "\n") + 1, strncmp(at, good, n) == 0); at += n, good += n) {}
    const char *name = strncmp(at, "event: ", 7) == 0 ? strchr(at, '\n') : NULL;
    const char *end = strchr(name ? name + 1 : at, '\n');
    const char *word = strstr(at, "memory");
    return !*at || (end && word && word < end && end[strspn(end, "\n")] == '\0');
}

/* A reply that says that memory is short; a stream may be cut where that could not be written, too. */
static bool says_no(const seed *in, const exchange *x)
{
    if (x->streams && !is_beginning(in, &x->out)) return false;
    if (x->out.failed || x->body.failed) return true;
    const bool told = x->out.n && strstr(x->out.data, "memory");
    return x->streams ? x->ended && (x->broken || told) : x->ready && x->status == 503 && told;
}

/* One allocation fails; true: all were made before. */
static bool try_one(const seed *in, long at, bool all_after)
{
    const long before = hook.live;
    hook_arm(at, all_after);
    exchange *x = serve_seed(in);
    const bool through = hook.n <= at;
    hook_arm(-1, false);
    if (x && !is_the_same(in, x) && !says_no(in, x))
        fail_msg("%s, allocation %ld%s: %d, %s", in->name, at, all_after ? " and after" : "", x->status,
                 x->out.data ? x->out.data : "");
    if (x) mock_done(x);
    if (hook.live != before)
        fail_msg("%s, allocation %ld%s: %ld blocks are out, %ld before", in->name, at, all_after ? " and after" : "",
                 (long)hook.live, before);
    return through;
}

static void a_seed(seed *in, int number)
{
    const bool all = getenv("QN_FAULT") && strcmp(getenv("QN_FAULT"), "all") == 0;
    says(in);
    for (int i = 0; i < 2; i++) { /* what is kept for the next time is there, then */
        exchange *x = serve_seed(in);
        assert_non_null(x);
        text_deinit(&in->reply);
        in->status = x->status;
        text_put(&in->reply, x->out.data, x->out.n);
        hook_arm(-1, false);
        mock_done(x);
    }
    exchange *x = serve_seed(in);
    const long n = hook.n, stride = all ? 1 : 1 + n / 20;
    if (!is_the_same(in, x)) fail_msg("%s: another reply each time: %s", in->name, x->out.data);
    mock_done(x);
    for (int after = 0; after < 2; after++)
        for (long at = number * 7 % stride; !try_one(in, at, after); at += stride) {}
    if (all) printf("%s: %ld allocations\n", in->name, n);
}

static void every_dialect(void **state)
{
    static const char folder[] = QN_TESTS_DIR "/fuzz/corpus/fuzz_serve";
    struct dirent **entries;
    int n_seeds = 0;
    (void)state;
    const int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        seed in = {0};
        if (entries[i]->d_name[0] != '.') {
            read_seed(&in, folder, entries[i]->d_name);
            for (int each = 0; each < 2; each++, in.data[1] ^= MOCK_each) { /* its tokens one by one, and all at once */
                a_seed(&in, n_seeds++);
                text_deinit(&in.reply);
            }
            free(in.data);
        }
        __real_free(entries[i]); /* of the C library's own allocations */
    }
    if (n >= 0) __real_free(entries);
    assert_true(n_seeds > 40);
}

/* ---- the list of models ---- */

static char store_dir[64];
static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static const char *in_store(const char *name)
{
    static char path[512];
    snprintf(path, sizeof(path), "%s/%s", store_dir, name);
    return path;
}

static void write_text(const char *name, const char *words)
{
    FILE *f = fopen(in_store(name), "w");
    assert_non_null(f);
    fputs(words, f);
    fclose(f);
}

static qn_store *open_list(void *ctx, qn_error *err)
{
    char folder[128], ollama[128];
    qn_store *store = NULL;
    (void)ctx;
    snprintf(folder, sizeof(folder), "%s/files", store_dir);
    snprintf(ollama, sizeof(ollama), "%s/ollama", store_dir);
    const qn_store_places places = {.folders = (const char *const[]){folder}, .n_folders = 1, .ollama_models = ollama};
    return qn_store_open(&places, &store, err) == QN_OK ? store : NULL;
}

/* A store with "chat", which is loaded, "other", whose words for the system and parameters lie beside it, and "mine",
 * made of that one. */
static void make_store(void)
{
    static const char *const folders[] = {"",
                                          "files",
                                          "ollama",
                                          "mine",
                                          "ollama/blobs",
                                          "ollama/manifests",
                                          "ollama/manifests/registry.ollama.ai",
                                          "ollama/manifests/registry.ollama.ai/library",
                                          "ollama/manifests/registry.ollama.ai/library/other"};
    char words[2048], name[128];
    size_t n = 0;
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        assert_int_equal(mkdir(in_store(folders[i]), 0777), 0);
    assert_int_equal(symlink(mock_path, in_store("files/chat.gguf")), 0);
    static const char *const kinds[] = {"model", "params", "system"};
    static const char params[] = "{\"temperature\": 0.5, \"stop\": [\"a\", \"b\"]}", system_words[] = "Be kind.";
    struct stat st;
    assert_int_equal(stat(mock_path, &st), 0);
    const size_t sizes[] = {(size_t)st.st_size, strlen(params), strlen(system_words)};
    for (int i = 0; i < 3; i++)
        n += (size_t)
            snprintf(words + n, sizeof(words) - n,
                     "%s{\"mediaType\":\"application/vnd.ollama.image.%s\",\"digest\":\"sha256:%d%s\",\"size\":%zu}",
                     i ? "," : "{\"layers\":[", kinds[i], i, hash + 1, sizes[i]);
    snprintf(words + n, sizeof(words) - n, "]}");
    write_text("ollama/manifests/registry.ollama.ai/library/other/latest", words);
    snprintf(name, sizeof(name), "ollama/blobs/sha256-0%s", hash + 1);
    assert_int_equal(link(mock_path, in_store(name)), 0);
    snprintf(name, sizeof(name), "ollama/blobs/sha256-1%s", hash + 1);
    write_text(name, params);
    snprintf(name, sizeof(name), "ollama/blobs/sha256-2%s", hash + 1);
    write_text(name, system_words);
    write_text("mine/mine.json", "{\"name\": \"mine\", \"from\": \"other:latest\", \"parameters\": {\"top_k\": 3}, "
                                 "\"template\": \"{{ messages[0].content }}\"}");
}

static void remove_store(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", store_dir);
    assert_int_equal(system(command), 0);
}

static void describe(model *m, void *ctx)
{
    char *params = m->params ? json_dumps(m->params, JSON_SORT_KEYS) : NULL;
    text_printf(ctx, "%s %s %s|%s|%s|%s|%s %d\n", m->name, m->path, m->facts.arch, m->why_not,
                m->system ? m->system : "-", m->tmpl_source ? m->tmpl_source : "-", params ? params : "-",
                m->n_adapters);
    free(params);
}

static void describe_list(text *out)
{
    text_clear(out);
    models_each(&mock.s, describe, out);
    assert_false(out->failed);
}

/* A request for a model; its status, 0 where it was found. */
static int ask_for(const char *name)
{
    char body[64];
    const int n = snprintf(body, sizeof(body), "{\"model\": \"%s\", \"prompt\": \"a\"}", name);
    exchange *x = mock_exchange("/v1/completions", body, (size_t)n);
    if (!x) return 503;
    if (!loader_enter(x) && x->waits_for) loader_leave(x);
    const int status = x->ready ? x->status : 0;
    if (!x->out.failed) assert_int_equal(x->retry_after, status == 503);
    if (x->model) loader_release(x->model);
    x->model = NULL;
    exchange_release(x);
    return status;
}

static void move(const char *from, const char *to)
{
    char old[128];
    snprintf(old, sizeof(old), "%s", in_store(from));
    assert_int_equal(rename(old, in_store(to)), 0);
}

static void look_again(text *out)
{
    problem p = {0};
    assert_true(catalog_refresh(&mock.s, &p));
    describe_list(out);
}

/* "mine" has come since the list was read; one allocation fails while it is asked for. True: all were made before. */
static bool try_list(const text *new, long at, bool all_after)
{
    enum { LONG_AGO = -1000000000 };
    static text old, now;
    static long live, n_before;
    server *s = &mock.s;
    move("ollama", "gone");
    look_again(&old);
    move("gone", "ollama");
    assert_null(strstr(old.data, "mine"));
    if (n_before++ == 1) live = hook.live; /* these texts are there, then */
    if (n_before > 2 && hook.live != live)
        fail_msg("before allocation %ld: %ld blocks are out, %ld before", at, (long)hook.live, live);
    s->refreshed_ns = LONG_AGO * INT64_C(10);
    hook_arm(at, all_after);
    const int status = ask_for("mine");
    const bool through = hook.n <= at;
    hook_arm(-1, false);
    describe_list(&now);
    const bool is_old = strcmp(now.data, old.data) == 0, is_new = strcmp(now.data, new->data) == 0;
    if ((status && status != 503) || (through && status) || (!status && !is_new) || !(is_new || is_old) ||
        (s->stale && !is_old))
        fail_msg("allocation %ld%s: %d, and the list is\n%s", at, all_after ? " and after" : "", status, now.data);
    if (s->stale) { /* who comes at once is told the same; later all is well */
        assert_int_equal(ask_for("mine"), 503);
        assert_int_equal(ask_for("chat"), 0);
        s->refreshed_ns = LONG_AGO * INT64_C(10);
    }
    assert_int_equal(s->stale || is_new ? ask_for("mine") : 0, 0);
    assert_int_equal(ask_for("nobody"), 404);
    return through;
}

static void the_list_of_models(void **state)
{
    server *s = &mock.s;
    text new = {0};
    const bool all = getenv("QN_FAULT") && strcmp(getenv("QN_FAULT"), "all") == 0;
    (void)state;
    snprintf(store_dir, sizeof(store_dir), P_tmpdir "/serve-list-%d", (int)getpid());
    make_store();
    char *mine = strdup(in_store("mine"));
    s->o.n_models = 0;
    s->o.open_store = open_list;
    s->o.models_store = mine;
    look_again(&new);
    assert_non_null(strstr(new.data, "\nmine "));
    assert_non_null(strstr(new.data, "llama||Be kind.|{{ messages[0].content }}|{\"stop\": [\"a\", \"b\"], "
                                     "\"temperature\": 0.5, \"top_k\": 3} 0"));
    assert_true(try_list(&new, 1000000, false));
    hook_arm(-1, false);
    look_again(&new);
    const long n = hook.n;
    for (int after = 0; after < 2; after++)
        for (long at = 0; !try_list(&new, at, after); at += all ? 1 : 1 + n / 100) {}
    remove_store();
    text_deinit(&new);
    free(mine);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    qn_set_allocator(&(qn_allocator){hook_alloc, release, NULL});
    mock_start(QN_SOURCE_DIR "/models/chat.gguf");
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_dialect), cmocka_unit_test(the_list_of_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
