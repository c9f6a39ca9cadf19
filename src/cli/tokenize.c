/* SPDX-License-Identifier: MIT */
/* src/cli/tokenize.c -- quern tokenize: text to a JSON array of ids, or ids back to text. Reads only the vocabulary. */
#include "cli/source.h"
#include <quern/text.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TEXT_BYTES ((size_t)1 << 30)

static const cli_usage usage = {
    .command = "tokenize",
    .arguments = "MODEL [TEXT|-]",
    .summary = "Prints the token ids of a text as a JSON array; with --decode, the text of a list of ids.",
    .notes = "The text is an argument or standard input.",
    .examples = "Text to ids:\nquern tokenize model.gguf \"Once upon a time\"\n"
                "And back:\nquern tokenize model.gguf --decode \"[1, 2, 3]\"\n",
    .min_args = 1,
    .max_args = 2,
};

static int encode(const qn_tokenizer *tok, const char *text, size_t len, const qn_tokenize_options *options)
{
    qn_token *ids = NULL;
    size_t n = 0;
    qn_error err;
    if (qn_tokenize(tok, text, len, options, &ids, &n, &err) != QN_OK) return cli_fail_error(&err);
    putchar('[');
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? ", " : "", ids[i]);
    puts("]");
    qn_free(ids);
    return cli_finish_output();
}

static int decode(const qn_tokenizer *tok, const char *list, const qn_detokenize_options *options)
{
    size_t n = 0, len = 0;
    char *text = NULL;
    qn_error err;
    int32_t *ids = cli_parse_tokens(list, &n);
    if (!ids) return CLI_FAILED;
    const qn_status status = qn_detokenize(tok, ids, n, options, &text, &len, &err);
    free(ids);
    if (status != QN_OK) return cli_fail_error(&err);
    fwrite(text, 1, len, stdout);
    qn_free(text);
    return cli_finish_output();
}

int cli_command_tokenize(int argc, char **argv)
{
    bool no_bos = false, no_special = false, back = false;
    const cli_option options[] = {
        {"no-bos", 0, CLI_FLAG, &no_bos, NULL, "add no special token at the ends", 0, 0, NULL},
        {"no-special", 0, CLI_FLAG, &no_special, NULL,
         "treat <|x|> in the text as text; with --decode, hide control tokens", 0, 0, NULL},
        {"decode", 'd', CLI_FLAG, &back, NULL, "the input is token ids; print their text", 0, 0, NULL},
        CLI_STORE_OPTIONS,
    };
    const char *args[2] = {0};
    int n_args = 0;
    int status = cli_parse(&usage, options, CLI_N(options), argc, argv, args, &n_args);
    if (status >= 0) return status;
    const char *text = args[1];
    char *read = NULL;
    size_t len = text ? strlen(text) : 0;
    if (!text && isatty(STDIN_FILENO)) return cli_bad_usage("no text: give it as an argument or on standard input");
    if (!text || strcmp(text, "-") == 0) {
        text = read = cli_read_text("-", MAX_TEXT_BYTES, &len);
        if (!read) return CLI_FAILED;
    }
    qn_gguf *file = NULL;
    qn_tokenizer *tok = NULL;
    qn_error err;
    args[0] = cli_model_path(args[0]);
    if (!args[0]) {
        free(read);
        return CLI_FAILED;
    }
    const qn_status opened = qn_gguf_open(args[0], &(qn_gguf_options){.metadata_only = true}, &file, &err);
    if (opened != QN_OK)
        status = cli_fail_error(&err);
    else if (qn_tokenizer_create(file, &tok, &err) != QN_OK)
        status = cli_fail("%s: %s", args[0], err.text);
    else if (back)
        status = decode(tok, text, &(qn_detokenize_options){.show_special = !no_special});
    else
        status = encode(tok, text, len, &(qn_tokenize_options){.no_bos = no_bos, .no_special = no_special});
    qn_tokenizer_destroy(tok);
    qn_gguf_close(file);
    free(read);
    return status;
}
