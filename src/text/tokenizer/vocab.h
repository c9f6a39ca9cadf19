/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/vocab.h -- what a loaded tokenizer is. Everything here is written while qn_tokenizer_create runs
 * and never again (but for token_trie, which is made once), so any number of threads may read it; what one call needs
 * to write lives in a qn_encoder (encoder.h).
 *
 * What always holds after loading: every id stored here is QN_TOKEN_NONE or in [0, n_tokens); no two pieces are equal;
 * no piece is empty; memory is linear in the size of the file's tokenizer keys. */
#ifndef QN_TEXT_VOCAB_H
#define QN_TEXT_VOCAB_H

#include <quern/text.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

/* A byte offset has 31 bits after the worst growth (a space becomes 3 bytes), hence this limit on one text. */
#define QN_TEXT_MAX_BYTES ((size_t)512 << 20)

/* QN_SPECIAL(name, "key after tokenizer.ggml.", "older key"): the roles that a file can give to a token. */
/* clang-format off */
#define QN_SPECIAL_ROWS(QN_SPECIAL) \
    QN_SPECIAL(bos,     "bos_token_id",       "cls_token_id")    QN_SPECIAL(eos,     "eos_token_id",     "") \
    QN_SPECIAL(eot,     "eot_token_id",       "")                QN_SPECIAL(eom,     "eom_token_id",     "") \
    QN_SPECIAL(unk,     "unknown_token_id",   "")                QN_SPECIAL(sep,     "seperator_token_id", "") \
    QN_SPECIAL(pad,     "padding_token_id",   "")                QN_SPECIAL(mask,    "mask_token_id",    "") \
    QN_SPECIAL(fim_pre, "fim_pre_token_id",   "prefix_token_id") \
    QN_SPECIAL(fim_suf, "fim_suf_token_id", "suffix_token_id") \
    QN_SPECIAL(fim_mid, "fim_mid_token_id",   "middle_token_id") QN_SPECIAL(fim_pad, "fim_pad_token_id", "") \
    QN_SPECIAL(fim_rep, "fim_rep_token_id",   "")                QN_SPECIAL(fim_sep, "fim_sep_token_id", "")
/* clang-format on */
typedef enum qn_special {
/* clang-format off */
#define QN_SPECIAL_ENUM(name, key, older) QN_SPECIAL_##name,
    QN_SPECIAL_ROWS(QN_SPECIAL_ENUM)
#undef QN_SPECIAL_ENUM
    QN_SPECIAL_COUNT
    /* clang-format on */
} qn_special;

/* The kind of a token whose type in the file is 0 (undefined): it is never found in text by kind and gives no text. */
#define QN_KIND_UNDEFINED ((qn_token_kind)0)

typedef struct qn_piece {
    const char *text; /* in the arena, terminated */
    uint32_t len;
    float score;
    uint8_t kind;        /* qn_token_kind */
    bool eog;            /* ends a generation */
    bool lstrip, rstrip; /* as a special token it swallows the white space before or after it */
} qn_piece;

struct qn_model_row; /* models.h: what a value of tokenizer.ggml.model means */
struct qn_pretok;    /* pretok.h */
struct qn_pretok_row;
struct qn_merges;  /* bpe.c */
struct qn_unigram; /* unigram.c */
struct qn_trie;    /* trie.h */

struct qn_tokenizer {
    qn_arena arena; /* holds this struct too */
    uint64_t id;    /* no other tokenizer's, ever */
    const struct qn_model_row *model;
    int32_t n_tokens;
    qn_piece *pieces; /* [n_tokens] */
    uint32_t *slots;  /* hash of piece -> id + 1; open addressing, size a power of two */
    uint32_t slot_mask;
    size_t max_len;    /* of a piece, in bytes */
    size_t max_output; /* what one qn_detok_push may write, pending bytes aside */

    const char *pre; /* "" where the kind has none */
    qn_token special[QN_SPECIAL_COUNT];
    qn_token nl;
    bool add_bos, add_eos, add_sep;
    bool add_space_prefix, squeeze_spaces;
    bool strip_first; /* the first space of a detokenized text comes from the tokenizer, not from the text */
    bool words_apart; /* no piece reaches from one word into the next (spm.c) */
    bool lowercase, strip_accents;
    qn_token byte_token[256]; /* what a byte that no piece covers becomes; QN_TOKEN_NONE: nothing */

    qn_token *parsed; /* [n_parsed] tokens looked for in raw text, longest first, then by id */
    int32_t n_parsed;

    const struct qn_pretok_row *pretok_row; /* byte-level BPE */
    struct qn_pretok *pretok;
    struct qn_merges *merges;
    struct qn_trie *trie; /* pieces, for kinds that look for the longest */
    struct qn_unigram *unigram;
    _Atomic(struct qn_token_trie *) token_trie; /* made when a grammar first asks (text/grammar/token_trie.h); NULL */
};

static inline bool qn__id_ok(const qn_tokenizer *tok, qn_token id) { return id >= 0 && id < tok->n_tokens; }

/* Reads tokens, scores, types, special ids and flags into a tok whose arena and model are set. */
qn_status qn__vocab_load(qn_tokenizer *tok, const qn_gguf *file, qn_error *err);
qn_token qn__vocab_find(const qn_tokenizer *tok, const char *piece, size_t len);
/* The same without marks: what a stretch of text may become by itself. */
qn_token qn__vocab_find_text(const qn_tokenizer *tok, const char *piece, size_t len);
/* A control token, or a user-defined one such as <think> or [INST], which is as good as one to a model. User-defined
 * pieces that are only text, such as runs of spaces, are none: or a text's ids would not be the same everywhere. */
bool qn__is_mark(const qn_piece *piece);
/* known.c: roles by well-known spellings, what ends a generation, kinds put right; then the list of parsed tokens. */
qn_status qn__vocab_detect(qn_tokenizer *tok, const qn_gguf *file, qn_error *err);
/* Gives byte_token its <0xNN> tokens, or the byte itself as a piece; `otherwise` where there is neither. */
void qn__vocab_byte_tokens(qn_tokenizer *tok, qn_token otherwise);
/* The value of a piece of the form <0xNN>; -1 for others. */
int qn__byte_of_piece(const char *text, size_t len);

/* Optional keys; *out stays when the key is absent. */
qn_status qn__key_bool(const qn_gguf *file, const char *key, bool *out, qn_error *err);
/* Terminated copy in the arena; NULL in *out when absent. */
qn_status qn__key_str(qn_tokenizer *tok, const qn_gguf *file, const char *key, const char **out, qn_error *err);
/* Where an entry of an array is, for messages; indices and offsets are printed alike everywhere. */
#define QN_ENTRY             "%s at offset %llu, entry %llu: "
#define QN_ENTRY_ARGS(kv, i) (kv)->key, (unsigned long long)(kv)->offset, (unsigned long long)(i)
/* An array of strings or numbers that must be there (or may be absent: *kv NULL). */
qn_status qn__key_array(const qn_gguf *file, const char *key, bool required, const qn_gguf_kv **kv, qn_error *err);

#endif
