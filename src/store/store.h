/* SPDX-License-Identifier: MIT */
/* src/store/store.h -- a store being filled. Each kind of store is one function that adds what it finds; whatever is
 * wrong with a model becomes its problem and not an error, so that one bad entry hides no other. */
#ifndef QN_STORE_STORE_H
#define QN_STORE_STORE_H

#include "base/dir.h"
#include "base/error.h"
#include "base/str.h"
#include <quern/store.h>

#define QN_STORE_MAX_MODELS  100000
#define QN_STORE_MAX_FOLDERS 20000 /* that one walk enters */
#define QN_STORE_MAX_ENTRIES 50000 /* of one folder */
#define QN_STORE_MAX_DEPTH   8
#define QN_STORE_TEXT_BYTES  ((size_t)1 << 20)
#define QN_MANIFEST_BYTES    ((size_t)4 << 20)
#define QN_OLLAMA_HOST       "registry.ollama.ai"

/* A model and how it may be called. */
typedef struct qn_found {
    qn_store_model model;
    const char *base, *tag; /* name is base:tag; tag NULL: there is none */
    const char *stem;       /* of the file's name, without parts and .gguf; NULL: the file has no name of its own */
    const char *full;       /* Ollama's: HOST/NAMESPACE/NAME */
    int rank;               /* of the place it was found in: the first one hides the others */
    uint64_t device, inode; /* of path: the same file may be found twice */
} qn_found;

struct qn_store {
    qn_arena arena;
    qn_found *models; /* [n] */
    size_t n, cap;
};

typedef struct qn_scan {
    qn_store *store;
    qn_arena *arena;  /* the store's */
    qn_arena scratch; /* listings of folders: given back when a folder is left */
    const qn_store_places *places;
    qn_store_kind kind;
    const char *root; /* of the place at hand */
    int rank;
    size_t n_folders;
    qn_error *err;
} qn_scan;

/* Adds a copy; strings of `f` must be the arena's. nomem, or QN_OK: beyond the limit nothing is added. */
qn_status qn__store_add(qn_scan *s, const qn_found *f);
/* The same for what has nothing but a name, a path and a problem. */
qn_status qn__store_add_problem(qn_scan *s, const char *name, const char *path, const char *fmt, ...) QN_PRINTF(4, 5);
/* folder/name in the store's arena; NULL when memory runs out. */
char *qn__store_path(qn_scan *s, const char *folder, const char *name);
char *qn__store_text(qn_scan *s, const char *fmt, ...) QN_PRINTF(2, 3);
/* "name" made safe to print, in the arena. */
char *qn__store_quote(qn_scan *s, const char *name);
/* A whole small file in an arena, terminated; refuses anything but a regular file, without waiting for it. */
qn_status qn__store_read(const char *path, size_t most, qn_arena *arena, char **out, size_t *n, qn_error *err);

/* The first four bytes of a regular file; false when it has fewer or cannot be read. */
bool qn__file_begins(const char *path, char out[4]);

/* ---- files (files.c): GGUF files in a tree of folders ---- */

/* One model: a file, or all parts of a split one. */
typedef struct qn_gguf_seen {
    const char *path;   /* of the first part */
    const char *folder; /* between the walk's root and the file: "" or "a/b"; raw */
    const char *stem;   /* raw */
    uint64_t bytes, device, inode;
    int n_parts;
    bool partial;        /* by its name: a download that goes on */
    const char *problem; /* or NULL */
} qn_gguf_seen;
typedef qn_status (*qn_gguf_seen_fn)(qn_scan *s, void *ctx, const qn_gguf_seen *file);
/* Every GGUF file under `root`, links to folders followed unless `inside` is given: then links must lead to something
 * under that path, which has no links in it. A root that is not there has none. */
qn_status qn__walk_ggufs(qn_scan *s, const char *root, const char *inside, int depth, qn_gguf_seen_fn fn, void *ctx);

/* Adds a file as BASE:QUANT, or as BASE:STEM where its name ends with no quantization. base: raw, whole where quant is
 * not wanted. */
qn_status qn__store_add_file(qn_scan *s, const qn_gguf_seen *file, const char *base, bool quant);

/* ---- names (model_name.c) ---- */

/* "Q4_K_M" of "model-Q4_K_M" or "model.q4_k_m", "UD-Q4_K_XL" with its "UD-"; false when the name ends with none. */
bool qn__quant_of_stem(const char *stem, char out[32]);
/* How well a name as typed fits: 0 not at all, 2 exactly, 1 with something left out. */
int qn__name_fits(const qn_found *f, const char *name);
/* Made of letters, digits, '_', '-', '.' and ':' and beginning with one of the first three: never "..". */
bool qn__plain_name(const char *name, size_t most);

/* ---- Ollama's manifests (manifest.c) ---- */

typedef struct qn_layer {
    const char *type; /* "model", "adapter" ..: what stands behind application/vnd.ollama.image. */
    char hash[65];    /* of the blob, lower case; "" where the digest is none */
    uint64_t bytes;
} qn_layer;
typedef struct qn_manifest {
    qn_layer *layers; /* [n] */
    size_t n;
} qn_manifest;
/* Layers of other media types are left out. label: for messages. */
qn_status qn__manifest_parse(const char *text, size_t n, const char *label, qn_arena *arena, qn_manifest *out,
                             qn_error *err);

/* A JSON object of options, as qn_store_read_params. */
qn_status qn__params_parse(const char *text, size_t n, qn_store_param_fn param, void *ctx, qn_error *err);

#define QN_STORE_SCAN(name, text) qn_status qn__scan_##name(qn_scan *s);
QN_STORE_ROWS(QN_STORE_SCAN)
#undef QN_STORE_SCAN

#endif
