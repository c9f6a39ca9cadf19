/* SPDX-License-Identifier: MIT */
/* char_transformer.c -- a character-level transformer, written out: data, training, and text from a cache of keys and
 * values. cc char_transformer.c -o char_transformer $(pkg-config --cflags --libs quern) && ./char_transformer TEXT.txt
 * [STEPS] For models that other programs run, with a vocabulary of word pieces, see `quern train`. */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CTX = 64, BATCH = 16, WRITE = 200 };

static char text[2000000];
static int vocabulary[256], n_vocab; /* byte -> number, 0 for bytes that do not occur */
static unsigned char bytes[257];     /* number -> byte */

static void random_windows(size_t length, int64_t (*in)[CTX], int64_t (*out)[CTX])
{
    for (int b = 0; b < BATCH; b++) {
        const size_t at = (size_t)rand() % (length - CTX - 1);
        for (int i = 0; i < CTX; i++) {
            in[b][i] = vocabulary[(unsigned char)text[at + (size_t)i]];
            out[b][i] = vocabulary[(unsigned char)text[at + (size_t)i + 1]];
        }
    }
}

/* One character after the other: each step computes its own position only. */
static void write_text(qn_context *c, qn_module *model)
{
    qn_kv_cache *cache = qn_llama_cache(model, 1, 0);
    int64_t token = vocabulary[(unsigned char)text[0]];
    qn_module_train(model, false);
    qn_set_grad_enabled(c, false);
    for (int i = 0; i < WRITE && i < CTX; i++) {
        qn_scope_begin(c);
        qn_tensor *x = qn_from_data(c, &token, qn_shape_of(1, 1), QN_DTYPE_I64);
        qn_tensor *logits = qn_select(qn_select(qn_llama_decode(model, x, cache), 0, 0), 0, 0);
        float p[257], pick = (float)rand() / (float)RAND_MAX;
        qn_to_host(qn_softmax(qn_mul_number(logits, 1.25), -1), p, (size_t)n_vocab * sizeof *p);
        for (token = 0; token + 1 < n_vocab && pick >= p[token]; token++) pick -= p[token];
        putchar(bytes[token]);
        qn_scope_end(c, NULL);
    }
    putchar('\n');
    qn_set_grad_enabled(c, true);
    qn_kv_cache_destroy(cache);
}

int main(int argc, char **argv)
{
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    const size_t length = f ? fread(text, 1, sizeof text, f) : 0;
    const int steps = argc > 2 ? atoi(argv[2]) : 300;
    if (f) fclose(f);
    if (length < 2 * CTX) {
        fprintf(stderr, "usage: %s TEXT.txt [STEPS], with a text of some length\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < length; i++) {
        const unsigned char byte = (unsigned char)text[i];
        if (!vocabulary[byte]) {
            vocabulary[byte] = ++n_vocab;
            bytes[n_vocab] = byte;
        }
    }
    n_vocab++;

    qn_context *c;
    qn_error err = {0};
    if (qn_context_create(NULL, &c, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    qn_manual_seed(c, 3);
    qn_module *model = qn_nn_llama(
        c, &(qn_llama_options){.n_vocab = n_vocab, .n_ctx = CTX, .n_embd = 64, .n_layer = 2, .n_head = 4, .n_ff = 192});
    qn_tensor *params[64];
    const int n_params = (int)qn_module_parameters(model, params, 64);
    qn_optimizer *opt = NULL;
    const qn_lr_schedule rate = {
        .kind = QN_LR_cosine, .lr = 3e-3, .min_lr = 3e-4, .warmup = steps / 20, .total = steps};
    if (n_params <= 0 ||
        qn_adamw_create(&(qn_adam_options){.weight_decay = 0.01}, params, n_params, &opt, &err) != QN_OK)
        goto failed;
    printf("%zu characters, %d different ones; %lld parameters\n", length, n_vocab - 1,
           (long long)qn_module_n_elements(model, true));

    for (int step = 0; step < steps; step++) {
        static int64_t in[BATCH][CTX], out[BATCH][CTX];
        random_windows(length, in, out);
        qn_scope_begin(c);
        qn_tensor *x = qn_from_data(c, in, qn_shape_of(BATCH, CTX), QN_DTYPE_I64);
        qn_tensor *y = qn_from_data(c, out, qn_shape_of(BATCH * CTX), QN_DTYPE_I64);
        qn_tensor *logits = qn_reshape(qn_module_forward(model, x), qn_shape_of(BATCH * CTX, n_vocab));
        qn_tensor *loss = qn_cross_entropy(logits, y, NULL);
        qn_backward(loss);
        qn_optimizer_clip(opt, 1.0);
        qn_optimizer_set_lr(opt, QN_EVERY_GROUP, qn_lr_at(&rate, step));
        qn_optimizer_step(opt);
        qn_optimizer_zero_grad(opt);
        if (step % 50 == 0 || step == steps - 1) printf("step %3d  loss %.3f\n", step, qn_item(loss));
        if (qn_eval_all(c) != QN_OK) goto failed;
        qn_scope_end(c, NULL);
    }
    write_text(c, model);
    if (qn_context_error(c)->status != QN_OK) goto failed;
    qn_optimizer_destroy(opt);
    qn_module_destroy(model);
    qn_context_destroy(c);
    return 0;
failed:
    fprintf(stderr, "%s\n", err.status != QN_OK ? err.text : qn_context_error(c)->text);
    return 1;
}
