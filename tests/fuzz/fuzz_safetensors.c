/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_safetensors.c -- the bytes as a safetensors file: opened from memory with and without types that
 * Quern does not know; what opens is used in full: lookups, metadata, every tensor's bytes, in place and copied. The
 * bytes as a JSON text too: skipped as a whole, and string by string. Broken promises trap; leaks and bad accesses are
 * the sanitizers' business. */
#include "require.h"
#include "format/json.h"
#include <quern/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    REQUIRE(status != QN_OK && status < QN_STATUS_COUNT && status != QN_STATUS_internal && status != QN_STATUS_nomem);
    REQUIRE(err->status == status && err->text[0] && !strchr(err->text, '\n') && strlen(err->text) < sizeof err->text);
}

static void use_tensors(const qn_safetensors *file, size_t size, bool keep)
{
    uint64_t data_bytes = 0;
    for (size_t k = 0; k < qn_safetensors_n_tensors(file); k++) {
        const qn_safetensors_tensor *t = qn_safetensors_tensor_get(file, k);
        REQUIRE(qn_safetensors_tensor_find(file, t->name) == t);
        REQUIRE(qn_shape_numel(&t->shape) >= 0 && t->part == 0 && t->data);
        touch(t->data, t->size_bytes);
        data_bytes += t->size_bytes;
        REQUIRE(keep || t->dtype < QN_DTYPE_COUNT);
        const int bytes = qn_dtype_get(t->dtype)->block_bytes;
        REQUIRE(!t->direct || (uintptr_t)t->data % (uintptr_t)bytes == 0);
        uint8_t *copy = malloc(t->size_bytes + 1);
        const qn_status status = copy ? qn_safetensors_read(file, t, copy, NULL) : QN_STATUS_nomem;
        REQUIRE(status == (t->dtype < QN_DTYPE_COUNT ? QN_OK : QN_STATUS_unsupported));
        REQUIRE(!t->direct || t->size_bytes == 0 || memcmp(copy, t->data, t->size_bytes) == 0);
        free(copy);
    }
    REQUIRE(data_bytes <= size && qn_safetensors_file_bytes(file) == size && qn_safetensors_n_parts(file) == 1);
    REQUIRE(!qn_safetensors_tensor_get(file, qn_safetensors_n_tensors(file)));
    REQUIRE(!qn_safetensors_tensor_find(file, "") && !qn_safetensors_meta_find(file, ""));
}

static void use_meta(const qn_safetensors *file)
{
    for (size_t k = 0; k < qn_safetensors_n_meta(file); k++) {
        const qn_safetensors_meta *m = qn_safetensors_meta_get(file, k);
        REQUIRE(qn_safetensors_meta_find(file, m->key) == m && m->value[m->len] == 0);
        REQUIRE(qn__utf8_valid(m->value, m->len) == m->len);
        touch(m->value, m->len);
    }
    REQUIRE(!qn_safetensors_meta_get(file, qn_safetensors_n_meta(file)));
}

static qn_status open_and_use(const uint8_t *data, size_t size, bool keep)
{
    qn_safetensors *file = NULL;
    qn_error err = {0};
    const qn_safetensors_options options = {.keep_unsupported = keep};
    const qn_status status = qn_safetensors_open_memory(data, size, &options, &file, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        REQUIRE(!file);
        return status;
    }
    use_tensors(file, size, keep);
    use_meta(file);
    qn_safetensors_close(file);
    return QN_OK;
}

/* What is skipped as a value with nothing behind it, is one; every string in it decodes to valid UTF-8. */
static void walk(const char *text, size_t size)
{
    qn_json j;
    qn_error err = {0};
    if (qn__utf8_valid(text, size) != size) return;
    qn__json_init(&j, text, size, 0, "", &err);
    qn_status status = qn__json_skip(&j);
    if (status == QN_OK) status = qn__json_end(&j);
    if (status != QN_OK) check_error(status, &err);
    REQUIRE(j.pos <= size);
    for (size_t at = 0; at < size && at < 4096; at++) {
        qn_json_str s;
        if (text[at] != '"') continue;
        qn__json_init(&j, text, size, 0, "", NULL);
        j.pos = at;
        if (qn__json_string(&j, &s) != QN_OK) continue;
        char *out = malloc(s.n + 1);
        if (!out) return;
        const size_t n = qn__json_decode(&s, out);
        REQUIRE(n <= s.n && qn__utf8_valid(out, n) == n);
        out[n] = '\0';
        REQUIRE(memchr(out, 0, n) || n > 30 || qn__json_equals(&s, out));
        free(out);
        at = j.pos - 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const qn_status strict = open_and_use(data, size, false), lax = open_and_use(data, size, true);
    REQUIRE(strict != QN_OK || lax == QN_OK); /* it asks for less */
    walk((const char *)data, size);
    if (size > 8) walk((const char *)data + 8, size - 8);
    return 0;
}
