/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_archs.c -- models of every architecture whose keys and tensors are wrong: the first byte chooses the
 * architecture, the second whether what loads is computed with, each four more leave out, replace or misshape a key or
 * a tensor; shapes otherwise follow from what the keys say. What is refused is refused in one line that names a key or
 * a tensor. Loading allocates no more than the file's size answers for. */
#include "../unit/model/header.h"
#include <fcntl.h>
#include <math.h>
#include <quern/engine.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "require.h"

enum { MAX_BYTES = 1 << 18, MAX_CHANGES = 12 };

/* A row, what becomes of it, and a number for that. */
typedef struct change {
    uint8_t row, how;
    uint16_t value;
} change;

typedef struct input {
    const qn_arch *arch;
    change changes[MAX_CHANGES];
    int n_changes;
    bool computes; /* fifty times as slow */
} input;

/* ---- the allocator ---- */

static size_t live, most;

static void *take(void *ctx, size_t size, size_t align)
{
    void *p = NULL;
    (void)ctx;
    if (posix_memalign(&p, align, size) != 0) return NULL;
    live += size;
    if (live > most) most = live;
    return p;
}

static void give(void *ctx, void *p, size_t size)
{
    (void)ctx;
    live -= size;
    free(p);
}

/* ---- changes ---- */

static const change *of_row(const input *in, int row)
{
    for (int i = 0; i < in->n_changes; i++)
        if (in->changes[i].row == row) return &in->changes[i];
    return NULL;
}

static uint64_t number(const qn_hparam_row *row, uint16_t value)
{
    const uint64_t rare[] = {0,
                             (uint64_t)(int64_t)row->lo,
                             (uint64_t)(int64_t)row->hi,
                             (uint64_t)(int64_t)row->hi + 1,
                             UINT32_MAX,
                             UINT64_MAX,
                             INT32_MAX,
                             (uint64_t)1 << 31};
    return value >> 8 == 255 ? rare[value % 8] : value >> 8 == 254 ? value & 255 : (uint64_t)value % 64;
}

static double real(uint16_t value)
{
    const double rare[] = {0, -1, NAN, INFINITY, -INFINITY, 1e-30, 1e30, 0.5};
    return value >> 8 >= 250 ? rare[value % 8] : (value - 1000) / 256.0;
}

static void write_array(qn_gguf_writer *w, const char *key, const qn_hparam_row *row, const change *c)
{
    uint32_t numbers[16];
    const uint64_t n = c->value % 17;
    for (uint64_t i = 0; i < n; i++) numbers[i] = (uint32_t)number(row, (uint16_t)(c->value >> 4) * (uint16_t)(i + 1));
    qn_gguf_write_array(w, key, QN_GGUF_u32, numbers, n);
}

static bool change_key(void *arg, qn_gguf_writer *w, const char *key, const qn_hparam_row *row)
{
    const input *in = arg;
    const change *c = of_row(in, (int)(row - in->arch->hparams));
    static const uint8_t flags[16] = {1, 0, 1, 1, 0, 0, 1};
    if (!c) return false;
    const unsigned how = c->how % 8;
    if (how == 1 || how == 2) qn_gguf_write_u64(w, key, number(row, c->value));
    if (how == 3) qn_gguf_write_f32(w, key, (float)real(c->value));
    if (how == 4)
        qn_gguf_write_str(w, key, (const char *const[]){"", "yarn", "none", "linear", "longrope"}[c->value % 5]);
    if (how == 5) write_array(w, key, row, c);
    if (how == 6) qn_gguf_write_bool(w, key, c->value & 1);
    if (how == 7) qn_gguf_write_array(w, key, QN_GGUF_bool, flags + c->value % 8, c->value % 9);
    return true;
}

static bool change_tensor(void *arg, const qn_tensor_row *row, const char *name, qn_dtype *dtype, qn_shape *shape)
{
    const input *in = arg;
    const change *c = of_row(in, 255 - (int)(row - in->arch->tensors));
    (void)name;
    if (!c) return row->flags & W_NO_SYNTH;
    const unsigned how = c->how % 8;
    const int dim = c->value % shape->rank;
    if (how == 1) shape->dim[dim] = 1 + c->value / 4 % 64;
    if (how == 2 && shape->rank < 4) shape->dim[shape->rank++] = 1 + c->value % 3;
    if (how == 3 && shape->rank > 1) shape->rank--;
    if (how == 4) *dtype = (qn_dtype)(c->value % QN_DTYPE_COUNT);
    if (how == 5) shape->dim[dim] += c->value & 1 ? 1 : -1;
    if (shape->dim[dim] < 1) shape->dim[dim] = 1;
    return how == 0;
}

/* ---- computing ---- */

static void check_error(qn_status status, const qn_error *err)
{
    REQUIRE(status != QN_OK && status < QN_STATUS_COUNT && status != QN_STATUS_internal && status != QN_STATUS_nomem);
    REQUIRE(err->status == status && err->text[0] && !strchr(err->text, '\n') && strlen(err->text) < sizeof err->text);
}

static void compute(const char *path)
{
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_error err = {0};
    qn_engine_info info;
    qn_status status = qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &e, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        return;
    }
    qn_engine_get_info(e, &info);
    const qn_session_options options = {.n_ctx = 16, .n_batch = 8, .embeddings = info.encoder};
    status = qn_session_create(e, &options, &s, &err);
    if (status == QN_OK && info.encoder) {
        static float out[8 * (1 << 16)];
        const qn_token tokens[] = {3, 4, 5};
        const qn_embedding_text text = {tokens, 3};
        if (info.n_embd_out <= 1 << 16)
            status = qn_session_embeddings(s, &text, 1, &(qn_embedding_options){.pooling = QN_POOLING_none}, out, &err);
    } else if (status == QN_OK) {
        status = qn_session_feed(s, 0, (const qn_token[]){3, 4, 5, 6, 7}, 5, &err);
        if (status == QN_OK) status = qn_session_feed(s, 0, (const qn_token[]){8}, 1, &err);
    }
    if (status != QN_OK) check_error(status, &err);
    qn_session_destroy(s);
    qn_engine_close(e);
}

/* The file's bytes: the header, and zeros for data. */
static void compute_file(const qn_str *bytes, uint64_t data_bytes)
{
    char path[64];
    const int fd = memfd_create("model", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && write(fd, bytes->data, bytes->len) == (ssize_t)bytes->len &&
        ftruncate(fd, (off_t)(bytes->len + data_bytes)) == 0)
        compute(path);
    if (fd >= 0) close(fd);
}

/* ---- loading ---- */

/* Does the message say where it is wrong? */
static bool names_something(const char *text, const qn_arch *arch)
{
    for (int i = 0; i < arch->n_hparams; i++)
        if (strstr(text, arch->hparams[i].key)) return true;
    return strstr(text, "tensor ") || strstr(text, "blk.") || strstr(text, arch->name) || strstr(text, "tokenizer.");
}

static bool load(const qn_gguf *file, size_t size, const qn_arch *arch)
{
    qn_model *m = NULL;
    qn_error err = {0};
    most = live;
    const size_t before = live;
    const qn_status status = qn__model_load(file, 0, &m, &err);
    REQUIRE(most - before <= 16 * size + (1 << 16));
    if (status != QN_OK) {
        check_error(status, &err);
        REQUIRE(names_something(err.text, arch));
    }
    qn__model_free(m);
    REQUIRE(live == before);
    return status == QN_OK;
}

static void one(input *in)
{
    header h = {.arch = in->arch, .key = change_key, .tensor = change_tensor, .arg = in, .most_bytes = MAX_BYTES};
    qn_str bytes = {0};
    qn_gguf *file = NULL;
    if (header_build(&h, true, &bytes, NULL) == QN_OK) {
        const qn_gguf_options options = {.metadata_only = true};
        REQUIRE(qn_gguf_open_memory(bytes.data, bytes.len, &options, &file, NULL) == QN_OK);
        const bool good = load(file, bytes.len, in->arch);
        qn_gguf_close(file);
        if (good && in->computes) compute_file(&bytes, h.bytes + 4096);
    }
    qn__str_deinit(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool hooked;
    if (!hooked) qn_set_allocator(&(qn_allocator){take, give, NULL});
    hooked = true;
    int n_archs;
    const qn_arch *const *archs = qn__archs(&n_archs);
    if (size < 2) return 0;
    input in = {.arch = archs[data[0] % n_archs], .computes = data[1] & 1};
    for (size_t i = 2; i + 4 <= size && in.n_changes < MAX_CHANGES; i += 4) {
        change *c = &in.changes[in.n_changes++];
        *c = (change){data[i], data[i + 1], (uint16_t)(data[i + 2] | data[i + 3] << 8)};
        /* numbers near the ends are rows of keys and of tensors */
        if (c->row < 128)
            c->row = (uint8_t)(c->row % in.arch->n_hparams);
        else
            c->row = (uint8_t)(255 - (255 - c->row) % in.arch->n_tensors);
    }
    one(&in);
    return 0;
}
