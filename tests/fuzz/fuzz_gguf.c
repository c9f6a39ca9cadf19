/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_gguf.c -- the bytes as a GGUF file: opened from memory with and without its data, and what opens is
 * used in full: every getter on every value, every lookup, every tensor's bytes, verification. Broken promises trap;
 * leaks and bad accesses are the sanitizers' business. */
#include <quern/gguf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"

static volatile uint64_t sink;

static void touch(const void *data, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((const uint8_t *)data)[i];
    sink = sum;
}

/* One line, with something in it, and a status that belongs to it. */
static void check_error(qn_status status, const qn_error *err)
{
    REQUIRE(status != QN_OK && status < QN_STATUS_COUNT && status != QN_STATUS_internal);
    REQUIRE(err->status == status && err->text[0] && !strchr(err->text, '\n') && strlen(err->text) < sizeof err->text);
}

static void use_value(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t i)
{
    uint64_t u;
    int64_t s;
    double d;
    bool b;
    qn_gguf_str str;
    qn_error err = {0};
    int n_ok = 0;
    const qn_status status[] = {qn_gguf_get_u64(file, kv, i, &u, &err), qn_gguf_get_i64(file, kv, i, &s, NULL),
                                qn_gguf_get_f64(file, kv, i, &d, NULL), qn_gguf_get_bool(file, kv, i, &b, NULL),
                                qn_gguf_get_str(file, kv, i, &str, NULL)};
    if (status[0] != QN_OK) check_error(status[0], &err);
    for (size_t k = 0; k < sizeof status / sizeof *status; k++) n_ok += status[k] == QN_OK;
    if (status[4] == QN_OK) touch(str.data, str.len);
    REQUIRE((n_ok > 0) == (i < kv->count && kv->elem != QN_GGUF_arr));
}

static void use_metadata(const qn_gguf *file)
{
    for (size_t k = 0; k < qn_gguf_n_kv(file); k++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(file, k);
        REQUIRE(qn_gguf_kv_find(file, kv->key) == kv);
        const uint64_t n = kv->count < 2000 ? kv->count : 2000;
        for (uint64_t i = 0; i < n; i++) use_value(file, kv, i);
        use_value(file, kv, kv->count);
        use_value(file, kv, UINT64_MAX);
        if (kv->count > 0) use_value(file, kv, kv->count - 1);
    }
    REQUIRE(!qn_gguf_kv_find(file, "no such key") && !qn_gguf_kv_get(file, qn_gguf_n_kv(file)));
}

static void use_tensors(const qn_gguf *file)
{
    uint64_t data_bytes = 0;
    for (size_t k = 0; k < qn_gguf_n_tensors(file); k++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, k);
        REQUIRE(qn_gguf_tensor_find(file, t->name) == t);
        REQUIRE(qn_shape_numel(&t->shape) > 0 && t->size_bytes > 0 && t->part == 0);
        if (t->data) touch(t->data, t->size_bytes);
        data_bytes += t->data ? t->size_bytes : 0;
    }
    REQUIRE(data_bytes <= qn_gguf_file_bytes(file)); /* nothing overlaps */
    REQUIRE(!qn_gguf_tensor_get(file, qn_gguf_n_tensors(file)));
    if (data_bytes < 1 << 20) (void)qn_gguf_verify(file, NULL, NULL, NULL);
    (void)qn_gguf_resident_bytes(file);
}

static qn_status open_and_use(const uint8_t *data, size_t size, bool metadata_only)
{
    qn_gguf *file = NULL;
    qn_error err = {0};
    const qn_status status =
        qn_gguf_open_memory(data, size, &(qn_gguf_options){.metadata_only = metadata_only}, &file, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        REQUIRE(!file);
        return status;
    }
    use_metadata(file);
    use_tensors(file);
    qn_gguf_close(file);
    return QN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const qn_status whole = open_and_use(data, size, false), header = open_and_use(data, size, true);
    REQUIRE(whole != QN_OK || header == QN_OK); /* metadata_only asks for less */
    return 0;
}
