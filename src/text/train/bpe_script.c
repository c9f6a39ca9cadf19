/* SPDX-License-Identifier: MIT */
/* src/text/train/bpe_script.c -- the script of a character, asked of PCRE2: one alternative a script, the group that
 * matched says which. A trainer asks once for each different character, so the time of a search through 150
 * alternatives does not matter. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/train/bpe_train.h"
#include "text/utf8.h"

#include <pcre2.h>

/* Groups: 1 for the scripts of Japanese and Chinese, whose texts mix them (0x30FC, the long vowel mark, is Common by
 * itself), 2 for combining marks, then one a row. No group: Common, and what is newer than PCRE2. */
static const char pattern[] = "([\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30FC}])|(\\p{sc:Inherited})"
#define QN_SCRIPT(name) "|(\\p{sc:" #name "})"
#include "text/train/bpe_scripts.def"
#undef QN_SCRIPT
    ;
enum {
    N_GROUPS = 3
#define QN_SCRIPT(name) +1
#include "text/train/bpe_scripts.def"
#undef QN_SCRIPT
};
_Static_assert(N_GROUPS < QN_SCRIPT_SAME, "group numbers fit a byte");

struct qn_scripts {
    pcre2_general_context *memory;
    pcre2_compile_context *context;
    pcre2_code *code;
    pcre2_match_data *match;
};

static void *hook_alloc(PCRE2_SIZE size, void *ctx)
{
    (void)ctx;
    return qn__alloc(size);
}

static void hook_free(void *ptr, void *ctx)
{
    (void)ctx;
    qn__free(ptr);
}

void qn__scripts_destroy(qn_scripts *s)
{
    if (!s) return;
    pcre2_match_data_free(s->match);
    pcre2_code_free(s->code);
    pcre2_compile_context_free(s->context);
    pcre2_general_context_free(s->memory);
    qn__free(s);
}

static qn_status compile(qn_scripts *s, qn_error *err)
{
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR text[120];
    s->memory = pcre2_general_context_create(hook_alloc, hook_free, NULL);
    s->context = s->memory ? pcre2_compile_context_create(s->memory) : NULL;
    if (!s->context) return QN_FAIL(err, nomem, "out of memory: contexts of the table of scripts");
    s->code =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED, &code, &at, s->context);
    if (!s->code && code == PCRE2_ERROR_HEAP_FAILED) return QN_FAIL(err, nomem, "out of memory: the table of scripts");
    if (!s->code) {
        pcre2_get_error_message(code, text, sizeof text);
        return QN_FAIL(err, unsupported, "this build's PCRE2 does not know a script at %zu of their table: %s",
                       (size_t)at, (const char *)text);
    }
    s->match = pcre2_match_data_create_from_pattern(s->code, s->memory);
    return s->match ? QN_OK : QN_FAIL(err, nomem, "out of memory: matching scripts");
}

qn_status qn__scripts_create(qn_scripts **out, qn_error *err)
{
    qn_scripts *s = qn__calloc(1, sizeof *s);
    if (!s) return QN_FAIL_NOMEM(err, sizeof *s);
    const qn_status status = compile(s, err);
    if (status != QN_OK)
        qn__scripts_destroy(s);
    else
        *out = s;
    return status;
}

uint8_t qn__script_of(const qn_scripts *s, uint32_t cp)
{
    char text[4];
    const int n = qn__utf8_encode(cp, text);
    const int rc = pcre2_match(s->code, (PCRE2_SPTR)text, (PCRE2_SIZE)n, 0, PCRE2_NO_UTF_CHECK, s->match, NULL);
    return rc == 3 ? QN_SCRIPT_SAME : rc > 1 ? (uint8_t)(rc - 1) : 0; /* rc is one more than the group that matched */
}
