/* SPDX-License-Identifier: MIT */
/* quern/store.h -- models that other programs have downloaded to this machine, found and named. Nothing is downloaded.
 *
 *     qn_store *store; const qn_store_model *model; qn_engine *engine;
 *     qn_store_open(&(qn_store_places){.home = getenv("HOME")}, &store, &err);
 *     qn_store_find(store, "llama3.2:1b", &model, &err);
 *     qn_engine_open(model->path, NULL, &engine, &err);
 *
 * Folders, links and manifests are hostile until checked: names become paths only when they are made of what the
 * program in question allows, manifests are read up to 4 MiB, a folder is entered once, and nothing but a regular file
 * is opened. What is there and cannot be used is listed too, with the reason. */
#ifndef QUERN_STORE_H
#define QUERN_STORE_H

#include <quern/base.h>
#include <quern/gguf.h>

#ifdef __cplusplus
extern "C" {
#endif

/* QN_STORE(name, "whose it is"); row order is the order in which they are listed. */
/* clang-format off */
#define QN_STORE_ROWS(QN_STORE) \
    QN_STORE(folder,      "a folder of GGUF files: NAME, FOLDER/NAME") \
    QN_STORE(ollama,      "Ollama: NAME:TAG, NAMESPACE/NAME:TAG, HOST/NAMESPACE/NAME:TAG") \
    QN_STORE(huggingface, "the Hugging Face cache, llama.cpp's too: ORG/REPO:QUANT") \
    QN_STORE(lmstudio,    "LM Studio: PUBLISHER/REPO:QUANT") \
    QN_STORE(llamacpp,    "the cache of llama.cpp before it took Hugging Face's: ORG/REPO:QUANT")
/* clang-format on */
typedef enum qn_store_kind {
/* clang-format off */
#define QN_STORE_ENUM(name, text) QN_STORE_##name,
    QN_STORE_ROWS(QN_STORE_ENUM)
#undef QN_STORE_ENUM
    QN_STORE_COUNT
    /* clang-format on */
} qn_store_kind;
QN_API const char *qn_store_kind_name(qn_store_kind kind);

/* Where to look. A place that is NULL or does not exist is passed over. Strings are copied. */
typedef struct qn_store_places {
    const char *const *folders; /* [n_folders] of GGUF files, eight levels deep */
    int n_folders;
    const char *home;          /* $HOME: the usual place of every store lies under it */
    const char *cache_home;    /* $XDG_CACHE_HOME; NULL: home/.cache */
    const char *ollama_models; /* $OLLAMA_MODELS, before home/.ollama/models */
    const char *ollama_system; /* after it: where Ollama's service keeps its models */
    const char *hf_hub_cache;  /* $HF_HUB_CACHE, before hf_home/hub and cache_home/huggingface/hub */
    const char *hf_home;       /* $HF_HOME */
    const char *llama_cache;   /* $LLAMA_CACHE, before cache_home/llama.cpp */
} qn_store_places;

typedef struct qn_store qn_store;
/* One that can be opened, or one that is there and why it cannot. Strings are the store's. */
typedef struct qn_store_model {
    qn_store_kind store;
    const char *name;            /* as qn_store_find takes it; control bytes and what is no UTF-8 are shown as \xNN */
    const char *path;            /* of its first file, for qn_engine_open; where there is a problem, of what has it */
    uint64_t bytes;              /* of all its files that are there */
    int n_parts;                 /* files that it is split over */
    const char *problem;         /* one line; NULL: none that shows without opening it */
    const char *system;          /* path of a system prompt (Ollama), or NULL */
    const char *params;          /* path of options (Ollama; qn_store_read_params), or NULL */
    const char *const *adapters; /* [n_adapters] paths of low-rank adapters (Ollama) */
    int n_adapters;
} qn_store_model;

/* Looks into all places. What is wrong with one model or one folder becomes an entry with a problem, so that only nomem
 * is left. Reads folders and manifests, no model. */
QN_API qn_status qn_store_open(const qn_store_places *places, qn_store **out, qn_error *err);
QN_API void qn_store_close(qn_store *store);
/* By store, then by name; 100,000 at most. */
QN_API size_t qn_store_n_models(const qn_store *store);
QN_API const qn_store_model *qn_store_get(const qn_store *store, size_t index);
/* The one model that is meant by a name as QN_STORE_ROWS shows them, whatever its case. A part in the front or back may
 * be left out while one model is left: the host and "library", the tag "latest", the quantization, the publisher.
 * invalid with the candidates where several are meant, io with the reason where it cannot be used, and state where
 * there is none. */
QN_API qn_status qn_store_find(const qn_store *store, const char *name, const qn_store_model **out, qn_error *err);

/* The system prompt; *out is terminated and freed with qn_free. NULL where the model has none. At most 1 MiB. */
QN_API qn_status qn_store_read_system(const qn_store_model *model, char **out, qn_error *err);
/* Calls `param` with each option of the model, by Ollama's names ("temperature", "num_ctx", "stop"): a number as it is
 * written, true or false, or text; once for each element of a list. At most 1 MiB of JSON. */
typedef void (*qn_store_param_fn)(void *ctx, const char *name, const char *value);
QN_API qn_status qn_store_read_params(const qn_store_model *model, qn_store_param_fn param, void *ctx, qn_error *err);

/* What a file's metadata says of its model. Text is cut to its field and safe to print; "" where there is none. */
typedef struct qn_model_facts {
    char kind[16]; /* general.type: "model", "adapter", "mmproj" .. */
    char name[128], arch[64], license[128];
    char type[24];      /* of the weights, as llama.cpp's users name it: "Q4_K_M" */
    char tokenizer[32]; /* tokenizer.ggml.model */
    uint64_t n_params;
    uint64_t n_ctx_train, n_layer, n_embd, n_head, n_kv_head, n_vocab, n_expert; /* 0: not said */
} qn_model_facts;
QN_API void qn_model_read_facts(const qn_gguf *file, qn_model_facts *out);

#ifdef __cplusplus
}
#endif
#endif
