/* SPDX-License-Identifier: MIT */
/* lora.c -- teaches a quantized model a text without touching its weights: a low-rank adapter, which `quern run --lora`
 * and other engines take beside the model. cc lora.c -o lora $(pkg-config --cflags --libs quern) && ./lora BASE.gguf
 * TEXT.txt ADAPTER.gguf [STEPS] */
#include <quern/quern.h>
#include <stdio.h>
#include <stdlib.h>

static char text[4000000];

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s BASE.gguf TEXT.txt ADAPTER.gguf [STEPS]\n", argv[0]);
        return 2;
    }
    FILE *f = fopen(argv[2], "rb");
    if (!f) {
        perror(argv[2]);
        return 1;
    }
    const qn_gguf_str text_read = {text, fread(text, 1, sizeof text, f)};
    fclose(f);

    qn_error err = {0};
    qn_trainer *trainer = NULL;
    const qn_train_options options = {
        .n_steps = argc > 4 ? atoi(argv[4]) : 40, .n_ctx = 64, .n_batch = 4, .lr = 3e-3f, .n_warmup = 2};
    const qn_lora_options lora = {.base = argv[1], .rank = 8, .targets = "blk.*.attn_*,blk.*.ffn_*"};
    if (qn_trainer_create_lora(&options, &lora, &text_read, 1, &trainer, &err) != QN_OK) goto failed;

    qn_train_info info;
    qn_train_eval before, after;
    qn_train_step step = {0};
    qn_trainer_get_info(trainer, &info);
    printf("%lld numbers to learn\n", (long long)info.n_params);
    if (qn_trainer_evaluate(trainer, &before, &err) != QN_OK) goto failed;
    while (step.step < options.n_steps) {
        if (qn_trainer_step(trainer, &step, &err) != QN_OK) goto failed;
        if (step.step % 10 == 0) printf("step %d  loss %.4f\n", step.step, step.loss);
    }
    if (qn_trainer_evaluate(trainer, &after, &err) != QN_OK) goto failed;
    printf("held-out text: %.3f bits per byte before, %.3f after\n", before.bits_per_byte, after.bits_per_byte);
    if (qn_trainer_export(trainer, argv[3], NULL, "example", &err) != QN_OK) goto failed;
    qn_trainer_destroy(trainer);
    return 0;
failed:
    fprintf(stderr, "%s\n", err.text);
    qn_trainer_destroy(trainer);
    return 1;
}
