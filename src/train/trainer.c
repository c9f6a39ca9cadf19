/* SPDX-License-Identifier: MIT */
/* src/train/trainer.c -- steps and evaluations. A step is one compiled graph a batch: forward, backward, and after the
 * last batch the update. */
#include "nn/optim.h"
#include "text/chat/chat.h"
#include "train/train.h"
#include <math.h>
#include <quern/autograd.h>
#include <quern/machine.h>
#include <quern/ops.h>
#include <string.h>

qn_status qn__train_failed(qn_trainer *t, qn_error *err)
{
    const qn_error *why = qn_context_error(t->ctx);
    const qn_status status =
        why->status != QN_OK ? why->status : QN_FAIL(err, internal, "training failed without a reason");
    if (why->status != QN_OK && err) *err = *why;
    qn_context_clear(t->ctx);
    return status;
}

/* ---- creation ---- */

static double count(const qn_trainer *t) { return t->lora ? qn__lora_count(t->lora) : (double)t->n_weights; }

static qn_tensor *loss_of(qn_trainer *t, double divisor, bool training)
{
    return t->lora ? qn__lora_loss(t, divisor, training) : qn__lm_loss(t, divisor, training);
}

/* Said before gigabytes are touched: weights, gradients, two averages, the best weights; and what backward needs of a
 * batch at least. */
static qn_status check_memory(const qn_trainer *t, qn_error *err)
{
    qn_machine machine;
    qn_machine_get(&machine);
    const qn_train_options *o = &t->o;
    const double tokens = (double)o->n_batch * o->n_ctx, params = count(t);
    const double inside = 4.0 * o->n_embd + 2.0 * o->n_ff; /* of a layer, what its input is among */
    const double layers = o->grad_checkpointing ? (double)o->n_layer * o->n_embd + inside : (double)o->n_layer * inside;
    const double need = 20 * params + (o->bf16 ? 2 : 4) * tokens * (layers + t->data.n_vocab);
    const double have = (double)(machine.memory_limit_bytes ? machine.memory_limit_bytes : machine.memory_bytes);
    if (have > 0 && need > have)
        return QN_FAIL(
            err, limit,
            "training %.4g parameters with %.4g tokens a batch takes %.3g GB or more; this machine has %.3g GB", params,
            tokens, need * 1e-9, have * 1e-9);
    return QN_OK;
}

static qn_status make_tensors(qn_trainer *t, qn_error *err)
{
    const qn_shape shape = qn_shape_of(t->o.n_batch, t->o.n_ctx);
    QN_TRY(
        qn_context_create(&(qn_context_options){.backend = t->o.backend, .n_threads = t->o.n_threads}, &t->ctx, err));
    const size_t n = (size_t)t->o.n_batch * (size_t)t->o.n_ctx;
    t->ids = qn__arena_array(&t->arena, n, sizeof *t->ids);
    t->targets = qn__arena_array(&t->arena, n, sizeof *t->targets);
    if (!t->ids || !t->targets) return QN_FAIL_NOMEM(err, n * sizeof *t->ids);
    if (t->data.chat) {
        t->part = qn__arena_array(&t->arena, n, sizeof *t->part);
        t->sees = qn__arena_array(&t->arena, n * (size_t)t->o.n_ctx, sizeof *t->sees);
        if (!t->part || !t->sees) return QN_FAIL_NOMEM(err, n * (size_t)t->o.n_ctx);
        t->sees_in = qn_zeros(t->ctx, qn_shape_of(t->o.n_batch, 1, t->o.n_ctx, t->o.n_ctx), QN_DTYPE_BOOL);
        t->scale_in = qn_zeros(t->ctx, (qn_shape){0}, QN_DTYPE_F32);
    }
    t->ids_in = qn_zeros(t->ctx, shape, QN_DTYPE_I32);
    t->targets_in = qn_zeros(t->ctx, shape, QN_DTYPE_I32);
    QN_TRY(t->lora ? qn__lora_create(t, err) : qn__lm_create(t, err));
    return qn__train_optimizer_create(t, err);
}

static qn_status count_steps(qn_trainer *t, qn_error *err)
{
    const double windows = (double)t->o.n_batch * t->o.n_accum;
    t->steps_per_epoch = (int32_t)fmax(1, floor((double)t->data.n_windows / windows));
    const double steps =
        t->o.n_steps ? (double)t->o.n_steps : ceil((double)t->o.n_epochs * (double)t->data.n_windows / windows);
    if (steps > 1e9)
        return QN_FAIL(err, invalid, "%g epochs are %.4g steps; at most 1e9 are possible", (double)t->o.n_epochs,
                       steps);
    t->n_steps = (int32_t)fmax(1, steps);
    return QN_OK;
}

/* Conversations without a template: OpenAI's ChatML, and its tokens. */
static const qn_special_token chatml_tokens[] = {{"<|im_start|>", QN_TOKEN_control}, {"<|im_end|>", QN_TOKEN_control}};

static qn_status make_shape(qn_trainer *t, const qn_train_corpus *in, qn_train_corpus *out, qn_error *err)
{
    *out = *in;
    if (t->lora && (in->n_special > 0 || in->eos))
        return QN_FAIL(err, invalid, "special tokens are the base's in training an adapter, and cannot be given");
    if (t->lora && !in->chat_template)
        return in->chat ? qn_chat_template_load(qn__lora_file(t->lora), NULL, &t->shape, err) : QN_OK;
    if (in->chat && !in->chat_template) {
        QN_TRY(qn__chat_built_in("chatml", &t->shape, err));
        if (in->n_special == 0) {
            out->special = chatml_tokens;
            out->n_special = 2;
            if (!in->eos) out->eos = chatml_tokens[1].text;
        }
    } else if (in->chat_template) {
        const qn_status status = qn_chat_template_create(in->chat_template, strlen(in->chat_template), &t->shape, err);
        if (status != QN_OK) return qn__prefix(err, status, "chat template");
    }
    if (t->shape) out->chat_template = qn_chat_template_source(t->shape);
    return QN_OK;
}

static qn_status create(qn_trainer *t, const qn_train_options *options, const qn_lora_options *lora,
                        const qn_train_corpus *corpus, qn_error *err)
{
    qn_train_options o = *options;
    qn_train_corpus c;
    if (lora) QN_TRY(qn__lora_open(t, lora, options, &o, err));
    QN_TRY(qn__train_resolve(&o, &t->o, err));
    if (t->o.backend) { /* qn_trainer_options gives it for as long as there is a trainer */
        const size_t bytes = strlen(t->o.backend) + 1;
        t->o.backend = qn__arena_strdup(&t->arena, t->o.backend);
        if (!t->o.backend) return QN_FAIL_NOMEM(err, bytes);
    }
    QN_TRY(make_shape(t, corpus, &c, err));
    const qn_train_source source = {.o = &t->o,
                                    .exact_vocab = options->n_vocab != 0,
                                    .tok = t->lora ? qn__lora_tokenizer(t->lora) : NULL,
                                    .shape = t->shape,
                                    .corpus = &c};
    QN_TRY(qn__train_data_init(&t->data, &source, err));
    if (t->lora) t->data.joined_hash = qn__lora_joined_hash(t->lora, t->data.joined_hash);
    if (!t->lora) QN_TRY(qn__lm_plan(t, err));
    QN_TRY(count_steps(t, err));
    QN_TRY(check_memory(t, err));
    return make_tensors(t, err);
}

qn_status qn_trainer_create_corpus(const qn_train_options *options, const qn_lora_options *lora,
                                   const qn_train_corpus *corpus, qn_trainer **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_trainer *t = qn__arena_array(&arena, 1, sizeof *t);
    if (!t) return QN_FAIL_NOMEM(err, sizeof *t);
    t->arena = arena;
    const qn_status status = create(t, options, lora, corpus, err);
    if (status == QN_OK)
        *out = t;
    else
        qn_trainer_destroy(t);
    return status;
}

qn_status qn_trainer_create_lora(const qn_train_options *options, const qn_lora_options *lora, const qn_gguf_str *texts,
                                 size_t n_texts, qn_trainer **out, qn_error *err)
{
    return qn_trainer_create_corpus(options, lora, &(qn_train_corpus){.texts = texts, .n_texts = n_texts}, out, err);
}

qn_status qn_trainer_create(const qn_train_options *options, const qn_gguf_str *texts, size_t n_texts, qn_trainer **out,
                            qn_error *err)
{
    return qn_trainer_create_lora(options, NULL, texts, n_texts, out, err);
}

void qn_trainer_destroy(qn_trainer *t)
{
    if (!t) return;
    for (int32_t i = 0; i < t->n_params; i++) qn__free(t->params[i].best);
    qn_optimizer_destroy(t->optimizer);
    qn_module_destroy(t->lm);
    qn_context_destroy(t->ctx);
    qn__lora_close(t->lora);
    qn__train_data_deinit(&t->data);
    qn_chat_template_destroy(t->shape);
    qn_arena arena = t->arena;
    qn__arena_deinit(&arena);
}

const qn_train_options *qn_trainer_options(const qn_trainer *t) { return &t->o; }

/* A multiplication and an addition for each weight of a product and each pair of a token and one that it sees; twice as
 * many backward. */
static double flops_per_token(const qn_trainer *t)
{
    const double weights = count(t) - (t->lora || t->o.tied ? 0 : (double)t->data.n_vocab * t->o.n_embd);
    const double pairs = (double)t->o.n_layer * t->o.n_embd * (t->o.n_ctx + 1);
    /* frozen weights have no gradient */
    return 3 * 2 * (weights + pairs) + (t->lora ? 2 * 2 * qn__lora_weights(t->lora) : 0);
}

void qn_trainer_get_info(const qn_trainer *t, qn_train_info *out)
{
    *out = (qn_train_info){
        .n_params = (int64_t)count(t),
        .n_vocab = t->data.n_vocab,
        .n_tokens = t->data.n_tokens,
        .n_bytes = t->data.n_bytes,
        .n_held_tokens = t->data.n_held,
        .n_held_bytes = t->data.n_held_bytes,
        .n_conversations = t->data.n_conversations,
        .n_held_conversations = t->data.n_held_conversations,
        .n_cut = t->data.n_cut,
        .n_left_out = t->data.n_left_out,
        .n_fed = t->data.n_fed,
        .step = t->step,
        .n_steps = t->n_steps,
        .steps_per_epoch = t->steps_per_epoch,
        .flops_per_step = flops_per_token(t) * t->o.n_ctx * t->o.n_batch * t->o.n_accum,
        .best_step = t->has_best ? t->best_step : 0,
        .best_bits_per_byte = t->has_best ? t->best_bits : 0,
    };
}

/* ---- steps ---- */

/* A token sees those before it of its own conversation, and itself. */
static void look(qn_trainer *t)
{
    const int32_t n = t->o.n_ctx;
    memset(t->sees, 0, (size_t)t->o.n_batch * (size_t)n * (size_t)n);
    for (int32_t b = 0; b < t->o.n_batch; b++) {
        const int32_t *part = t->part + (size_t)b * (size_t)n;
        uint8_t *sees = t->sees + (size_t)b * (size_t)n * (size_t)n;
        for (int32_t i = 0, begin = 0; i < n; i++, sees += n) {
            if (part[i] != part[begin]) begin = i;
            memset(sees + begin, 1, (size_t)(i - begin + 1));
        }
    }
}

static qn_status feed(qn_trainer *t, double divisor)
{
    const size_t n = (size_t)t->o.n_batch * (size_t)t->o.n_ctx, bytes = n * sizeof *t->ids;
    qn_status status = qn_set_data(t->ids_in, t->ids, bytes);
    if (status == QN_OK) status = qn_set_data(t->targets_in, t->targets, bytes);
    if (status != QN_OK || !t->data.chat) return status;
    const float scale = (float)(1 / divisor);
    look(t);
    status = qn_set_data(t->scale_in, &scale, sizeof scale);
    return status == QN_OK ? qn_set_data(t->sees_in, t->sees, n * (size_t)t->o.n_ctx) : status;
}

qn_tensor *qn__train_scaled(const qn_trainer *t, qn_tensor *sum, double divisor)
{
    return t->scale_in ? qn_mul(sum, t->scale_in) : qn_mul_number(sum, 1 / divisor);
}

/* Where the b-th window of a batch goes. */
static int32_t *at(const qn_trainer *t, int32_t *of, int32_t b)
{
    return of ? of + (size_t)b * (size_t)t->o.n_ctx : NULL;
}

/* Forward and backward of one batch, recorded; the loss, kept. */
static qn_tensor *batch(qn_trainer *t, int64_t first, double divisor)
{
    for (int32_t b = 0; b < t->o.n_batch; b++)
        qn__train_window(&t->data, first + b, at(t, t->ids, b), at(t, t->targets, b), at(t, t->part, b));
    if (feed(t, divisor) != QN_OK) return NULL;
    qn_tensor *loss = loss_of(t, divisor, true);
    return loss && qn_backward(loss) == QN_OK ? qn_keep(loss) : NULL;
}

static bool run_batch(qn_trainer *t, int32_t accum, double *loss, double *norm)
{
    if (qn_scope_begin(t->ctx) != QN_OK) return false;
    const bool last = accum == t->o.n_accum - 1;
    const int64_t n_windows = (int64_t)t->o.n_accum * t->o.n_batch, first = t->step * n_windows;
    const double divisor = qn__train_learnt(&t->data, first, n_windows);
    qn_tensor *l = batch(t, first + (int64_t)accum * t->o.n_batch, divisor), *n = NULL;
    if (l && last) n = qn_keep(qn__train_update(t));
    qn_scope_end(t->ctx, NULL);
    /* One run or none, so that what fails can be taken back: a loss alone, or the update of some weights, would be
     * no step. */
    const bool good = l && (n || !last) && qn__flush_whole(t->ctx) == QN_OK;
    if (good) *loss += qn_item(l);
    if (good && last) *norm = qn_item(n);
    qn_release(l);
    qn_release(n);
    return good && qn_context_error(t->ctx)->status == QN_OK;
}

/* What could not be run has not happened, and may be tried again. */
static qn_status forget(qn_trainer *t, qn_error *err)
{
    qn__optim_discard(t->optimizer);
    qn_optimizer_zero_grad(t->optimizer);
    return qn__train_failed(t, err);
}

qn_status qn_trainer_step(qn_trainer *t, qn_train_step *out, qn_error *err)
{
    if (t->step >= t->n_steps) return QN_FAIL(err, state, "all %d steps are done", t->n_steps);
    const double lr = qn__train_rate(t);
    double loss = 0, norm = 0;
    qn_manual_seed(t->ctx, t->o.seed + (uint64_t)(t->step + 1) * UINT64_C(0x9e3779b97f4a7c15));
    for (int32_t i = 0; i < t->o.n_accum; i++)
        if (!run_batch(t, i, &loss, &norm)) return forget(t, err);
    qn__optim_settle(t->optimizer);
    t->step++;
    *out = (qn_train_step){.step = t->step, .n_steps = t->n_steps, .loss = loss, .grad_norm = norm, .lr = lr};
    if (!isfinite(loss) || !isfinite(norm))
        return QN_FAIL(err, invalid, "step %d: the loss is %g, its gradient's norm %g; a lower learning rate may help",
                       t->step, loss, norm);
    return QN_OK;
}

/* ---- evaluation ---- */

static bool run_held(qn_trainer *t, int64_t first, double *loss)
{
    for (int32_t b = 0; b < t->o.n_batch; b++)
        qn__held_window(&t->data, first + b, at(t, t->ids, b), at(t, t->targets, b), at(t, t->part, b));
    if (qn_scope_begin(t->ctx) != QN_OK) return false;
    const bool was = qn_set_grad_enabled(t->ctx, false);
    qn_tensor *l = feed(t, 1) == QN_OK ? qn_keep(loss_of(t, 1, false)) : NULL;
    qn_set_grad_enabled(t->ctx, was);
    qn_scope_end(t->ctx, NULL);
    if (l) *loss += qn_item(l);
    qn_release(l);
    return l && qn_context_error(t->ctx)->status == QN_OK;
}

qn_status qn__train_best_room(qn_trainer *t, qn_error *err)
{
    for (int32_t i = 0; i < t->n_params; i++) {
        qn_train_param *p = &t->params[i];
        const size_t bytes = (size_t)qn_numel(p->value) * sizeof(float);
        if (!p->best && !(p->best = qn__alloc(bytes))) return QN_FAIL_NOMEM(err, bytes);
    }
    return QN_OK;
}

qn_status qn__train_values(qn_trainer *t, const qn_train_param *p, float *dst, qn_error *err)
{
    if (qn_scope_begin(t->ctx) != QN_OK) return qn__train_failed(t, err);
    const bool was = qn_set_grad_enabled(t->ctx, false);
    qn_tensor *wide = qn_to(p->value, QN_DTYPE_F32);
    const bool good = wide && qn_to_host(wide, dst, (size_t)qn_numel(wide) * sizeof *dst) == QN_OK;
    qn_set_grad_enabled(t->ctx, was);
    qn_scope_end(t->ctx, NULL);
    return good ? QN_OK : qn__train_failed(t, err);
}

static qn_status keep_best(qn_trainer *t, double bits, qn_error *err)
{
    QN_TRY(qn__train_best_room(t, err));
    for (int32_t i = 0; i < t->n_params; i++) QN_TRY(qn__train_values(t, &t->params[i], t->params[i].best, err));
    t->has_best = true;
    t->best_bits = bits;
    t->best_step = t->step;
    return QN_OK;
}

qn_status qn_trainer_evaluate(qn_trainer *t, qn_train_eval *out, qn_error *err)
{
    if (t->data.n_held == 0)
        return QN_FAIL(err, state, "nothing is held out to evaluate on (eval-fraction is %g)",
                       (double)t->o.eval_fraction);
    double loss = 0;
    for (int64_t i = 0; i < t->data.n_held_windows; i += t->o.n_batch)
        if (!run_held(t, i, &loss)) return forget(t, err);
    const double bits = loss / log(2) / (double)t->data.n_held_bytes;
    const bool best = !t->has_best || bits < t->best_bits;
    if (best && isfinite(bits)) QN_TRY(keep_best(t, bits, err));
    *out = (qn_train_eval){.loss = loss / (double)t->data.n_held, .bits_per_byte = bits, .best = best};
    return QN_OK;
}
