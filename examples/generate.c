/* SPDX-License-Identifier: MIT */
/* generate.c -- a complete generation program. Build against the installed library:
 *     cc generate.c -o generate $(pkg-config --cflags --libs quern) && ./generate MODEL.gguf "Once upon a time" 100 */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qn_error err;
#define CHECK(call) \
    if ((call) != QN_OK) { \
        fprintf(stderr, "%s\n", err.text); \
        return 1; \
    }

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL.gguf PROMPT [TOKENS]\n", argv[0]);
        return 2;
    }
    int n_predict = argc > 3 ? atoi(argv[3]) : 100;

    qn_engine *engine;
    qn_session *session;
    qn_sampler *sampler;
    qn_token *prompt, token;
    size_t n_prompt;
    CHECK(qn_engine_open(argv[1], NULL, &engine, &err));
    const qn_tokenizer *tok = qn_engine_tokenizer(engine);
    CHECK(qn_session_create(engine, NULL, &session, &err));
    CHECK(qn_sampler_create(&(qn_sampler_params){.greedy = true}, qn_tokenizer_n_tokens(tok), tok, &sampler, &err));
    CHECK(qn_tokenize(tok, argv[2], strlen(argv[2]), NULL, &prompt, &n_prompt, &err));
    CHECK(qn_session_feed(session, 0, prompt, n_prompt, &err));

    qn_detok detok = {0};
    char *text = malloc(qn_tokenizer_max_piece(tok) + 8);
    for (int i = 0; text && i < n_predict; i++) {
        CHECK(qn_sampler_sample(sampler, qn_session_logits(session, -1), &token, &err));
        if (qn_tokenizer_is_eog(tok, token)) break;
        qn_sampler_accept(sampler, token);
        fwrite(text, 1, (size_t)qn_detok_push(&detok, tok, token, text, qn_tokenizer_max_piece(tok) + 8), stdout);
        CHECK(qn_session_feed(session, 0, &token, 1, &err));
    }
    putchar('\n');
    free(text);
    qn_free(prompt);
    qn_sampler_destroy(sampler);
    qn_session_destroy(session);
    qn_engine_close(engine);
    return 0;
}
