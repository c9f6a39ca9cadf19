/* SPDX-License-Identifier: MIT */
/* tests/unit/text/vocab_file.h -- vocabularies made in memory: a GGUF file of key-value pairs only, little endian,
 * version 3. Shared with tests/fuzz/fuzz_tokenizer.c, so nothing here knows cmocka. */
#ifndef QN_TEST_VOCAB_FILE_H
#define QN_TEST_VOCAB_FILE_H

#include <quern/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct vocab_file {
    unsigned char *data;
    size_t len, cap;
    uint64_t n_kv;
} vocab_file;

static inline void vf_bytes(vocab_file *f, const void *bytes, size_t n)
{
    if (f->len + n > f->cap) {
        f->cap = (f->len + n) * 2;
        f->data = realloc(f->data, f->cap);
        if (!f->data) abort();
    }
    if (n) memcpy(f->data + f->len, bytes, n);
    f->len += n;
}

static inline void vf_int(vocab_file *f, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++) vf_bytes(f, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

static inline void vf_text(vocab_file *f, const char *text, size_t n)
{
    vf_int(f, n, 8);
    vf_bytes(f, text, n);
}

static inline void vf_begin(vocab_file *f)
{
    *f = (vocab_file){0};
    vf_bytes(f, "GGUF", 4);
    vf_int(f, 3, 4);
    vf_int(f, 0, 8);
    vf_int(f, 0, 8); /* the number of pairs: vf_open fills it in */
}

static inline void vf_key(vocab_file *f, const char *key, qn_gguf_type type)
{
    vf_text(f, key, strlen(key));
    vf_int(f, type, 4);
    f->n_kv++;
}

static inline void vf_array(vocab_file *f, const char *key, qn_gguf_type elem, uint64_t count)
{
    vf_key(f, key, QN_GGUF_arr);
    vf_int(f, elem, 4);
    vf_int(f, count, 8);
}

static inline void vf_str(vocab_file *f, const char *key, const char *value)
{
    vf_key(f, key, QN_GGUF_str);
    vf_text(f, value, strlen(value));
}

static inline void vf_u32(vocab_file *f, const char *key, uint32_t value)
{
    vf_key(f, key, QN_GGUF_u32);
    vf_int(f, value, 4);
}

static inline void vf_bool(vocab_file *f, const char *key, bool value)
{
    vf_key(f, key, QN_GGUF_bool);
    vf_int(f, value, 1);
}

/* Terminated strings. */
static inline void vf_strs(vocab_file *f, const char *key, const char *const *values, size_t count)
{
    vf_array(f, key, QN_GGUF_str, count);
    for (size_t i = 0; i < count; i++) vf_text(f, values[i], strlen(values[i]));
}

static inline void vf_f32s(vocab_file *f, const char *key, const float *values, size_t count)
{
    vf_array(f, key, QN_GGUF_f32, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        vf_int(f, bits, 4);
    }
}

static inline void vf_types(vocab_file *f, const unsigned char *values, size_t count)
{
    vf_array(f, "tokenizer.ggml.token_type", QN_GGUF_i32, count);
    for (size_t i = 0; i < count; i++) vf_int(f, values[i], 4);
}

static inline void vf_u8s(vocab_file *f, const char *key, const unsigned char *values, size_t count)
{
    vf_array(f, key, QN_GGUF_u8, count);
    vf_bytes(f, values, count);
}

static inline void vf_finish(vocab_file *f)
{
    for (int i = 0; i < 8; i++) f->data[16 + i] = (unsigned char)(f->n_kv >> 8 * i);
}

/* Opens the file and makes a tokenizer of it; the bytes are gone afterwards, as a user's file may be. */
static inline qn_status vf_open(vocab_file *f, qn_tokenizer **tok, qn_error *err)
{
    qn_gguf *file = NULL;
    vf_finish(f);
    qn_status status = qn_gguf_open_memory(f->data, f->len, NULL, &file, err);
    if (status == QN_OK) status = qn_tokenizer_create(file, tok, err);
    qn_gguf_close(file);
    free(f->data);
    *f = (vocab_file){0};
    return status;
}

/* The 256 letters of the byte alphabet, in byte order; terminated. */
static inline const char *vf_byte_letter(int byte, char out[4])
{
    unsigned cp = (unsigned)byte;
    if (byte <= 0x20)
        cp = 0x100u + cp;
    else if (byte >= 0x7F && byte <= 0xA0)
        cp = 0x121u + (cp - 0x7Fu);
    else if (byte == 0xAD)
        cp = 0x143;
    if (cp < 0x80)
        snprintf(out, 4, "%c", (char)cp);
    else
        snprintf(out, 4, "%c%c", (char)(0xC0 | cp >> 6), (char)(0x80 | (cp & 0x3F)));
    return out;
}

#endif
