/* SPDX-License-Identifier: MIT */
/* quern/array.h -- tensors: contexts, creation, views, looking at values, files.
 *
 *     qn_context *c;
 *     qn_context_create(NULL, &c, &err);
 *     qn_tensor *a = qn_from_data(c, (float[]){1, 2, 3, 4}, qn_shape_of(2, 2), QN_DTYPE_F32);
 *     qn_print(qn_matmul(a, qn_transpose(a, 0, 1)));
 *     qn_context_destroy(c);
 *
 * Values. A tensor is a view (shape, strides, offset) of a storage that other tensors may share: what is written
 * through one is seen in all. Operations check shapes and types at once and record; nothing is computed until somebody
 * looks (qn_item, qn_data, qn_print, qn_eval ...). Then all that was recorded runs as one compiled graph; a program
 * that records the same again finds that graph compiled and allocates nothing. Semantics, promotion of types and
 * broadcasting are PyTorch's, a trailing _ means in place.
 *
 * Ownership. Every function that makes a tensor gives a new handle, which belongs to the innermost scope that is open
 * (qn_scope_begin) and ends with it; the context is the outermost scope. So expressions nest freely:
 *
 *     qn_scope_begin(c);
 *     qn_tensor *y = qn_relu(qn_add(qn_matmul(x, w), b));
 *     return qn_scope_end(c, y);       y moves to the scope around, everything else ends here
 *
 * qn_keep takes a tensor out of all scopes, until qn_release; qn_release ends any handle early. Handles in a scope that
 * is still open when something is looked at are computed then and kept in memory; those that have ended are not: look
 * after a scope's end.
 *
 * Errors. Functions that make a tensor return NULL when something is wrong, and pass NULL on: an expression needs one
 * check at its end. The context keeps the first error until qn_context_clear: qn_context_error says what was wrong,
 * with the operation and the shapes. Functions that return a qn_status leave their error there too. A handle that was
 * released, or whose scope has ended, is found out as long as its context lives, whatever was made since. After an
 * error every tensor is what it was before. Only an index that is out of range is found later, at the next look: see
 * quern/functions.h.
 *
 * Dimensions count from the end when negative. Handles of a context are used by one thread at a time.
 *
 * Devices. A context has one or several (its option `backend`: "cpu,opencl:0"), and every tensor lies on one of them.
 * What is made lies on the first, or where qn_set_default_device says, what follows from tensors where they lie;
 * qn_to_device moves. An operation on tensors of two devices is an error that names both; but a 0-d tensor in memory of
 * the host goes along with any, and qn_copy_ crosses. Gradients go back the way that values came. An operation that a
 * device has no kernel for is computed by the next device of the list that has one, on copies, and its result comes
 * back: a line in the log says so once for each operation, qn_context_get_info counts, and `strict` makes it an error.
 * Results have the same bits wherever they are computed (docs/DEVICES.md says which devices round otherwise). A device
 * that is gone gives the status `lost`, from then on; what lies elsewhere is still there.
 *
 * Tensors of two contexts do not mix; qn_to_context copies. */
#ifndef QUERN_ARRAY_H
#define QUERN_ARRAY_H

#include <quern/base.h>
#include <quern/graph.h>
#include <quern/machine.h>
#include <quern/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_context qn_context;
typedef struct qn_tensor qn_tensor;

/* ---- contexts -------------------------------------------------------------------------------- */

typedef struct qn_context_options {
    /* Its devices, as the program's --backends names them, at most 8 with commas between: "cpu", "cpu:avx2" (at most
     * that level), "opencl:0,cpu", "cuda". The first is where tensors are made. NULL: "cpu". */
    const char *backend;
    int n_threads;          /* 0: all that make sense */
    int plan_cache;         /* compiled graphs kept; 0: 64 */
    int max_pending;        /* operations recorded before they are run unasked; 0: 16384 */
    uint32_t passes_off;    /* QN_PASS_BIT of each graph pass that is switched off; the bits of results stay */
    bool strict;            /* what the device of its tensors has no kernel for is an error: unsupported */
    uint64_t device_memory; /* bytes that may be taken of each device; 0: what is free there */
} qn_context_options;

QN_API qn_status qn_context_create(const qn_context_options *options, qn_context **out, qn_error *err);
/* Ends every tensor of it, kept ones too. NULL is fine. Modules, optimizers and KV caches of it may be destroyed after
 * it: until then it can be asked for its error, and whatever uses it says that it was destroyed. */
QN_API void qn_context_destroy(qn_context *ctx);
/* Its devices by number, in the order of the list, by their names: "cpu:avx512", "opencl:0". Borrowed, as long as the
 * context; NULL past the end. */
QN_API int qn_context_n_devices(const qn_context *ctx);
QN_API const char *qn_context_device(const qn_context *ctx, int i);
/* Where what is made lies: the first until it is set. A device is named as above, or by its type alone ("opencl"),
 * which is the first of that type. invalid, and nothing changes, when the context has none of that name. */
QN_API const char *qn_context_backend(const qn_context *ctx);
QN_API qn_status qn_set_default_device(qn_context *ctx, const char *device);
/* The first error since the last clear; its status is QN_OK when there was none. Never NULL. */
QN_API const qn_error *qn_context_error(const qn_context *ctx);
QN_API void qn_context_clear(qn_context *ctx);
/* For functions built on these: leaves an error as the operations here do; gives the status back. */
QN_API qn_status qn_context_fail(qn_context *ctx, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);

typedef struct qn_context_info {
    uint64_t live_bytes, idle_bytes; /* memory of storages; kept for the next ones */
    uint64_t activation_bytes;       /* that graphs compute in: the largest so far decides */
    int64_t n_tensors, n_storages;   /* alive */
    int64_t n_pending;               /* operations recorded and not run */
    uint64_t n_runs;                 /* graphs run so far */
    uint64_t n_fallbacks; /* operations computed so far on another device than their tensors', for want of a kernel */
} qn_context_info;
QN_API void qn_context_get_info(const qn_context *ctx, qn_context_info *out);
/* Gives memory that nobody uses back to the system. */
QN_API void qn_context_trim(qn_context *ctx);

/* ---- ownership ------------------------------------------------------------------------------- */

/* Scopes nest to any depth. state when there is no memory for another one. */
QN_API qn_status qn_scope_begin(qn_context *ctx);
/* Ends the innermost scope. `result` (may be NULL), when it was made in it, goes on in the scope around; returned as it
 * is. */
QN_API qn_tensor *qn_scope_end(qn_context *ctx, qn_tensor *result);
QN_API qn_tensor *qn_keep(qn_tensor *t);
QN_API void qn_release(qn_tensor *t);
/* One more qn_release is needed than before; scopes count as one. */
QN_API qn_tensor *qn_retain(qn_tensor *t);

/* ---- creation -------------------------------------------------------------------------------- */

#define QN_SCALAR ((qn_shape){0}) /* the shape of a 0-d tensor */

QN_API qn_tensor *qn_empty(qn_context *ctx, qn_shape shape, qn_dtype dtype); /* undefined values */
QN_API qn_tensor *qn_zeros(qn_context *ctx, qn_shape shape, qn_dtype dtype);
QN_API qn_tensor *qn_ones(qn_context *ctx, qn_shape shape, qn_dtype dtype);
/* A number beyond the dtype's range is an error, here and in qn_fill_, qn_masked_fill, qn_pad and qn_linspace. */
QN_API qn_tensor *qn_full(qn_context *ctx, qn_shape shape, double value, qn_dtype dtype);
QN_API qn_tensor *qn_scalar(qn_context *ctx, double value, qn_dtype dtype);
QN_API qn_tensor *qn_empty_like(const qn_tensor *t);
QN_API qn_tensor *qn_zeros_like(const qn_tensor *t);
QN_API qn_tensor *qn_ones_like(const qn_tensor *t);
QN_API qn_tensor *qn_full_like(const qn_tensor *t, double value);
/* start, start + step, ... below (above, for a negative step) end. */
QN_API qn_tensor *qn_arange(qn_context *ctx, double start, double end, double step, qn_dtype dtype);
QN_API qn_tensor *qn_linspace(qn_context *ctx, double start, double end, int64_t steps, qn_dtype dtype);
QN_API qn_tensor *qn_eye(qn_context *ctx, int64_t rows, int64_t columns, qn_dtype dtype);
/* Copies row-major elements of that dtype. */
QN_API qn_tensor *qn_from_data(qn_context *ctx, const void *data, qn_shape shape, qn_dtype dtype);
/* Uses the host's memory itself, no copy; strides in elements, NULL for row-major. The memory outlives every tensor
 * over it and is read and written by the operations on them; it is aligned for the dtype. Two tensors made over the
 * same memory do not know of each other: look (qn_eval) at what one writes before the other is used. deleter (may be
 * NULL) is called with arg exactly once, when the last one has ended; when this function fails it is not called. */
QN_API qn_tensor *qn_from_blob(qn_context *ctx, void *data, qn_shape shape, const int64_t *strides, qn_dtype dtype,
                               void (*deleter)(void *arg), void *arg);

/* ---- what a tensor is ------------------------------------------------------------------------ */

/* Of NULL, and of a tensor that is over: NULL, QN_DTYPE_COUNT, rank 0, -1 or false. */
QN_API qn_context *qn_context_of(const qn_tensor *t);
QN_API qn_dtype qn_dtype_of(const qn_tensor *t);
QN_API qn_shape qn_shape_get(const qn_tensor *t);
QN_API qn_layout qn_layout_get(const qn_tensor *t);
QN_API int qn_rank(const qn_tensor *t);
QN_API int64_t qn_dim(const qn_tensor *t, int dim); /* -1 when there is no such dimension */
QN_API int64_t qn_numel(const qn_tensor *t);
QN_API bool qn_is_contiguous(const qn_tensor *t);
QN_API bool qn_shares_storage(const qn_tensor *a, const qn_tensor *b);
QN_API const char *qn_device_of(const qn_tensor *t); /* its device's name, borrowed as qn_context_device's; or NULL */

/* ---- views: a new handle over the same storage ----------------------------------------------- */

/* PyTorch's view: fails when strides forbid it; one -1 is inferred */
QN_API qn_tensor *qn_view_as(qn_tensor *t, qn_shape shape);
QN_API qn_tensor *qn_permute(qn_tensor *t, const int *dims, int n_dims); /* out[i] = in[dims[i]] */
#define qn_permute_to(t, ...) \
    qn_permute((t), (const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))
QN_API qn_tensor *qn_transpose(qn_tensor *t, int dim0, int dim1);
QN_API qn_tensor *qn_squeeze(qn_tensor *t, int dim);
QN_API qn_tensor *qn_squeeze_all(qn_tensor *t);
QN_API qn_tensor *qn_unsqueeze(qn_tensor *t, int dim);
QN_API qn_tensor *qn_expand(qn_tensor *t, qn_shape shape); /* stride 0; -1 keeps a dimension */
QN_API qn_tensor *qn_narrow(qn_tensor *t, int dim, int64_t start, int64_t length);
QN_API qn_tensor *qn_select(qn_tensor *t, int dim, int64_t index);
#define QN_END INT64_MAX
/* Python's start:stop:step, step > 0 */
QN_API qn_tensor *qn_slice(qn_tensor *t, int dim, int64_t start, int64_t stop, int64_t step);
/* a copy when strides forbid a view, as reshape */
QN_API qn_tensor *qn_flatten(qn_tensor *t, int first, int last);
QN_API qn_tensor *qn_reshape(qn_tensor *t, qn_shape shape);
/* At most n parts of ceil(dim / n), as PyTorch cuts; parts of `size`, the last one smaller. `out` has room for
 * `capacity` handles; the number made is returned, -1 on failure, when none is. */
QN_API int qn_chunk(qn_tensor *t, int n, int dim, qn_tensor **out, int capacity);
QN_API int qn_split(qn_tensor *t, int64_t size, int dim, qn_tensor **out, int capacity);
/* Parts of sizes[0], sizes[1], ..: n of them, which `out` has room for; together they are the dimension. torch.split(t,
 * [2, 3, 5]). */
QN_API int qn_split_sizes(qn_tensor *t, const int64_t *sizes, int n, int dim, qn_tensor **out);

/* ---- copies ---------------------------------------------------------------------------------- */

QN_API qn_tensor *qn_clone(qn_tensor *t);
/* another handle of the same storage when it is that already */
QN_API qn_tensor *qn_contiguous(qn_tensor *t);
QN_API qn_tensor *qn_to(qn_tensor *t, qn_dtype dtype); /* likewise */
/* PyTorch's to(device): a dense copy there, through which gradients flow; another handle when it lies there already.
 * What lies in memory is copied at once, what is recorded when it is computed. */
QN_API qn_tensor *qn_to_device(qn_tensor *t, const char *device);
/* A copy in another context, on its default device. It is computed now, and must not require a gradient (detach it
 * first). In t's own context: another handle. */
QN_API qn_tensor *qn_to_context(qn_tensor *t, qn_context *ctx);
/* t = src, broadcast, converted, and from another device if it lies there; returns t. */
QN_API qn_tensor *qn_copy_(qn_tensor *t, qn_tensor *src);
QN_API qn_tensor *qn_zero_(qn_tensor *t);
QN_API qn_tensor *qn_fill_(qn_tensor *t, double value);
/* t becomes another handle of what `from` is: of its storage, view and dtype, and the same leaf when it is one; its own
 * gradient is given up. PyTorch's t.data = from. Operations recorded before keep what t was. Returns t. */
QN_API qn_tensor *qn_become(qn_tensor *t, qn_tensor *from);

/* ---- block formats --------------------------------------------------------------------------- */

/* Packed now, so that what cannot be packed (NaN, infinities) is said now; no gradient flows through. The last
 * dimension is a multiple of the format's block. importance: NULL, or a real weight >= 0 for each column, [k], where
 * the format's search takes one (qn_pack). Tensors of block formats can be copied, saved, narrowed to whole blocks,
 * printed (as what they stand for), and used as the weight of qn_linear and the table of qn_embedding; with everything
 * else, qn_dequantize first. */
QN_API qn_tensor *qn_quantize(qn_tensor *t, qn_dtype dtype, qn_tensor *importance);
QN_API qn_tensor *qn_dequantize(qn_tensor *t); /* in F32 */

/* ---- looking: computes whatever is needed ---------------------------------------------------- */

/* Everything that was recorded in the tensor's context, so far as a living tensor shows it. */
QN_API qn_status qn_eval(qn_tensor *t);
QN_API qn_status qn_eval_all(qn_context *ctx);
/* Where element [0,0,..] lies; NULL on failure, and on a device whose memory the host cannot reach. The address stays
 * the same for the life of the storage, in-place operations included. Values written there count from the next
 * operation on. */
QN_API void *qn_data(qn_tensor *t);
/* The only element, converted; NaN or 0 on failure, and the context has the error. */
QN_API double qn_item(qn_tensor *t);
QN_API int64_t qn_item_int(qn_tensor *t);
/* All elements, row-major, converted to double, int64 or as they are; `n` must be their number (`bytes` their size). */
QN_API qn_status qn_to_doubles(qn_tensor *t, double *out, int64_t n);
QN_API qn_status qn_to_ints(qn_tensor *t, int64_t *out, int64_t n);
QN_API qn_status qn_to_host(qn_tensor *t, void *out, size_t bytes);
/* PyTorch's look: tensor([[1., 2.], ...]). The text is freed with qn_free; NULL on failure. print writes it and a
 * newline to standard output. */
QN_API char *qn_to_string(qn_tensor *t);
QN_API qn_status qn_print(qn_tensor *t);
/* t = row-major elements of t's dtype. */
QN_API qn_status qn_set_data(qn_tensor *t, const void *data, size_t bytes);

/* ---- looking inside: how values are computed ------------------------------------------------- */

/* Called around each node of every run (quern/graph.h); NULL takes it away. It may read values, and nothing else of the
 * context. When it stops a run, the call that looked fails with `cancelled` and the run has not happened: memory is
 * what it was, what was recorded is still recorded, and the next look runs it again. For that, while there is a
 * callback, a run first copies the tensors that it writes in place. */
QN_API void qn_context_set_eval(qn_context *ctx, qn_eval_fn fn, void *arg);
/* Inside the callback, after: the node's values, row-major, each as a float32. bytes = 4 * elements. */
QN_API qn_status qn_context_read_node(qn_context *ctx, const qn_node *node, float *dst, uint64_t bytes);
/* While timing is on, runs measure each node (a step then waits for every node: some percent slower), and the graph of
 * the last run prints with times, coloured by them. */
QN_API void qn_context_set_timing(qn_context *ctx, bool on);

/* Which graph: that of what is recorded, as the next look will run it, which computes nothing; or that of the run
 * before, as it ran: state when there is none, or when it was dropped for others (plan_cache). */
typedef enum qn_which_run { QN_NEXT_RUN, QN_LAST_RUN } qn_which_run;
/* Texts are freed with qn_free. The plan is memory, "node -> backend", and steps; the passes' text is a table of what
 * each did; get_passes fills QN_PASS_COUNT rows. */
QN_API qn_status qn_context_print_graph(qn_context *ctx, qn_which_run run, qn_graph_format format, char **out);
QN_API qn_status qn_context_print_plan(qn_context *ctx, qn_which_run run, char **out);
QN_API qn_status qn_context_print_passes(qn_context *ctx, qn_which_run run, char **out);
QN_API qn_status qn_context_get_passes(qn_context *ctx, qn_which_run run, qn_pass_stats *out);

/* ---- files: NumPy's .npy --------------------------------------------------------------------- */

/* Every dtype but packed ones; BF16 as the type V2. The file appears only when it is whole; "-" is standard output. */
QN_API qn_status qn_save_npy(qn_tensor *t, const char *path);
/* Either byte order; a file in Fortran order gives a tensor with such strides. Every size in the file is checked. */
QN_API qn_tensor *qn_load_npy(qn_context *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
