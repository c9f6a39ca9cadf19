/* SPDX-License-Identifier: MIT */
/* tests/e2e/split.c -- a model written as a split one, by the installed interface: `t_e2e_split MODEL STEM N` writes
 * STEM-00001-of-0000N.gguf and so on. Without arguments it splits a small model and compares every tensor. */
#include <quern/engine.h>
#include <quern/gguf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const qn_error *err)
{
    printf("%s: %s\n", what, err->text);
    exit(1);
}

static void write_part(const qn_gguf *file, const char *stem, size_t part, size_t n)
{
    char path[4096];
    qn_error err;
    qn_gguf_writer *w;
    const size_t all = qn_gguf_n_tensors(file), first = all * part / n, end = all * (part + 1) / n;
    snprintf(path, sizeof path, "%s-%05zu-of-%05zu.gguf", stem, part + 1, n);
    if (qn_gguf_writer_create(path, &w, &err) != QN_OK) die(path, &err);
    if (part == 0) qn_gguf_write_kvs(w, file, "");
    qn_gguf_write_u32(w, "split.no", (uint32_t)part);
    qn_gguf_write_u32(w, "split.count", (uint32_t)n);
    qn_gguf_write_u32(w, "split.tensors.count", (uint32_t)all);
    for (size_t i = first; i < end; i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        qn_gguf_declare(w, t->name, t->dtype, &t->shape);
    }
    for (size_t i = first; i < end; i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        qn_gguf_write_data(w, t->data, t->size_bytes);
    }
    if (qn_gguf_writer_commit(w, &err) != QN_OK) die(path, &err);
}

static void split(const char *model, const char *stem, size_t n)
{
    qn_gguf *file;
    qn_error err;
    if (qn_gguf_open(model, NULL, &file, &err) != QN_OK) die(model, &err);
    for (size_t i = 0; i < n; i++) write_part(file, stem, i, n);
    qn_gguf_close(file);
}

static int compare(const char *one, const char *parts)
{
    qn_gguf *a, *b;
    qn_error err;
    int wrong = 0;
    if (qn_gguf_open(one, NULL, &a, &err) != QN_OK) die(one, &err);
    if (qn_gguf_open(parts, NULL, &b, &err) != QN_OK) die(parts, &err);
    wrong += qn_gguf_n_parts(b) != 3 || qn_gguf_n_tensors(a) != qn_gguf_n_tensors(b) || qn_gguf_n_tensors(a) < 20;
    for (size_t i = 0; i < qn_gguf_n_tensors(a); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(a, i), *u = qn_gguf_tensor_find(b, t->name);
        wrong += !u || u->size_bytes != t->size_bytes || memcmp(u->data, t->data, t->size_bytes) != 0;
    }
    qn_gguf_close(a);
    qn_gguf_close(b);
    if (wrong) printf("%d tensors differ\n", wrong);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    static const char model[] = QN_BUILD_DIR "/t_e2e_split.gguf", stem[] = QN_BUILD_DIR "/t_e2e_split";
    qn_error err;
    char path[4096];
    if (argc == 4) {
        split(argv[1], argv[2], (size_t)atoi(argv[3]));
        return 0;
    }
    const qn_synth_options tiny = {.preset = "tiny", .type = "Q4_0"};
    if (qn_synth(model, &tiny, NULL, NULL, &err) != QN_OK) die(model, &err);
    split(model, stem, 3);
    snprintf(path, sizeof path, "%s-00001-of-00003.gguf", stem);
    const int status = compare(model, path);
    remove(model);
    for (int i = 1; i <= 3; i++) {
        snprintf(path, sizeof path, "%s-%05d-of-00003.gguf", stem, i);
        remove(path);
    }
    return status;
}
