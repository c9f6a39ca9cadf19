/* SPDX-License-Identifier: MIT */
/* Allocations fail while a request is read, answered and written, in each dialect (the seeds of fuzz_serve): the reply
 * is the one that it is otherwise, to the byte, or says that memory is short; nothing is lost silently, and every block
 * comes back. Clocks and random ids stand still. A part of all N is tried, another one for each seed; QN_FAULT=all
 * tries all. */
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

/* A reply that says that memory is short; a stream may be cut where that could not be written, too. */
static bool says_no(const exchange *x)
{
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
    if (x && !is_the_same(in, x) && !says_no(x))
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
    mock_start(QN_SOURCE_DIR "/models/chat.gguf");
    const int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        seed in = {0};
        if (entries[i]->d_name[0] != '.') {
            read_seed(&in, folder, entries[i]->d_name);
            a_seed(&in, n_seeds++);
            text_deinit(&in.reply);
            free(in.data);
        }
        __real_free(entries[i]); /* of the C library's own allocations */
    }
    if (n >= 0) __real_free(entries);
    assert_true(n_seeds > 20);
}

int main(void)
{
    qn_set_allocator(&(qn_allocator){hook_alloc, release, NULL});
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_dialect)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
