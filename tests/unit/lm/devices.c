/* SPDX-License-Identifier: MIT */
/* tests/unit/lm/devices.c -- a decoder whose layers lie on two devices: whole texts, gradients and decoding step by
 * step have the bits that they have on one. */
#include "../array/devices_rig.h"

#include <quern/nn.h>

static qn_module *decoder(qn_context *c)
{
    qn_manual_seed(c, 5);
    return qn_nn_decoder(c, &(qn_decoder_options){.arch = "qwen3",
                                                  .n_vocab = 24,
                                                  .n_ctx = 16,
                                                  .n_embd = 32,
                                                  .n_layer = 2,
                                                  .n_head = 2,
                                                  .n_kv_head = 1,
                                                  .n_ff = 48,
                                                  .tied = true});
}

static bool is_second(void *arg, const char *name, qn_tensor *t, qn_named_kind kind)
{
    qn_tensor *moved = strncmp(name, "blk.1.", 6) == 0 ? qn_to_device(qn_detach(t), arg) : NULL;
    (void)kind;
    if (moved != NULL) (void)qn_become(t, qn_requires_grad(t) ? qn_requires_grad_(moved, true) : moved);
    return qn_context_error(qn_context_of(t))->status == QN_OK;
}

static void a_layer_elsewhere(void **state)
{
    static const int32_t tokens[2][6] = {{1, 7, 3, 20, 11, 2}, {4, 4, 9, 0, 23, 5}};
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        qn_module *here = decoder(c), *over = decoder(c);
        GOOD(c, here);
        GOOD(c, over);
        OK(c, qn_module_each_tensor(over, is_second, (void *)(uintptr_t)sides[s].device));
        EXPECT_DEVICE(qn_module_tensor(over, "blk.1.attn_q.weight"), sides[s].device);
        qn_tensor *ids = qn_from_data(c, tokens, qn_shape_of(2, 6), QN_DTYPE_I32);
        qn_tensor *want = qn_module_forward(here, ids), *have = qn_module_forward(over, ids);
        EXPECT_DEVICE(have, qn_context_device(c, 0)); /* the output is the token embedding, which stayed */
        EXPECT_SAME(have, want);
        OK(c, qn_backward(qn_mean(qn_square(want), QN_ALL, false)));
        OK(c, qn_backward(qn_mean(qn_square(have), QN_ALL, false)));
        static const char *const names[] = {"token_embd.weight", "blk.0.ffn_down.weight", "blk.1.attn_k.weight",
                                            "blk.1.ffn_norm.weight"};
        for (int i = 0; i < 4; i++)
            EXPECT_SAME(qn_grad(qn_module_tensor(over, names[i])), qn_grad(qn_module_tensor(here, names[i])));
        qn_kv_cache *kv[2] = {qn_decoder_cache(here, 2, 0), qn_decoder_cache(over, 2, 0)};
        for (int at = 0; at < 6; at += 2) {
            qn_tensor *two = qn_narrow(ids, 1, at, 2);
            EXPECT_SAME(qn_decoder_decode(over, two, kv[1]), qn_decoder_decode(here, two, kv[0]));
        }
        for (int i = 0; i < 2; i++) qn_kv_cache_destroy(kv[i]);
        qn_module_destroy(here);
        qn_module_destroy(over);
        context_end(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_layer_elsewhere)};
    find_sides();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
