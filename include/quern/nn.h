/* SPDX-License-Identifier: MIT */
/* quern/nn.h -- modules: parameters with names, in trees, that compute; the modules everybody needs; files of weights.
 *
 *     qn_module *net = qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 2, 8, true), qn_nn_tanh(c), qn_nn_linear(c, 8, 1,
 * true))); qn_tensor *y = qn_module_forward(net, x); qn_module_save(net, "net.safetensors", NULL, &err);      0.weight,
 * 0.bias, 2.weight, 2.bias qn_module_destroy(net);
 *
 * Semantics, names of parameters, shapes and first values are PyTorch's torch.nn unless said otherwise.
 *
 * Ownership. A module belongs to whoever created it until it is given to another one (qn_module_add_module,
 * qn_nn_sequential ..), which takes it over, also when it fails; qn_module_retain asks for one more qn_module_destroy.
 * Parameters and buffers belong to the module, outside of all scopes. Modules end before their context.
 *
 * Errors. Functions that make a module return NULL when something is wrong and pass NULL on, so that constructors nest
 * freely; the text is in the context (qn_context_error), as with tensors. What goes wrong in forward is told with the
 * path of the module.
 *
 * What a module is. A type (a constant struct of functions), state of that type's own, and by name: parameters,
 * buffers, modules. Names are not empty and have no dot; "blk.0.attn_q.weight" is a path. To make one of your own:
 *
 *     static qn_tensor *mlp_forward(qn_module *m, qn_tensor *const *x, int n)
 *     {
 *         qn_tensor *h = qn_relu(qn_module_forward(qn_module_find(m, "up"), x[0]));
 *         return qn_mul(qn_module_forward(qn_module_find(m, "down"), h), qn_module_tensor(m, "gain"));
 *     }
 *     static const qn_module_type mlp = {.name = "Mlp", .forward = mlp_forward};
 *
 *     qn_module *m = qn_module_create(c, &mlp);
 *     qn_module_add_module(m, "up", qn_nn_linear(c, 4, 16, true));
 *     qn_module_add_module(m, "down", qn_nn_linear(c, 16, 4, true));
 *     qn_module_add_parameter(m, "gain", qn_ones(c, qn_shape_of(4), QN_DTYPE_F32));
 *     return qn_module_ready(m);       NULL, and m gone, when any of this failed */
#ifndef QUERN_NN_H
#define QUERN_NN_H

#include <quern/gguf.h>
#include <quern/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_module qn_module;

/* ---- making modules -------------------------------------------------------------------------- */

#define QN_MODULE_INPUTS 8
typedef struct qn_module_type {
    const char *name; /* "Linear": in errors and listings */
    /* Tensors made here end with the call, but for the result. x has max_inputs entries; the first min_inputs are
     * there, the others may be NULL, and are from the n-th on. NULL on failure, with the context's error set (by the
     * operation that failed, or qn_context_fail). */
    qn_tensor *(*forward)(qn_module *m, qn_tensor *const *x, int n);
    void (*destroy)(qn_module *m); /* may be NULL: before parameters and modules end */
    /* May be NULL: a few words about the options, "in=4, out=2", of at most size bytes. */
    void (*describe)(const qn_module *m, char *text, size_t size);
    void (*gguf)(const qn_module *m, qn_gguf_writer *w); /* may be NULL: metadata that a GGUF of this module has */
    size_t state_bytes;                                  /* of qn_module_state, zeroed at first */
    int min_inputs, max_inputs;                          /* both 0: exactly one */
} qn_module_type;

QN_API qn_module *qn_module_create(qn_context *ctx, const qn_module_type *type);
/* m when it and all that was added is good; else m ends, and NULL. */
QN_API qn_module *qn_module_ready(qn_module *m);
QN_API qn_module *qn_module_retain(qn_module *m);
QN_API void qn_module_destroy(qn_module *m);

/* Each gives back what was added, NULL on failure, which qn_module_ready will tell. A tensor goes over to the module
 * from the scope that it lives in; one outside of scopes (kept, or a parameter already) is shared. A parameter requires
 * a gradient from now on, unless it is of a block format; in several modules it is one parameter with several names
 * (tied weights). A buffer is saved, but not trained. */
QN_API qn_tensor *qn_module_add_parameter(qn_module *m, const char *name, qn_tensor *t);
QN_API qn_tensor *qn_module_add_buffer(qn_module *m, const char *name, qn_tensor *t);
QN_API qn_module *qn_module_add_module(qn_module *m, const char *name, qn_module *child);
/* Puts t in the place of the parameter or buffer at that path: so are weights tied. */
QN_API qn_status qn_module_set_tensor(qn_module *m, const char *path, qn_tensor *t);

/* ---- computing ------------------------------------------------------------------------------- */

/* A module computes where its parameters lie: inputs that lie elsewhere are moved to the device of the first tensor
 * that is its own (not of a module in it), with their gradients, and what its forward makes lies there too
 * (qn_set_default_device, for the time of the call). So parts of a tree may lie on several devices (qn_module_to_device
 * of a part, or qn_load_options.place), and the result lies where the last part does. A module without tensors computes
 * where its first input lies. */
QN_API qn_tensor *qn_module_forward(qn_module *m, qn_tensor *x);
QN_API qn_tensor *qn_module_forward_n(qn_module *m, qn_tensor *const *x, int n);

/* ---- looking around -------------------------------------------------------------------------- */

QN_API qn_context *qn_module_context(const qn_module *m);
QN_API const qn_module_type *qn_module_type_of(const qn_module *m);
QN_API void *qn_module_state(const qn_module *m);
/* By path, "" being m itself; NULL (and no error) when there is none. Borrowed. A name is found by comparing it with
 * its neighbours: quick enough for forward. */
QN_API qn_module *qn_module_find(const qn_module *m, const char *path);
QN_API qn_tensor *qn_module_tensor(const qn_module *m, const char *path);
/* By number, in order of adding; NULL past the end. */
QN_API int qn_module_n_children(const qn_module *m);
QN_API qn_module *qn_module_child(const qn_module *m, int i);

typedef enum qn_named_kind { QN_NAMED_parameter, QN_NAMED_buffer } qn_named_kind;
/* Depth first, in order of adding, each tensor (module) once, under its first path. Return false to stop. */
typedef bool (*qn_named_fn)(void *arg, const char *path, qn_tensor *t, qn_named_kind kind);
typedef bool (*qn_module_fn)(void *arg, const char *path, qn_module *m);
QN_API qn_status qn_module_each_tensor(qn_module *m, qn_named_fn fn, void *arg);
/* PyTorch's apply; m first, under "" */
QN_API qn_status qn_module_each_module(qn_module *m, qn_module_fn fn, void *arg);
/* The parameters, each once: at most `capacity` of them go to `out`; their number is returned, -1 on failure. */
QN_API int64_t qn_module_parameters(qn_module *m, qn_tensor **out, int64_t capacity);
/* Elements of all parameters, each once; those that require a gradient only; -1 on failure. */
QN_API int64_t qn_module_n_elements(qn_module *m, bool trainable_only);
/* PyTorch's look: "Sequential(\n  (0): Linear(in=2, out=8)\n ..". Freed with qn_free; NULL on failure. */
QN_API char *qn_module_to_string(qn_module *m);

/* ---- modes ----------------------------------------------------------------------------------- */

QN_API void qn_module_train(qn_module *m, bool training); /* false: eval(). A new module trains */
QN_API bool qn_module_is_training(const qn_module *m);
/* Of all parameters; false freezes them. Frozen block formats stay so. */
QN_API qn_status qn_module_requires_grad_(qn_module *m, bool requires_grad);
QN_API void qn_module_zero_grad(qn_module *m);
/* Real parameters and buffers get that real dtype. Handles stay the same; gradients are given up. */
QN_API qn_status qn_module_to(qn_module *m, qn_dtype dtype);
/* Parameters and buffers go to that device of the context (qn_to_device in quern/array.h). Handles stay the same;
 * gradients are given up, so an optimizer is made after it, as in PyTorch. On failure nothing has moved. */
QN_API qn_status qn_module_to_device(qn_module *m, const char *device);

/* ---- weights in files ------------------------------------------------------------------------ */

typedef struct qn_save_options {
    /* What a tensor is stored as: a real dtype, or a block format of GGUF. NULL: as it is. */
    qn_dtype (*dtype_of)(void *arg, const char *path, const qn_tensor *t);
    /* GGUF: writes metadata besides that of the module's type. Without a general.architecture from either it is
     * "module". */
    void (*metadata)(void *arg, qn_gguf_writer *w);
    void *arg;
} qn_save_options;

/* Parameters and buffers under their paths, shared ones once. A path that ends in ".gguf" is written as GGUF,
 * ".safetensors" as that; anything else is refused. The file appears whole or not at all. */
QN_API qn_status qn_module_save(qn_module *m, const char *path, const qn_save_options *options, qn_error *err);

typedef enum qn_load_note { QN_LOAD_missing, QN_LOAD_unexpected } qn_load_note;
typedef struct qn_tensor_info {
    qn_dtype dtype; /* in the file */
    qn_shape shape;
    uint64_t size_bytes;
} qn_tensor_info;
typedef struct qn_load_options {
    bool lenient; /* names that only the module or only the file has are no error */
    /* Parameters become what the file has, with its type; block formats are frozen. Otherwise values are converted to
     * what the parameter is. */
    bool as_stored;
    /* may be NULL: called for each such name, strict or not */
    void (*note)(void *arg, qn_load_note note, const char *path);
    /* May be NULL. The device of the context that a tensor shall lie on, as qn_to_device takes it: asked once for each
     * tensor that is loaded, of a tied one for each name, and the last is right; NULL: where the parameter lies. */
    const char *(*place)(void *arg, const char *path, const qn_tensor_info *info);
    /* May be NULL. The name that the file has for a path, written to text or static; NULL: no such tensor in the file.
     */
    const char *(*name_in_file)(void *arg, const char *path, char *text, size_t size);
    void *arg;
} qn_load_options;

/* GGUF or safetensors (or the index of a sharded model), by content. All names, shapes and types are checked before any
 * tensor changes; of a tied parameter one of its names suffices. Handles stay the same; gradients are given up. */
QN_API qn_status qn_module_load(qn_module *m, const char *path, const qn_load_options *options, qn_error *err);
/* The same from another module: values of the same paths, each to where it lies in m. The other may belong to another
 * context; qn_module_to_device is what moves a module between devices of one. */
QN_API qn_status qn_module_load_from(qn_module *m, qn_module *from, bool lenient, qn_error *err);

/* ---- first values ---------------------------------------------------------------------------- */

/* In place, no gradient recorded; t is returned, NULL on failure. Names and formulas are torch.nn.init's. */
QN_API qn_tensor *qn_init_constant_(qn_tensor *t, double value);
QN_API qn_tensor *qn_init_zeros_(qn_tensor *t);
QN_API qn_tensor *qn_init_ones_(qn_tensor *t);
QN_API qn_tensor *qn_init_eye_(qn_tensor *t); /* a matrix */
QN_API qn_tensor *qn_init_uniform_(qn_tensor *t, double from, double to);
QN_API qn_tensor *qn_init_normal_(qn_tensor *t, double mean, double deviation);
/* Normal, but never outside [min, max]. */
QN_API qn_tensor *qn_init_trunc_normal_(qn_tensor *t, double mean, double deviation, double min, double max);
QN_API qn_tensor *qn_init_xavier_uniform_(qn_tensor *t, double gain); /* gain 0: 1 */
QN_API qn_tensor *qn_init_xavier_normal_(qn_tensor *t, double gain);
/* nonlinearity: as of qn_init_gain; NULL: leaky_relu with slope a. */
QN_API qn_tensor *qn_init_kaiming_uniform_(qn_tensor *t, double a, bool fan_out, const char *nonlinearity);
QN_API qn_tensor *qn_init_kaiming_normal_(qn_tensor *t, double a, bool fan_out, const char *nonlinearity);
/* rows, or columns, orthonormal times gain; gain 0: 1 */
QN_API qn_tensor *qn_init_orthogonal_(qn_tensor *t, double gain);
/* "linear", "conv1d" .., "sigmoid", "tanh", "relu", "leaky_relu" (slope `a`), "selu". False when it is none of these.
 */
QN_API bool qn_init_gain(const char *nonlinearity, double a, double *out);

/* ---- layers ---------------------------------------------------------------------------------- */

#define QN_MODULES(...) \
    (qn_module *const[]){__VA_ARGS__}, (int)(sizeof((qn_module *const[]){__VA_ARGS__}) / sizeof(qn_module *))

/* weight [out,in], bias [out]: x [..,in] -> [..,out] */
QN_API qn_module *qn_nn_linear(qn_context *c, int64_t in, int64_t out, bool bias);
/* weight [num,dim]: indices [..] -> [..,dim]. padding_idx: that row starts as zeros and gets no gradient; negative:
 * none. */
QN_API qn_module *qn_nn_embedding(qn_context *c, int64_t num, int64_t dim, int64_t padding_idx);
/* weight, bias [dims]; eps 0: 1e-5 */
QN_API qn_module *qn_nn_layer_norm(qn_context *c, qn_shape dims, double eps, bool affine, bool bias);
QN_API qn_module *qn_nn_rms_norm(qn_context *c, int64_t dim, double eps); /* weight [dim]; eps 0: 1e-5 */
/* weight, bias [channels] */
QN_API qn_module *qn_nn_group_norm(qn_context *c, int groups, int64_t channels, double eps, bool affine);

/* weight [out, in / groups, kernel ..], bias [out]. options may be NULL. */
QN_API qn_module *qn_nn_conv1d(qn_context *c, int64_t in, int64_t out, int64_t kernel, bool bias,
                               const qn_conv_options *options);
QN_API qn_module *qn_nn_conv2d(qn_context *c, int64_t in, int64_t out, int64_t kernel_h, int64_t kernel_w, bool bias,
                               const qn_conv_options *options);
QN_API qn_module *qn_nn_max_pool2d(qn_context *c, const qn_pool_options *options);
QN_API qn_module *qn_nn_avg_pool2d(qn_context *c, const qn_pool_options *options);
QN_API qn_module *qn_nn_flatten(qn_context *c, int first, int last); /* PyTorch's default is 1, -1 */
QN_API qn_module *qn_nn_dropout(qn_context *c, double p);            /* while training */

/* QN_ACTIVATION(name, "Name", what of x): qn_nn_name(c), a module without parameters. */
/* clang-format off */
#define QN_ACTIVATION_ROWS(QN_ACTIVATION) \
    QN_ACTIVATION(identity, "Identity", qn_to(x, qn_dtype_of(x))) \
    QN_ACTIVATION(relu,     "ReLU",     qn_relu(x)) \
    QN_ACTIVATION(silu,     "SiLU",     qn_silu(x)) \
    QN_ACTIVATION(sigmoid,  "Sigmoid",  qn_sigmoid(x)) \
    QN_ACTIVATION(tanh,     "Tanh",     qn_tanh(x)) \
    QN_ACTIVATION(gelu,     "GELU",     qn_gelu(x, false)) \
    QN_ACTIVATION(gelu_tanh, "GELUTanh", qn_gelu(x, true)) \
    QN_ACTIVATION(softplus, "Softplus", qn_softplus(x, 1, 20)) \
    QN_ACTIVATION(elu,      "ELU",      qn_elu(x, 1)) \
    QN_ACTIVATION(leaky_relu, "LeakyReLU", qn_leaky_relu(x, 0.01)) \
    QN_ACTIVATION(softmax,  "Softmax",  qn_softmax(x, -1)) \
    QN_ACTIVATION(log_softmax, "LogSoftmax", qn_log_softmax(x, -1))
/* clang-format on */
#define QN_ACTIVATION_DECLARE(name, type, of_x) QN_API qn_module *qn_nn_##name(qn_context *c);
QN_ACTIVATION_ROWS(QN_ACTIVATION_DECLARE)
#undef QN_ACTIVATION_DECLARE
/* A function of one tensor as a module: fn is called with arg. */
QN_API qn_module *qn_nn_function(qn_context *c, const char *name, qn_tensor *(*fn)(void *arg, qn_tensor *x), void *arg);

/* ---- containers ------------------------------------------------------------------------------ */

/* One after the other; names "0", "1", .. The modules are taken over. */
QN_API qn_module *qn_nn_sequential(qn_context *c, qn_module *const *modules, int n);
/* The same names, but no forward of its own: whoever holds it calls qn_module_child. */
QN_API qn_module *qn_nn_module_list(qn_context *c, qn_module *const *modules, int n);
QN_API qn_module *qn_module_append(qn_module *list, qn_module *m); /* to either; gives m */

/* ---- transformers ---------------------------------------------------------------------------- */

/* Keys and values of earlier positions, for decoding a few tokens at a time: one cache goes with one run of `batch`
 * sequences of equal length. Every step of as many tokens finds its graph compiled, but for one in 256 positions. They
 * are kept in F32 for modules of F32, F16 and BF16, and in F64 from when a module of F64 computes with them. No
 * gradients. */
typedef struct qn_kv_cache qn_kv_cache;
typedef struct qn_kv_options {
    int64_t n_layers, batch, heads, head_dim, capacity; /* heads: of the keys; capacity: positions */
} qn_kv_options;
QN_API qn_kv_cache *qn_kv_cache_create(qn_context *c, const qn_kv_options *options);
QN_API void qn_kv_cache_destroy(qn_kv_cache *kv);
QN_API int64_t qn_kv_cache_length(const qn_kv_cache *kv);
QN_API void qn_kv_cache_truncate(qn_kv_cache *kv, int64_t length); /* forgets what comes after; 0: all */

typedef struct qn_mha_options {
    int64_t embd, heads;
    int64_t kv_heads;     /* fewer heads for keys and values; 0: heads */
    int64_t k_dim, v_dim; /* size of key and value inputs; 0: embd */
    bool bias;
    bool is_causal;              /* row i sees keys 0 .. i, where no mask is given */
    double dropout_p;            /* of the weights, while training */
    const qn_rope_options *rope; /* NULL: none */
} qn_mha_options;
/* q_proj, k_proj, v_proj, out_proj: Linear. Inputs: query [..,n,embd], key [..,m,k_dim] (NULL: query), value (NULL:
 * key), mask (NULL; as of qn_scaled_dot_product_attention: true takes part) -> [..,n,embd]. Batches come first. */
QN_API qn_module *qn_nn_mha(qn_context *c, const qn_mha_options *options);
/* x [batch,n,embd] are the next n positions: they see those in the cache and themselves. */
QN_API qn_tensor *qn_mha_forward_cached(qn_module *m, qn_tensor *x, qn_kv_cache *cache, int layer);

/* Inputs: x [..,n,heads,d], positions (NULL: 0, 1, ..): qn_rope. No parameters. */
QN_API qn_module *qn_nn_rotary(qn_context *c, const qn_rope_options *options);

typedef struct qn_ffn_options {
    int64_t dim, hidden;
    bool gated, bias;
    const char *activation; /* a name of QN_ACTIVATION_ROWS; NULL: silu */
    double dropout_p;       /* of what goes into `down` */
} qn_ffn_options;
/* up, down, and with gated: gate: Linear. down(activation(up(x))), or down(activation(gate(x)) * up(x)). */
QN_API qn_module *qn_nn_feed_forward(qn_context *c, const qn_ffn_options *options);

/* A model of any architecture that the engine runs (qn_architectures in quern/engine.h) but mixtures of experts, whose
 * products have no gradient: the same layers, computed by the same description, as tensor operations. */
typedef struct qn_decoder_options {
    /* An open GGUF file: the module has its architecture, hyperparameters and tensors, and the fields from here to
     * `optional` are 0. Its weights are read by qn_module_load; the file may be closed before. */
    const qn_gguf *file;
    const char *arch; /* NULL: llama */
    int64_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_ff;
    int64_t n_kv_head;          /* 0: n_head */
    int64_t head_dim;           /* 0: n_embd / n_head */
    double norm_eps, rope_base; /* 0: 1e-5, the architecture's */
    bool tied;                  /* the token embedding is the output matrix too */
    /* other hyperparameters, by their keys in files behind the architecture's name: "attention.sliding_window=64";
     * NULL-terminated, or NULL */
    const char *const *set;
    /* of the tensors that a file may lack, those that it has: "rope_freqs.weight", and of layers "attn_q.bias";
     * NULL-terminated, or NULL. What files mostly have is there in any case */
    const char *const *optional;
    double dropout_p; /* of embeddings and of what each half of a layer adds */
    /* in training, of each layer its input alone is kept for backward, which computes the inside again: the same
     * gradients, to the bit, in less memory */
    bool grad_checkpointing;
    /* of first weights; 0: 0.02. What is added 2 n_layer times starts smaller by sqrt(2 n_layer) */
    double deviation;
} qn_decoder_options;
/* Inputs: tokens [batch,n], I32 or I64, and a mask (NULL: each sees what the architecture has it see; as of
 * qn_scaled_dot_product_attention, [batch,1,n,n], for sequences that share a row; windows narrow it) -> logits
 * [batch,n,n_vocab], or, where the architecture has no output matrix (encoders), hidden states [batch,n,n_embd].
 * Tensors have the names of GGUF files of the architecture, and a GGUF that it is saved to has its metadata: with a
 * vocabulary added, it is a model that the engine runs. Norms begin as ones, biases as zeros, matrices normal; factors
 * that frequencies are divided by are buffers of ones. */
QN_API qn_module *qn_nn_decoder(qn_context *c, const qn_decoder_options *options);
/* The next n tokens of a run: logits [batch,n,n_vocab]. */
QN_API qn_tensor *qn_decoder_decode(qn_module *m, qn_tensor *tokens, qn_kv_cache *cache);
/* A cache that fits; capacity 0: n_ctx. */
QN_API qn_kv_cache *qn_decoder_cache(qn_module *m, int64_t batch, int64_t capacity);

/* The same for Llama and what has its hyperparameters, by fields instead of keys. */
typedef struct qn_llama_options {
    int64_t n_vocab, n_ctx, n_embd, n_layer, n_head, n_ff;
    int64_t n_kv_head;          /* 0: n_head */
    int64_t head_dim;           /* 0: n_embd / n_head */
    double norm_eps, rope_base; /* 0: 1e-5, the architecture's */
    bool tied;                  /* the token embedding is the output matrix too */
    const char *arch;           /* "llama", "qwen2", "qwen3" ..; NULL: llama */
    /* attn_q.bias, attn_k.bias, attn_v.bias; attn_output.bias; ffn_gate.bias, ffn_up.bias, ffn_down.bias */
    bool qkv_bias, out_bias, ff_bias;
    /* a buffer rope_freqs.weight [head_dim / 2] that frequencies are divided by; ones at first */
    bool rope_factors;
    double rope_factor;      /* linear scaling: positions are divided by this; 0: 1 */
    bool yarn;               /* YaRN with that factor instead */
    double rope_attn_factor; /* 0: 1 */
    int64_t n_ctx_orig;      /* of YaRN: the context before it was stretched; 0: n_ctx */
    double dropout_p;        /* as in qn_decoder_options */
    bool grad_checkpointing;
    double deviation;
} qn_llama_options;
/* invalid where the architecture has no tensors or hyperparameters for what is asked. */
QN_API qn_module *qn_nn_llama(qn_context *c, const qn_llama_options *options);
QN_API qn_tensor *qn_llama_decode(qn_module *m, qn_tensor *tokens, qn_kv_cache *cache); /* qn_decoder_decode */
QN_API qn_kv_cache *qn_llama_cache(qn_module *m, int64_t batch, int64_t capacity);      /* qn_decoder_cache */
/* What a GGUF file is, for qn_nn_llama and then qn_module_load. unsupported where these options cannot say it all:
 * qn_nn_decoder takes the file itself. */
QN_API qn_status qn_llama_options_read(const qn_gguf *file, qn_llama_options *out, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
