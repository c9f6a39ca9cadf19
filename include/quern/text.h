/* SPDX-License-Identifier: MIT */
/* quern/text.h -- tokenizers, their training, and samplers. No tensors here: ids in, text out, logits in, an id out. */
#ifndef QUERN_TEXT_H
#define QUERN_TEXT_H

#include <quern/base.h>
#include <quern/gguf.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t qn_token;
#define QN_TOKEN_NONE (-1)

/* ---- tokenizer ------------------------------------------------------------------------------- */

/* A loaded vocabulary: immutable, may be shared by any number of threads. Kinds (tokenizer.ggml.model): llama
 * (SentencePiece BPE by scores), t5 (SentencePiece unigram), gpt2 (byte-level BPE with the pre-tokenizer that
 * tokenizer.ggml.pre names) and its relatives gemma4 and whitespace (pieces in plain UTF-8), bert (WordPiece), rwkv
 * (the longest piece at each place). An unknown kind or pre-tokenizer is unsupported, with its name and known ones. */
typedef struct qn_tokenizer qn_tokenizer;

/* Reads the tokenizer.* keys of an open file, which may be closed afterwards. format when ids, scores, types or merges
 * don't fit each other (the message names key and index). */
QN_API qn_status qn_tokenizer_create(const qn_gguf *file, qn_tokenizer **out, qn_error *err);
/* Whether this build knows the file's kind of tokenizer and its pre-tokenizer; reads no vocabulary. */
QN_API qn_status qn_tokenizer_check(const qn_gguf *file, qn_error *err);
QN_API void qn_tokenizer_destroy(qn_tokenizer *tok);

/* QN_TOKEN_KIND(name, id in tokenizer.ggml.token_type) */
/* clang-format off */
#define QN_TOKEN_KIND_ROWS(QN_TOKEN_KIND) \
    QN_TOKEN_KIND(normal, 1) QN_TOKEN_KIND(unknown, 2) QN_TOKEN_KIND(control, 3) \
    QN_TOKEN_KIND(user,   4) QN_TOKEN_KIND(unused,  5) QN_TOKEN_KIND(byte,    6)
/* clang-format on */
typedef enum qn_token_kind {
#define QN_TOKEN_KIND_ENUM(name, id) QN_TOKEN_##name = id,
    QN_TOKEN_KIND_ROWS(QN_TOKEN_KIND_ENUM)
#undef QN_TOKEN_KIND_ENUM
} qn_token_kind;

QN_API int32_t qn_tokenizer_n_tokens(const qn_tokenizer *tok);
QN_API const char *qn_tokenizer_model(const qn_tokenizer *tok); /* "llama", "gpt2", "bert", "t5" ... */
QN_API const char *qn_tokenizer_pre(const qn_tokenizer *tok);   /* "" where it has none */
/* The piece as the file spells it (not terminated by meaning: use the length; bytes as <0xNN>). NULL when out of range.
 */
QN_API const char *qn_tokenizer_piece(const qn_tokenizer *tok, qn_token id, size_t *len);
QN_API qn_token_kind qn_tokenizer_kind(const qn_tokenizer *tok, qn_token id);
QN_API float qn_tokenizer_score(const qn_tokenizer *tok, qn_token id);
QN_API qn_token qn_tokenizer_find(const qn_tokenizer *tok, const char *piece, size_t len); /* QN_TOKEN_NONE */
/* QN_TOKEN_NONE where the vocabulary has none. is_eog: ends a generation (eos, eot, and the well-known end-of-turn
 * pieces). */
QN_API qn_token qn_tokenizer_bos(const qn_tokenizer *tok);
QN_API qn_token qn_tokenizer_eos(const qn_tokenizer *tok);
QN_API qn_token qn_tokenizer_eot(const qn_tokenizer *tok);
QN_API qn_token qn_tokenizer_unk(const qn_tokenizer *tok);
QN_API qn_token qn_tokenizer_sep(const qn_tokenizer *tok);
QN_API qn_token qn_tokenizer_pad(const qn_tokenizer *tok);
QN_API qn_token qn_tokenizer_nl(const qn_tokenizer *tok); /* what a newline becomes */
/* Tokens around what a model fills in: ROW(NAME). prefix, suffix and middle stand before the three parts, repo before
 * the name of a repository, file before that of a file. */
#define QN_FIM_ROWS(ROW) ROW(prefix) ROW(suffix) ROW(middle) ROW(repo) ROW(file)
typedef enum qn_fim {
#define QN_FIM_ENUM(name) QN_FIM_##name,
    QN_FIM_ROWS(QN_FIM_ENUM)
#undef QN_FIM_ENUM
} qn_fim;
QN_API qn_token qn_tokenizer_fim(const qn_tokenizer *tok, qn_fim which); /* QN_TOKEN_NONE */
QN_API bool qn_tokenizer_is_eog(const qn_tokenizer *tok, qn_token id);
QN_API bool qn_tokenizer_add_bos(const qn_tokenizer *tok); /* what the file asks for */
QN_API bool qn_tokenizer_add_eos(const qn_tokenizer *tok);

typedef struct qn_span {
    size_t begin, end; /* bytes [begin, end) of a text */
} qn_span;

typedef struct qn_tokenize_options {
    bool no_bos;     /* adds no special token at either end, whatever the file asks for */
    bool no_special; /* treats the text of control tokens in the input as plain text */
    /* The same for parts of the text: control tokens, and user-defined ones that are marks (<..> and [..]), are found
     * only outside of these spans, which ascend and don't overlap; one that a span touches is plain text. The text is
     * tokenized as a whole all the same. What came from a user belongs in a span (quern/chat.h makes them). */
    const qn_span *plain;
    size_t n_plain;
} qn_tokenize_options;

/* `*out` is a new array of *n ids, freed with qn_free (never NULL on success, even for *n == 0). Any bytes are
 * accepted: invalid UTF-8 goes through byte fall-back or as replacement characters, as the kind's reference does.
 * Linear or n log n in the length of the text, which is 512 MiB at most (limit). Thread-safe on a shared tokenizer. */
QN_API qn_status qn_tokenize(const qn_tokenizer *tok, const char *text, size_t len, const qn_tokenize_options *options,
                             qn_token **out, size_t *n, qn_error *err);

typedef struct qn_detokenize_options {
    bool show_special; /* control tokens appear as their text; otherwise they give nothing */
    bool keep_prefix;  /* keeps the space that SentencePiece and WordPiece put before the first word */
} qn_detokenize_options;

/* Terminated text of `*len` bytes, freed with qn_free: what the tokens stand for, be it valid UTF-8 or not. WordPiece
 * text is closed up by rule (no space before . , ! ? and around apostrophes). invalid for an id out of range. */
QN_API qn_status qn_detokenize(const qn_tokenizer *tok, const qn_token *ids, size_t n,
                               const qn_detokenize_options *options, char **out, size_t *len, qn_error *err);

/* Text as it comes, token by token: what a push returns is always whole UTF-8 sequences; the bytes of an unfinished one
 * wait for the next push, a broken one becomes U+FFFD. The caller's storage; init with zeroes. */
typedef struct qn_detok {
    unsigned char pending[8];
    int n_pending;
    bool started;
    qn_detokenize_options options;
} qn_detok;
/* Writes up to `size` bytes to buf and returns their number; a piece never needs more than qn_tokenizer_max_piece(tok)
 * + 8. -1 for an id out of range or a buffer too small (nothing is consumed then). */
QN_API int64_t qn_detok_push(qn_detok *d, const qn_tokenizer *tok, qn_token id, char *buf, size_t size);
/* What is still pending, as replacement characters (U+FFFD); at the end of a generation. */
QN_API int64_t qn_detok_finish(qn_detok *d, char *buf, size_t size);
QN_API size_t qn_tokenizer_max_piece(const qn_tokenizer *tok); /* bytes, U+FFFD for broken ones included */

/* ---- training a vocabulary ------------------------------------------------------------------- */

/* A vocabulary in the form that GGUF files and tokenizers take: "llama", SentencePiece BPE by scores. */
typedef struct qn_vocab {
    int32_t n_tokens;
    const qn_gguf_str *pieces; /* [n_tokens] terminated, too */
    const float *scores;       /* [n_tokens] minus the rank; 0 for what is no text */
    const int32_t *kinds;      /* [n_tokens] qn_token_kind */
    qn_token unk, bos, eos;    /* 0, 1, and 2 or a special token */
    bool add_space_prefix;
    int32_t n_merges, n_chars;  /* pieces that are joined from others; pieces that are one character */
    uint64_t n_seen, n_covered; /* characters of the text, and those of them that have a piece */
} qn_vocab;
QN_API void qn_vocab_destroy(qn_vocab *vocab);
/* Declares the tokenizer.* keys. Errors stick to the writer. */
QN_API void qn_vocab_write(const qn_vocab *vocab, qn_gguf_writer *w);
/* The tokenizer that a file with this vocabulary gives. */
QN_API qn_status qn_vocab_tokenizer(const qn_vocab *vocab, qn_tokenizer **out, qn_error *err);

/* A token of the caller's own: control (found only in text that is trusted, and not shown) or user (found in any text,
 * and shown). */
typedef struct qn_special_token {
    const char *text; /* UTF-8 without white space, at most 64 bytes */
    qn_token_kind kind;
} qn_special_token;

/* SentencePiece's BPE trainer: characters first, then the most frequent pair of pieces is joined, again and again; ties
 * go to the shorter, then to the lower in byte order. Tokens are <unk> <s> </s>, special tokens, 256 bytes
 * <0x00> ... <0xFF>, the joined pieces, the characters. No piece crosses spaces or newlines or mixes scripts. The same
 * text gives the same pieces, in whatever portions and order it is added (as long as no word has to be forgotten). All
 * zero is SentencePiece's default but for the bytes. */
typedef struct qn_bpe_train_options {
    /* [4096] of the whole vocabulary, at most 2^20; fewer when the text has no more pairs */
    int32_t n_tokens;
    /* [0.9995] part of the text that characters with a piece of their own cover, up to 1 */
    double character_coverage;
    int32_t max_piece;     /* [16] characters, at most 256 */
    bool no_byte_fallback; /* without the 256: what no piece covers is <unk> */
    bool no_space_prefix;  /* does not put a space before a text */
    bool split_digits;     /* each digit by itself */
    bool join_numbers;     /* digits may join letters of any script */
    bool join_scripts;
    bool whole_text; /* [each line is a text, as in SentencePiece] newlines are part of the text: for models that see
                      * many lines at once. A newline is then a piece, and only the first line gets the space before it
                      */
    /* [n_special] with ids from 3 on; borrowed until the training has run. Texts are given without them: cut where one
     * stands. */
    const qn_special_token *special;
    int32_t n_special;
    const char *eos; /* [</s>] the one of them that ends a text */
    /* [512 MiB] memory for different words while text is added; beyond it the rarest are forgotten */
    size_t max_word_bytes;
    qn_progress_fn progress; /* of joining: pieces so far and in all; false ends with cancelled */
    void *progress_ctx;
} qn_bpe_train_options;

/* The whole in one call: text[0 .. n_texts) are the texts; any bytes, what is no UTF-8 separates words and is left out.
 */
QN_API qn_status qn_bpe_train(const qn_bpe_train_options *options, const qn_gguf_str *texts, size_t n_texts,
                              qn_vocab **out, qn_error *err);
/* The same in steps: text that comes in portions, each a whole text (or whole lines), or as files, which are mapped. */
typedef struct qn_bpe_trainer qn_bpe_trainer;
QN_API qn_status qn_bpe_trainer_create(const qn_bpe_train_options *options, qn_bpe_trainer **out, qn_error *err);
QN_API void qn_bpe_trainer_destroy(qn_bpe_trainer *trainer);
QN_API qn_status qn_bpe_trainer_add(qn_bpe_trainer *trainer, const char *text, size_t len, qn_error *err);
QN_API qn_status qn_bpe_trainer_add_file(qn_bpe_trainer *trainer, const char *path, qn_error *err);
/* Trains on what was added so far. The vocabulary does not need the trainer any more. */
QN_API qn_status qn_bpe_trainer_run(const qn_bpe_trainer *trainer, qn_vocab **out, qn_error *err);

/* ---- sampler --------------------------------------------------------------------------------- */

/* QN_SAMPLER(name, "letter in an order string", "what it does"): the chain's links. The default order is that of the
 * rows up to temperature: penalties, dry, top_n_sigma, top_k, typical_p, top_p, min_p, xtc, temperature; logit bias and
 * a mask come before all, the draw after all. Mirostat replaces everything but bias, penalties and temperature;
 * greedy, everything but bias, penalties and dry. Only a bias of -INFINITY bans: penalties stop short of it. */
/* clang-format off */
#define QN_SAMPLER_ROWS(QN_SAMPLER) \
    QN_SAMPLER(penalties,   'e', \
        "repetition (Keskar et al. 2019), frequency and presence penalties over the last tokens") \
    QN_SAMPLER(dry,         'd', "DRY: penalises tokens that would continue a repeated sequence") \
    QN_SAMPLER(top_n_sigma, 's', "keeps logits within n standard deviations of the largest (Tang et al. 2024)") \
    QN_SAMPLER(top_k,       'k', "keeps the k most likely") \
    QN_SAMPLER(typical_p,   'y', "locally typical sampling (Meister et al. 2022)") \
    QN_SAMPLER(top_p,       'p', "nucleus: the smallest set with probability p (Holtzman et al. 2019)") \
    QN_SAMPLER(min_p,       'm', "keeps tokens with at least p times the largest probability") \
    QN_SAMPLER(xtc,         'x', "exclude top choices: drops all but the least likely above a threshold, by chance") \
    QN_SAMPLER(temperature, 't', "divides logits; dynamic when a range is set")
/* clang-format on */
typedef enum qn_sampler_link {
/* clang-format off */
#define QN_SAMPLER_ENUM(name, letter, text) QN_SAMPLER_##name,
    QN_SAMPLER_ROWS(QN_SAMPLER_ENUM)
#undef QN_SAMPLER_ENUM
    QN_SAMPLER_COUNT
    /* clang-format on */
} qn_sampler_link;

/* The letter of a row's name of len bytes, in which - and _ are the same, or of one of llama.cpp's other names for it
 * ("typ_p", "temp"), or of the letter itself; 0: there is none. */
QN_API char qn_sampler_letter(const char *name, size_t len);

typedef struct qn_logit_bias {
    qn_token token;
    float bias;
} qn_logit_bias;

/* Room for the candidates of a sample call: 28 bytes a token of the vocabulary. Samplers that are used by one thread at
 * a time may share one, and are created and destroyed on any; what is left in it is of the last call alone. What DRY's
 * breakers are in a vocabulary is found once for those that share. */
typedef struct qn_sampler_scratch qn_sampler_scratch;
QN_API qn_status qn_sampler_scratch_create(int32_t n_vocab, qn_sampler_scratch **out, qn_error *err);
QN_API void qn_sampler_scratch_destroy(qn_sampler_scratch *scratch); /* after all samplers that were given it */

/* All zero is the default: the values in brackets. To switch a link off explicitly, use the value after "off".
 * Out-of-range values are invalid, with the name, the value and the range. */
typedef struct qn_sampler_params {
    /* [0: drawn from the operating system, see qn_sampler_seed] of xoshiro256**, by splitmix64 */
    uint64_t seed;
    bool greedy;                     /* temperature 0: the largest logit, ties to the lowest id */
    float temperature;               /* [0.8] > 0; greedy is said with `greedy` */
    float dynatemp_range;            /* [0] temperature moves within +- range by entropy */
    float dynatemp_exponent;         /* [1] */
    int32_t top_k;                   /* [40], off -1 */
    float top_p;                     /* [0.95], off 1 */
    float min_p;                     /* [0.05], off -1 */
    float typical_p;                 /* [1 = off] */
    float top_n_sigma;               /* [off], > 0 */
    float xtc_probability;           /* [0 = off] */
    float xtc_threshold;             /* [0.1] */
    int32_t min_keep;                /* [1] */
    int32_t penalty_last_n;          /* [64], -1: the whole context, off -2 */
    float repeat_penalty;            /* [1 = off] */
    float frequency_penalty;         /* [0] */
    float presence_penalty;          /* [0] */
    float dry_multiplier;            /* [0 = off] */
    float dry_base;                  /* [1.75] */
    int32_t dry_allowed_length;      /* [2] */
    int32_t dry_last_n;              /* [-1: the whole context] */
    const char *const *dry_breakers; /* [newline, colon, quote, asterisk] NULL-terminated list of at most 256 strings,
                                      * each of 1 to 40 bytes; an empty list is none */
    int mirostat;                    /* [0 = off] 1 or 2 (Basu et al. 2021) */
    float mirostat_tau;              /* [5] */
    float mirostat_eta;              /* [0.1] */
    const qn_logit_bias *logit_bias; /* n_logit_bias entries, copied; -INFINITY bans a token */
    int32_t n_logit_bias;
    const char *order; /* letters of QN_SAMPLER_ROWS, [as above]; a letter may not come twice */
    int32_t n_history; /* [4096, or the larger of the two last_n] how many past tokens it remembers for penalties and
                        * DRY: what "the whole context" means to them; at most 2^20 */
    qn_sampler_scratch *scratch; /* [its own] shared with other samplers of the same n_vocab */
} qn_sampler_params;

typedef struct qn_sampler qn_sampler;

/* `params` may be NULL for the defaults. `tok` (may be NULL: DRY has no breakers then) is used for dry_breakers only,
 * in this call. n_vocab is the length of the logits to come, at most 2^24. Allocates all it will ever need: a scratch
 * unless it is given one, 13 bytes a token of the vocabulary with penalties and DRY, and the history. */
QN_API qn_status qn_sampler_create(const qn_sampler_params *params, int32_t n_vocab, const qn_tokenizer *tok,
                                   qn_sampler **out, qn_error *err);
QN_API void qn_sampler_destroy(qn_sampler *s);
QN_API uint64_t qn_sampler_seed(const qn_sampler *s); /* the one in use, to repeat a run */

/* Chooses a token from n_vocab logits (not modified); does not accept it. NaN logits count as -INFINITY, +INFINITY as
 * the largest float; when nothing is left (all -INFINITY), the result is invalid. Same seed, same logits, same ids on
 * every machine of one float format. */
QN_API qn_status qn_sampler_sample(qn_sampler *s, const float *logits, qn_token *out, qn_error *err);
/* The same among the tokens whose bit is set: token t is bit t % 32 of mask[t / 32]. NULL: all. It comes before every
 * link, bias included; quern/grammar.h makes such masks. */
QN_API qn_status qn_sampler_sample_masked(qn_sampler *s, const float *logits, const uint32_t *mask, qn_token *out,
                                          qn_error *err);
/* Tells the sampler that a token became part of the context (prompt tokens too, where penalties should see them).
 * Mirostat learns here, when the token is the one chosen last. Ids outside the vocabulary are ignored. */
QN_API void qn_sampler_accept(qn_sampler *s, qn_token token);
QN_API void qn_sampler_reset(qn_sampler *s); /* forgets the history, restarts the random stream */
/* The candidates left by the last sample call, most likely first (ties: lowest id), probabilities summing to 1; `logit`
 * is what the links made of it. Borrowed until the next sample call, of any sampler where the scratch is shared; NULL
 * and 0 before the first, after a failed one, and once another sampler took the scratch. */
typedef struct qn_candidate {
    qn_token token;
    float logit, p;
} qn_candidate;
QN_API const qn_candidate *qn_sampler_candidates(const qn_sampler *s, size_t *n);

#ifdef __cplusplus
}
#endif
#endif
