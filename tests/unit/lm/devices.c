/* SPDX-License-Identifier: MIT */
/* tests/unit/lm/devices.c -- a decoder whose layers lie on two devices: whole texts, gradients and decoding step by
 * step have the bits that they have on one. */
#include "../array/devices_rig.h"

#include <quern/nn.h>

static qn_module *decoder(qn_context *c, const char *arch, bool again)
{
    qn_manual_seed(c, 5);
    return qn_nn_decoder(c, &(qn_decoder_options){.arch = arch,
                                                  .n_vocab = 24,
                                                  .n_ctx = 16,
                                                  .n_embd = 32,
                                                  .n_layer = 2,
                                                  .n_head = 2,
                                                  .n_kv_head = 1,
                                                  .n_ff = 48,
                                                  .tied = true,
                                                  .grad_checkpointing = again});
}

/* Parameters whose names begin or end so go to that device. */
typedef struct move {
    const char *device, *part;
} move;

static bool is_part(const char *name, const char *part)
{
    const size_t n = strlen(name), m = strlen(part);
    return n >= m && (memcmp(name, part, m) == 0 || memcmp(name + n - m, part, m) == 0);
}

static bool moves(void *arg, const char *name, qn_tensor *t, qn_named_kind kind)
{
    const move *m = arg;
    qn_tensor *moved = is_part(name, m->part) ? qn_to_device(qn_detach(t), m->device) : NULL;
    (void)kind;
    if (moved != NULL) (void)qn_become(t, qn_requires_grad(t) ? qn_requires_grad_(moved, true) : moved);
    return qn_context_error(qn_context_of(t))->status == QN_OK;
}

static bool is_same_gradient(void *arg, const char *name, qn_tensor *t, qn_named_kind kind)
{
    if (kind != QN_NAMED_parameter) return true;
    EXPECT_DEVICE(qn_grad(t), qn_device_of(t));
    EXPECT_SAME(qn_grad(t), qn_grad(qn_module_tensor(arg, name)));
    return true;
}

static void a_layer_elsewhere(void **state)
{
    static const int32_t tokens[2][6] = {{1, 7, 3, 20, 11, 2}, {4, 4, 9, 0, 23, 5}};
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        qn_module *here = decoder(c, "qwen3", false), *over = decoder(c, "qwen3", false);
        GOOD(c, here);
        GOOD(c, over);
        OK(c, qn_module_each_tensor(over, moves, &(move){sides[s].device, "blk.1."}));
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

/* The stream is on one device, the mask on the other. */
static void a_layer_recorded_again_elsewhere(void **state)
{
    static const int32_t tokens[2][6] = {{1, 7, 3, 20, 11, 2}, {4, 4, 9, 0, 23, 5}};
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        qn_context *c = context_over(sides[s].list);
        qn_module *here = decoder(c, "qwen3", false), *over = decoder(c, "qwen3", true);
        GOOD(c, over);
        OK(c, qn_module_each_tensor(over, moves, &(move){sides[s].device, "token_embd.weight"}));
        qn_tensor *at = qn_arange(c, 0, 6, 1, QN_DTYPE_I64), *sees = qn_ge(qn_unsqueeze(at, 1), at);
        qn_tensor *in[2] = {qn_from_data(c, tokens, qn_shape_of(2, 6), QN_DTYPE_I32), sees};
        qn_tensor *want = qn_module_forward_n(here, in, 2), *have = qn_module_forward_n(over, in, 2);
        EXPECT_SAME(have, want);
        OK(c, qn_backward(qn_mean(qn_square(want), QN_ALL, false)));
        OK(c, qn_backward(qn_mean(qn_square(have), QN_ALL, false)));
        OK(c, qn_module_each_tensor(over, is_same_gradient, here));
        qn_module_destroy(here);
        qn_module_destroy(over);
        context_end(c);
    }
}

/* Biases of matrices and of norms lie elsewhere than these, and the other way round. */
static void any_weight_anywhere(void **state)
{
    static const int32_t tokens[1][5] = {{1, 7, 3, 20, 11}};
    static const char *const archs[] = {"qwen2", "starcoder2"}, *const parts[] = {".bias", ".weight"};
    (void)state;
    for (int s = 0; s < N_SIDES; s++) {
        if (!there[s]) continue;
        for (int k = 0; k < 4; k++) {
            qn_context *c = context_over(sides[s].list);
            qn_module *here = decoder(c, archs[k / 2], false), *over = decoder(c, archs[k / 2], false);
            GOOD(c, over);
            OK(c, qn_module_each_tensor(over, moves, &(move){sides[s].device, parts[k % 2]}));
            EXPECT_DEVICE(qn_module_tensor(over, "blk.1.attn_q.bias"),
                          k % 2 ? qn_context_device(c, 0) : sides[s].device);
            qn_tensor *ids = qn_from_data(c, tokens, qn_shape_of(1, 5), QN_DTYPE_I32);
            qn_tensor *want = qn_module_forward(here, ids), *have = qn_module_forward(over, ids);
            EXPECT_SAME(have, want);
            OK(c, qn_backward(qn_mean(qn_square(want), QN_ALL, false)));
            OK(c, qn_backward(qn_mean(qn_square(have), QN_ALL, false)));
            OK(c, qn_module_each_tensor(over, is_same_gradient, here));
            qn_module_destroy(here);
            qn_module_destroy(over);
            context_end(c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_layer_elsewhere),
                                       cmocka_unit_test(a_layer_recorded_again_elsewhere),
                                       cmocka_unit_test(any_weight_anywhere)};
    find_sides();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
