/* SPDX-License-Identifier: MIT */
/* tests/unit/model/tiny.h -- whole model files of a few kilobytes, written row by row of the architecture, so that a
 * test can leave out, replace or misshape any of them. Weights are large enough for sharp attention: with the small
 * ones of `quern synth` a wrong cell or a wrong angle would hardly move a logit. Also temporary folders, and the check
 * that an error is one line that names what it should. */
#ifndef QN_TEST_TINY_H
#define QN_TEST_TINY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <unistd.h>

#include <quern/engine.h>

#include "model/arch.h"

/* ---- errors ---- */

#define MUST(call) \
    do { \
        qn_error must_err_ = {0}; \
        qn_error *err = &must_err_; \
        const qn_status must_status_ = (call); \
        if (must_status_ != QN_OK) \
            fail_msg("%s:%d: %s: %s (%s)", __FILE__, __LINE__, #call, must_err_.text, qn_status_name(must_status_)); \
    } while (0)

/* The call, which names its error `err`, fails with the status, and its message holds every one of the words. */
#define REFUSED(status_, call, ...) \
    do { \
        qn_error refused_err_ = {0}; \
        qn_error *err = &refused_err_; \
        const qn_status refused_status_ = (call); \
        check_refusal(refused_status_, QN_STATUS_##status_, err, __FILE__, __LINE__, \
                      (const char *const[]){"", ##__VA_ARGS__, NULL}); \
    } while (0)

static inline void check_refusal(qn_status status, qn_status want, const qn_error *err, const char *file, int line,
                                 const char *const *words)
{
    if (status != want)
        fail_msg("%s:%d: status %s, %s expected: %s", file, line, qn_status_name(status), qn_status_name(want),
                 err->text);
    if (err->status != want || !err->text[0] || strchr(err->text, '\n'))
        fail_msg("%s:%d: \"%s\" is no message", file, line, err->text);
    for (; *words; words++)
        if (!strstr(err->text, *words)) fail_msg("%s:%d: \"%s\" does not say \"%s\"", file, line, err->text, *words);
}

/* ---- a folder of the test's own ---- */

static char tiny_folder[512];

static inline void tiny_remove_folder(void)
{
    DIR *dir = tiny_folder[0] ? opendir(tiny_folder) : NULL;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s", tiny_folder, e->d_name);
        unlink(path);
    }
    if (dir) closedir(dir);
    rmdir(tiny_folder);
}

/* A path in it; the text is valid until the eighth call from now. */
static inline const char *tiny_path(const char *name)
{
    static char paths[8][768];
    static int next;
    if (!tiny_folder[0]) {
        snprintf(tiny_folder, sizeof(tiny_folder), "%s/tiny-XXXXXX", QN_BUILD_DIR);
        if (!mkdtemp(tiny_folder)) fail_msg("cannot make %s", tiny_folder);
        atexit(tiny_remove_folder);
    }
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", tiny_folder, name);
    return path;
}

static inline int tiny_n_files(void)
{
    int n = 0;
    (void)tiny_path("");
    DIR *dir = opendir(tiny_folder);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.' || strncmp(e->d_name, ".quern", 6) == 0;
    if (dir) closedir(dir);
    return n;
}

/* ---- a model ---- */

typedef struct tiny {
    const char *arch;                                                       /* NULL: llama */
    int32_t n_layer, n_embd, n_head, n_kv_head, head, n_ff, n_vocab, n_ctx; /* 0: 2, 32, 4, 2, 8, 48, 300, 128 */
    const char *tokenizer;                                                  /* llama (NULL), gpt2, bert, t5 */
    bool tied;
    bool latent;   /* caches one vector a position, where the architecture can */
    qn_dtype type; /* of matrices; 0 is F32 */
    uint32_t seed;
    /* Told before a key or a tensor is written; true: it has been seen to, and is left out. */
    bool (*key)(qn_gguf_writer *w, const char *key);
    bool (*tensor)(const char *name, qn_dtype *dtype, qn_shape *shape);
    void (*extra)(qn_gguf_writer *w); /* writes more keys */
} tiny;

/* Every architecture's name. */
static const char *const tiny_archs[] = {
#define QN_ARCH(id, name) name,
#include "model/archs.def"
#undef QN_ARCH
};
enum { TINY_N_ARCHS = sizeof(tiny_archs) / sizeof(tiny_archs[0]) };

/* It has no logits. */
/* Latent attention without `latent` caches a key and a value for each head. */
static inline bool tiny_is_latent(const char *name)
{
    const qn_arch *arch = qn__arch_find(name);
    for (int i = 0; i < arch->n_hparams; i++)
        if (arch->hparams[i].field == offsetof(qn_hparams, n_lora_kv)) return true;
    return false;
}

static inline bool tiny_is_encoder(const char *name)
{
    const qn_arch *arch = qn__arch_find(name);
    for (int i = 0; i < arch->n_tensors; i++)
        if (!arch->tensors[i].layer && arch->tensors[i].slot == offsetof(qn_top, out)) return false;
    return true;
}

/* Do tokens see what comes after them, so that a text is computed at once? */
static inline bool tiny_sees_ahead(const char *name)
{
    return tiny_is_encoder(name) || qn__sees_ahead(&qn__arch_find(name)->block.attn.sight);
}

/* Do its layers rotate queries and keys? baichuan's do not, but for its one of 32 layers. */
static inline bool tiny_turns(const char *arch)
{
    return strcmp(arch, "baichuan") != 0 && qn__arch_find(arch)->block.attn.turn != QN_TURN_none;
}

/* For `extra` of gemma3: a window in one layer of two. */
enum { TINY_WINDOW = 9 };
static inline void tiny_window(qn_gguf_writer *w)
{
    qn_gguf_write_u32(w, "gemma3.attention.sliding_window", TINY_WINDOW);
    qn_gguf_write_u32(w, "gemma3.attention.sliding_window_pattern", 2);
}

enum { TINY_MAX_TENSORS = 512 };
typedef struct tiny_job {
    const tiny *t;
    qn_gguf_writer *w;
    const qn_arch *arch; /* whose rows are written: llama's for a name that is none */
    qn_hparams hp;
    struct {
        char name[64];
        qn_dtype dtype;
        qn_shape shape;
        float middle, spread;
    } tensor[TINY_MAX_TENSORS];
    int n_tensors;
    uint32_t random;
} tiny_job;

static inline float tiny_random(uint32_t *state) /* -1 to 1 */
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)(*state >> 8) / 8388608.0f - 1.0f;
}

/* The architecture's rows that have a number; what is 0 is left to the reader. */
static inline void tiny_hparams(tiny_job *j)
{
    for (int i = 0; i < j->arch->n_hparams; i++) {
        const qn_hparam_row *row = &j->arch->hparams[i];
        const double value = qn__hparam_get(&j->hp, row);
        char key[128];
        (void)qn__hparam_key(j->arch, row, key, sizeof key);
        if (j->t->arch && !qn__arch_find(j->t->arch)) snprintf(key, sizeof(key), "%s.%s", j->t->arch, row->key);
        if (value == 0 && !row->required) qn__hparam_set(&j->hp, row, row->fallback);
        if ((value == 0 && !row->required) || (j->t->key && j->t->key(j->w, key))) continue;
        qn__hparam_write(j->w, key, row, value);
    }
}

/* The byte-level alphabet of GPT-2: printable bytes stand for themselves, the others follow from U+0100 on. */
static inline int tiny_byte_char(int byte, char *out)
{
    int code = byte;
    if (!((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174)) {
        code = 256;
        for (int b = 0; b < byte; b++) code += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    }
    return code < 128 ? snprintf(out, 8, "%c", code) : snprintf(out, 8, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 63));
}

static inline const char *tiny_syllable(int i) /* two to three letters, none twice below 125 */
{
    static char text[8];
    snprintf(text, sizeof(text), "%c%c%s", "klmnt"[i % 5], "aeiou"[i / 5 % 5],
             i / 25 % 5 ? (const char *[]){"", "s", "r", "n", "k"}[i / 25 % 5] : "");
    return text;
}

#define TINY_BLANK "\xe2\x96\x81"

static inline void tiny_tokenizer(tiny_job *j)
{
    static char text[1024][24];
    static qn_gguf_str pieces[1024], merges[64];
    static float scores[1024];
    static int32_t types[1024];
    const char *kind = j->t->tokenizer ? j->t->tokenizer : "llama";
    const bool spm = !strcmp(kind, "llama"), bpe = !strcmp(kind, "gpt2"), bert = !strcmp(kind, "bert");
    const int n = (int)j->hp.n_vocab, n_special = bert ? 4 : 3;
    static const char *const specials[4][4] = {{"<unk>", "<s>", "</s>"},
                                               {"<|end|>", "<|start|>", "<|pad|>"},
                                               {"[PAD]", "[UNK]", "[CLS]", "[SEP]"},
                                               {"<pad>", "</s>", "<unk>"}};
    assert_in_range(n, 260, 1024);
    int n_merges = 0;
    for (int i = 0; i < n; i++) {
        const int at = i - n_special, word = at - 256;
        types[i] = 1;
        scores[i] = -(float)i / 8;
        if (at < 0) {
            snprintf(text[i], 24, "%s", specials[spm ? 0 : bpe ? 1 : bert ? 2 : 3][i]);
            types[i] = strstr(text[i], "unk") || strstr(text[i], "UNK") ? 2 : 3;
        } else if (at < 256 && spm) {
            snprintf(text[i], 24, "<0x%02X>", at);
            types[i] = 6;
        } else if (at < 256 && bpe) {
            tiny_byte_char(at, text[i]);
        } else if (at < 256) { /* a letter that begins a word, one that goes on, then a few of anything */
            snprintf(text[i], 24, "%s%c%s", at % 2 ? "" : TINY_BLANK, 'a' + at / 2 % 26,
                     at < 52 ? "" : (const char *[]){"", "x", "y", "z", "w"}[at / 52]);
        } else if (bpe && word < 25) {
            snprintf(text[i], 24, "%s", tiny_syllable(word));
            snprintf(text[i] + 8, 16, "%c %c", text[i][0], text[i][1]);
            merges[n_merges++] = (qn_gguf_str){text[i] + 8, 3};
        } else {
            /* The blank alone; then each syllable without one and with: what merges must pass on its way. */
            snprintf(text[i], 24, "%s%s", word == 0 || word % 2 == 0 ? TINY_BLANK : "",
                     word == 0 ? "" : tiny_syllable((word - 1) / 2));
            if (bpe) snprintf(text[i], 24, "unused%d", i);
        }
        pieces[i] = (qn_gguf_str){text[i], strlen(text[i])};
    }
    qn_gguf_write_str(j->w, "tokenizer.ggml.model", kind);
    qn_gguf_write_str(j->w, "tokenizer.ggml.pre", bpe ? "gpt-2" : "default");
    qn_gguf_write_strs(j->w, "tokenizer.ggml.tokens", pieces, (uint64_t)n);
    qn_gguf_write_array(j->w, "tokenizer.ggml.token_type", QN_GGUF_i32, types, (uint64_t)n);
    if (!bpe) qn_gguf_write_array(j->w, "tokenizer.ggml.scores", QN_GGUF_f32, scores, (uint64_t)n);
    if (bpe) qn_gguf_write_strs(j->w, "tokenizer.ggml.merges", merges, (uint64_t)n_merges);
    qn_gguf_write_u32(j->w, "tokenizer.ggml.unknown_token_id", spm || bpe ? 0 : bert ? 1 : 2);
    qn_gguf_write_u32(j->w, "tokenizer.ggml.bos_token_id", bert ? 2 : bpe ? 0 : 1);
    qn_gguf_write_u32(j->w, "tokenizer.ggml.eos_token_id", bert ? 3 : spm ? 2 : bpe ? 0 : 1);
    if (bert) qn_gguf_write_u32(j->w, "tokenizer.ggml.seperator_token_id", 3);
    if (bert) qn_gguf_write_u32(j->w, "tokenizer.ggml.cls_token_id", 2);
}

static inline void tiny_declare(tiny_job *j, const qn_tensor_row *row, int layer)
{
    char name[64];
    const qn_layer_hp hp = qn__layer_hp(&j->hp, layer < 0 ? 0 : (uint32_t)layer);
    if (!qn__tensor_row_in(row, &j->hp, &hp)) return;
    qn_shape shape = qn__tensor_row_shape(row, &j->hp, &hp);
    qn_dtype dtype = row->flags & W_VECTOR ? QN_DTYPE_F32 : j->t->type;
    if (row->layer)
        snprintf(name, sizeof(name), row->name, layer);
    else
        snprintf(name, sizeof(name), "%s", row->name);
    if (qn_shape_numel(&shape) == 0 || (j->t->tensor && j->t->tensor(name, &dtype, &shape))) return;
    assert_true(j->n_tensors < TINY_MAX_TENSORS);
    /* Queries and keys twice as large: attention then prefers few cells. */
    const bool twice =
        row->layer && (row->slot == offsetof(qn_layer, attn_q) || row->slot == offsetof(qn_layer, attn_k));
    snprintf(j->tensor[j->n_tensors].name, sizeof(j->tensor[0].name), "%s", name);
    j->tensor[j->n_tensors].dtype = dtype;
    j->tensor[j->n_tensors].shape = shape;
    j->tensor[j->n_tensors].middle = row->flags & W_ONES ? 1.0f : 0.0f;
    j->tensor[j->n_tensors++].spread =
        shape.rank == 1 ? 0.2f : sqrtf(3.0f / (float)shape.dim[shape.rank - 1]) * (twice ? 2.0f : 1.0f);
    qn_gguf_declare(j->w, name, dtype, &shape);
}

static inline void tiny_tensors(tiny_job *j)
{
    for (int layer = -1; layer < (int)j->hp.n_layer; layer++) {
        for (int r = 0; r < j->arch->n_tensors; r++) {
            const qn_tensor_row *row = &j->arch->tensors[r];
            if (row->layer != (layer >= 0) || row->flags & W_NO_SYNTH || (row->flags & W_TIED && j->t->tied)) continue;
            tiny_declare(j, row, layer);
        }
    }
}

static inline void tiny_data(tiny_job *j, int i)
{
    const qn_dtype dtype = j->tensor[i].dtype;
    const qn_shape *shape = &j->tensor[i].shape;
    const int64_t n = qn_shape_numel(shape), row = shape->dim[shape->rank - 1],
                  bytes = qn_dtype_row_bytes(dtype, row) * (n / row);
    float *values = malloc((size_t)n * sizeof(float));
    void *packed = calloc(1, (size_t)bytes);
    assert_true(values && packed);
    const float spread = j->tensor[i].spread, middle = j->tensor[i].middle;
    uint32_t r = j->random;
    for (int64_t k = 0; k < n; k++) values[k] = spread * tiny_random(&r) + middle;
    j->random = r;
    /* What cannot be packed is there to be refused: zeros do. */
    if (qn_dtype_can_pack(dtype)) MUST(qn_pack(dtype, values, packed, n / row, row, NULL, err));
    qn_gguf_write_data(j->w, packed, (size_t)bytes);
    free(values);
    free(packed);
}

/* The numbers of a model of that architecture. */
static inline qn_hparams tiny_hp(const tiny *t, const qn_arch *arch)
{
#define TINY_OR(field, value) (uint32_t)(t->field ? t->field : (value))
    qn_hparams hp = {.n_layer = TINY_OR(n_layer, 2),
                     .n_embd = TINY_OR(n_embd, 32),
                     .n_head = TINY_OR(n_head, 4),
                     .n_kv_head = TINY_OR(n_kv_head, 2),
                     .n_embd_head_k = TINY_OR(head, 8),
                     .n_embd_head_v = TINY_OR(head, 8),
                     .n_ff = TINY_OR(n_ff, 48),
                     .n_vocab = TINY_OR(n_vocab, 300),
                     .n_ctx_train = TINY_OR(n_ctx, 128),
                     .norm_eps = 1e-5f,
                     .rope_base = 10000};
#undef TINY_OR
    if (t->latent) hp.n_embd_head_k_mla = hp.n_embd_head_v_mla = hp.n_embd_head_k;
    qn__hparams_fill(&hp, arch);
    return hp;
}

static inline qn_status tiny_write(const char *path, const tiny *t, qn_error *err)
{
    static tiny_job job;
    tiny_job *j = &job;
    const char *name = t->arch ? t->arch : "llama";
    const qn_arch *arch = qn__arch_find(name) ? qn__arch_find(name) : qn__arch_find("llama");
    job = (tiny_job){.t = t, .arch = arch, .hp = tiny_hp(t, arch), .random = t->seed + 1};
    const qn_status status = qn_gguf_writer_create(path, &j->w, err);
    if (status != QN_OK) return status;
    if (!t->key || !t->key(j->w, "general.architecture")) qn_gguf_write_str(j->w, "general.architecture", name);
    qn_gguf_write_str(j->w, "general.name", "tiny");
    tiny_hparams(j);
    if (t->extra) t->extra(j->w);
    tiny_tokenizer(j);
    tiny_tensors(j);
    if (qn_gguf_writer_status(j->w, NULL) == QN_OK)
        for (int i = 0; i < j->n_tensors; i++) tiny_data(j, i);
    return qn_gguf_writer_commit(j->w, err);
}

#endif
