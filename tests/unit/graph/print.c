/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/print.c -- graphs as text (against text written by hand), DOT (which Graphviz must take) and SVG
 * (which must be well-formed and have its shapes apart), with hostile names everywhere. */
#include "common.h"
#include "builders.h"
#include "graph/internal.h"
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

static const char evil[] = "</title>\"&amp;<script>\\n'\x1b[31m\xff\n\xef\xbf\xbe\xe2\x82\xac]]>\\";

/* Arguments are evaluated in no particular order: what makes nodes stands in statements of its own. */
static qn_graph *small(void)
{
    const float data[2] = {1, 2};
    const qn_rope_attrs rope = {.mode = QN_ROPE_NEOX, .n_rot = 2, .base = 10000, .freq_scale = 0.5f, .attn_factor = 1};
    const qn_attn_attrs attn = {.scale = 0.5f, .softcap = 30};
    qn_graph *g = graph_new();
    qn_node *x = qn__input(g, "x", F32, SHAPE(3, 4)), *pos = qn__input(g, "pos", I32, SHAPE(3));
    qn_node *cache = qn__param(g, "cache", QN_DTYPE_F16, SHAPE(8, 4), NULL, 0, QN_NODE_mutable);
    qn__graph_scope(g, 0, -1);
    qn_node *y = qn__name(g, qn__rms_norm(g, x, NULL, 1e-5f), "norm-%d", 0);
    qn_node *w = qn__param(g, "w", QN_DTYPE_BF16, SHAPE(4, 4), NULL, 0, 0);
    y = qn__linear(g, y, w, NULL);
    qn_node *q = qn__reshape(g, y, qn_shape_of(3, 2, 2));
    q = qn__rope(g, q, pos, NULL, &rope);
    cache = qn__slice_update(g, cache, y, 0, 5, true);
    qn__graph_scope(g, 1, -1);
    qn_node *k = qn__reshape(g, cache, qn_shape_of(8, 2, 2)), *spans = qn__input(g, "spans", I32, SHAPE(3, 3));
    qn_node *lists = qn__param(g, "lists", I32, SHAPE(1, 8), NULL, 0, 0);
    y = qn__attention(g, &(qn_attn_sources){.q = q, .k = k, .v = k, .lists = lists, .spans = spans}, &attn);
    y = qn__scale(g, qn__permute(g, qn__narrow(g, y, 1, 2, 2), (int[]){1, 0}, 2), -0.25f, 1);
    qn_node *c = qn__reshape(g, qn__const(g, evil, F32, SHAPE(2), data), qn_shape_of(2, 1));
    y = qn__copy(g, y, F32);
    y = qn__add(g, y, c);
    qn__graph_scope(g, -1, -1);
    qn__output(g, qn__name(g, qn__scale(g, y, 3, 0), "out"));
    OK(qn__graph_finish(g, err));
    for (int i = 0; i < g->n_nodes; i++) g->nodes[i]->place = i < 12 ? i % 2 : -1;
    return g;
}

static qn_str print(const qn_graph *g, qn_graph_format format, const qn_print_options *options)
{
    qn_str s = {0};
    OK(qn__graph_print(g, format, options, &s, err));
    assert_int_equal(strlen(s.data), s.len);
    return s;
}

static const char golden[] =
    "graph \"a \\x22title\\x22\": 21 nodes\n"
    "%0 input \"x\" F32 [3,4] on cpu:ref 1.0 us\n"
    "%1 input \"pos\" I32 [3] on place 1 2.0 us\n"
    "%2 param \"cache\" F16 [8,4] mutable on cpu:ref 3.0 us\n"
    "%3 rms_norm(%0) \"norm-0\" F32 [3,4] eps=1e-05 layer=0 on place 1 4.0 us\n"
    "%4 param \"w\" BF16 [4,4] layer=0 on cpu:ref 5.0 us\n"
    "%5 linear(%3, %4) F32 [3,4] layer=0 on place 1 6.0 us\n"
    "%6 view(%5) F32 [3,2,2] layer=0 on cpu:ref 7.0 us\n"
    "%7 rope(%6, %1) F32 [3,2,2] mode=neox n_rot=2 base=10000 freq_scale=0.5 layer=0 on place 1 8.0 us\n"
    "%8 slice_update(%2, %5) F16 [8,4] dim=0 start=5 accumulate layer=0 on cpu:ref 9.0 us\n"
    "%9 view(%8) F16 [8,2,2] layer=1 on place 1 10.0 us\n"
    "%10 input \"spans\" I32 [3,3] layer=1 on cpu:ref 11.0 us\n"
    "%11 param \"lists\" I32 [1,8] layer=1 on place 1 12.0 us\n"
    "%12 attention(%7, %9, %9, %11, %10) F32 [3,4] scale=0.5 softcap=30 layer=1 13.0 us\n"
    "%13 view(%12) F32 [3,2] strides=[4,1] offset=2 layer=1 14.0 us\n"
    "%14 view(%13) F32 [2,3] strides=[1,4] offset=2 layer=1 15.0 us\n"
    "%15 scale(%14) F32 [2,3] scale=-0.25 bias=1 layer=1 16.0 us\n"
    "%16 param \"</title>\\x22&amp;<script>\\x5cn\\x27\\x1b[31m\\xff\\x0a\xef\xbf\xbe\xe2\x82\xac]]>\\x5c\" F32 [2]"
    " const layer=1 17.0 us\n"
    "%17 view(%16) F32 [2,1] layer=1 18.0 us\n"
    "%18 copy(%15) F32 [2,3] layer=1 19.0 us\n"
    "%19 add(%18, %17) F32 [2,3] layer=1 20.0 us\n"
    "%20 scale(%19) \"out\" F32 [2,3] scale=3 output 21.0 us\n";

static void test_text(void **state)
{
    (void)state;
    qn_graph *g = small();
    double ns[21];
    for (int i = 0; i < 21; i++) ns[i] = 1000.0 * (i + 1);
    const char *const places[] = {"cpu:ref", NULL};
    qn_str s = print(g, QN_GRAPH_text,
                     &(qn_print_options){
                         .title = "a \"title\"", .node_ns = ns, .color = QN_GRAPH_COLOR_time, .place_names = places});
    assert_string_equal(s.data, golden);
    qn__str_deinit(&s);
    s = print(g, QN_GRAPH_text, &(qn_print_options){.by_layer_only = true, .layer = 0});
    assert_ptr_equal(strstr(s.data, "graph: 21 nodes, 6 of layer 0\n%3 rms_norm(%0) "), s.data);
    assert_null(strstr(s.data, "attention"));
    qn__str_deinit(&s);
    s = print(g, QN_GRAPH_text, &(qn_print_options){.by_layer_only = true, .layer = -1});
    assert_non_null(strstr(s.data, "attention"));
    qn__str_deinit(&s);
    qn_error e = {0};
    assert_int_equal(qn__graph_print(g, (qn_graph_format)3, NULL, &s, &e), QN_STATUS_invalid);
    assert_string_equal(e.text, "graph format 3 does not exist");
    qn__graph_destroy(g);
}

/* ---- DOT ---- */

static void check_dot(const qn_graph *g, const qn_print_options *options, const char *name)
{
    qn_str s = print(g, QN_GRAPH_dot, options);
    char path[256], command[1500];
    snprintf(path, sizeof path, "%s/graph_print_%s.dot", QN_BUILD_DIR, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(s.data, 1, s.len, f), s.len);
    fclose(f);
    snprintf(
        command, sizeof command,
        "dot -Tplain %s >%s.out 2>&1 && test \"$(grep -c '^node ' %s.out)\" -gt 0 && ! grep -i 'warn\\|error' %s.out",
        path, path, path, path);
    assert_int_equal(system(command), 0);
    qn__str_deinit(&s);
}

static void test_dot(void **state)
{
    (void)state;
    qn_graph *g = small();
    qn_str s = print(g, QN_GRAPH_dot, NULL);
    assert_non_null(strstr(s.data, "subgraph cluster_0 { label=\"layer 0\""));
    int edges = 0, expected = 0;
    for (const char *p = s.data; (p = strstr(p, " -> ")) != NULL; p++) edges++;
    for (int i = 0; i < g->n_nodes; i++) expected += g->nodes[i]->n_src;
    assert_int_equal(edges, expected);
    qn__str_deinit(&s);
    if (system("command -v dot >/dev/null 2>&1") != 0) {
        print_message("Graphviz is not installed: nobody else reads the DOT\n");
        qn__graph_destroy(g);
        return;
    }
    const char *const places[] = {evil, "cpu:avx2"};
    double ns[64] = {0};
    for (int i = 0; i < g->n_nodes; i++) ns[i] = i * 997.0;
    check_dot(g, NULL, "plain");
    check_dot(g, &(qn_print_options){.title = evil, .place_names = places}, "places");
    char path[256], command[400]; /* what Graphviz read is what was meant: it writes the title back as XML */
    snprintf(path, sizeof path, "%s/graph_print_places.dot", QN_BUILD_DIR);
    snprintf(command, sizeof command,
             "dot -Tsvg %s 2>/dev/null | grep -c -F '&lt;/title&gt;\\x22&amp;amp;&lt;script&gt;' >/dev/null", path);
    assert_int_equal(system(command), 0);
    check_dot(g, &(qn_print_options){.title = "times", .node_ns = ns, .color = QN_GRAPH_COLOR_time}, "times");
    check_dot(g, &(qn_print_options){.by_layer_only = true, .layer = 1}, "layer");
    qn__graph_destroy(g);
    g = graph_new();
    s = print(g, QN_GRAPH_dot, NULL);
    qn__str_deinit(&s);
    qn__graph_destroy(g);
}

/* ---- SVG ---- */

/* Every tag closed in order, attributes quoted, entities known, no byte that XML forbids; counts start tags by name. */
typedef struct counts {
    int rect, path, text, title, g;
} counts;

static counts well_formed(const char *s)
{
    counts c = {0};
    char stack[32][16];
    int depth = 0, roots = 0;
    for (const char *p = s; *p != '\0'; p++) {
        const unsigned char b = (unsigned char)*p;
        assert_true(b >= 0x20 || b == '\n');
        if (b == 0xef) assert_false(strncmp(p, "\xef\xbf\xbe", 3) == 0 || strncmp(p, "\xef\xbf\xbf", 3) == 0);
        if (b == '&') {
            assert_true(strncmp(p, "&lt;", 4) == 0 || strncmp(p, "&gt;", 4) == 0 || strncmp(p, "&amp;", 5) == 0 ||
                        strncmp(p, "&quot;", 6) == 0);
        }
        if (b != '<') continue;
        const bool closing = p[1] == '/';
        p += closing ? 2 : 1;
        char name[16];
        size_t n = 0;
        while (isalnum((unsigned char)*p) && n < sizeof name - 1) name[n++] = *p++;
        name[n] = '\0';
        assert_true(n > 0);
        if (closing) {
            assert_true(depth > 0 && *p == '>');
            assert_string_equal(name, stack[--depth]);
            continue;
        }
        while (*p == ' ') { /* name="value" */
            for (p++; *p != '='; p++) assert_true(isalnum((unsigned char)*p) || *p == '-' || *p == ':');
            assert_true(*++p == '"');
            for (p++; *p != '"'; p++) assert_true(*p != '\0' && *p != '<');
            p++;
        }
        c.rect += strcmp(name, "rect") == 0, c.path += strcmp(name, "path") == 0, c.text += strcmp(name, "text") == 0;
        c.title += strcmp(name, "title") == 0, c.g += strcmp(name, "g") == 0;
        if (*p == '/') {
            p++;
        } else {
            assert_true(depth < 32);
            if (depth == 0) roots++;
            strcpy(stack[depth++], name);
        }
        assert_true(*p == '>');
    }
    assert_int_equal(depth, 0);
    assert_int_equal(roots, 1);
    return c;
}

typedef struct box {
    int x, y, w, h;
} box;

/* No two boxes of nodes lie over each other, and all are inside the picture. */
static int boxes_apart(const char *s)
{
    static box boxes[4096];
    int n = 0, width, height;
    assert_int_equal(sscanf(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\"", &width, &height),
                     2);
    for (const char *p = s; (p = strstr(p, "</title><rect ")) != NULL; p++) {
        box *b = &boxes[n++];
        assert_true(n < 4096);
        assert_int_equal(sscanf(p, "</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", &b->x, &b->y, &b->w,
                                &b->h),
                         4);
        assert_true(b->x >= 0 && b->y >= 0 && b->x + b->w <= width && b->y + b->h <= height);
        for (int i = 0; i < n - 1; i++) {
            const box *a = &boxes[i];
            assert_true(a->x + a->w <= b->x || b->x + b->w <= a->x || a->y + a->h <= b->y || b->y + b->h <= a->y);
        }
    }
    return n;
}

static qn_str check_svg(const qn_graph *g, const qn_print_options *options, int n_boxes)
{
    qn_str s = print(g, QN_GRAPH_svg, options);
    const counts c = well_formed(s.data);
    assert_int_equal(boxes_apart(s.data), c.title);
    assert_int_equal(c.title, c.g);
    if (n_boxes >= 0) assert_int_equal(c.g, n_boxes);
    assert_true(c.path >= c.g - n_boxes && c.text > 0);
    assert_null(strstr(s.data, "<script"));
    return s;
}

static void test_svg(void **state)
{
    (void)state;
    qn_graph *g = small();
    double ns[64];
    for (int i = 0; i < g->n_nodes; i++) ns[i] = i * 997.0;
    /* 14 boxes, and a chip for each use of a leaf: x pos cache w lists spans const */
    qn_str s = check_svg(g, NULL, 14 + 7);
    assert_non_null(strstr(s.data, "place 1"));
    assert_non_null(strstr(s.data, "layer 1"));
    qn__str_deinit(&s);
    const char *const places[] = {evil, "cpu:avx2"};
    s = check_svg(g, &(qn_print_options){.title = evil, .place_names = places}, 14 + 7);
    assert_non_null(strstr(s.data, "cpu:avx2"));
    qn__str_deinit(&s);
    s = check_svg(g, &(qn_print_options){.node_ns = ns, .color = QN_GRAPH_COLOR_time}, 14 + 7);
    assert_non_null(strstr(s.data, "19.9 us"));
    qn__str_deinit(&s);
    s = check_svg(g, &(qn_print_options){.by_layer_only = true, .layer = 1}, -1);
    assert_null(strstr(s.data, "norm-0"));
    qn__str_deinit(&s);
    qn__graph_destroy(g);
    g = graph_new();
    s = check_svg(g, NULL, 0);
    qn__str_deinit(&s);
    qn__graph_destroy(g);

    const decoder_shape shape = {12, 4, 64, 4, 2, 16, 96, 500, 128};
    g = graph_new();
    decoder_build(g, &shape);
    OK(qn__graph_optimize(g, NULL, NULL, err));
    s = check_svg(g, &(qn_print_options){.title = "decoder"}, -1);
    if (getenv("QN_KEEP_SVG") != NULL) { /* for looking at */
        FILE *f = fopen(getenv("QN_KEEP_SVG"), "w");
        assert_non_null(f);
        fwrite(s.data, 1, s.len, f);
        fclose(f);
    }
    qn__str_deinit(&s);
    qn__graph_destroy(g);
}

/* Every attribute as text, and left out where it is what it usually is. */
static void test_attributes(void **state)
{
    (void)state;
#define ROW(op, type, text, ...) \
    { \
        QN_OP_##op, &(const type){__VA_ARGS__}, text \
    }
    const struct {
        qn_op op;
        const void *attrs;
        const char *text;
    } rows[] = {
        ROW(matmul, qn_matmul_attrs, "", .alpha = 1),
        ROW(matmul, qn_matmul_attrs, " alpha=0.5 beta=2", .alpha = 0.5, .beta = 2),
        ROW(gather, qn_index_attrs, " dim=1", .dim = 1, .mode = QN_COMBINE_set),
        ROW(scatter, qn_index_attrs, " dim=2 mode=add strict", .dim = 2, .mode = QN_COMBINE_add, .strict = 1),
        ROW(flat_index, qn_flat_attrs, " size=2,3,0,0,0,0", .size = {2, 3}),
        ROW(flat_index, qn_flat_attrs, " size=1,2,3,4,5,6 strict", .size = {1, 2, 3, 4, 5, 6}, .strict = 1),
        ROW(flat_index, qn_flat_attrs, " size=7,0,0,0,0,0 from_start", .size = {7}, .from_start = 1),
        ROW(empty, qn_empty_attrs, "", .rank = 1),
        ROW(strided_update, qn_strided_attrs, " strides=7,1", .layout = {.rank = 2, .stride = {7, 1}}),
        ROW(strided_update, qn_strided_attrs, " strides=2 offset=5 mode=add",
            .layout = {.rank = 1, .stride = {2}, .offset = 5}, .mode = QN_COMBINE_add),
        ROW(tri, qn_tri_attrs, " upper diagonal=-1", .diagonal = -1, .upper = 1),
        ROW(tri, qn_tri_attrs, " lower diagonal=0", .upper = 0),
        ROW(argsort, qn_sort_attrs, " dim=1", .dim = 1),
        ROW(topk, qn_sort_attrs, " dim=0 descending k=1", .descending = 1, .k = 1),
        ROW(pad, qn_pad_attrs, " before=1,0,0,0,0,0,0,0 after=0,2,0,0,0,0,0,0", .before = {1}, .after = {0, 2}),
        ROW(pad, qn_pad_attrs, " before=0,0,0,0,0,0,0,0 after=0,0,0,0,0,0,0,0 value=-1.5", .value = -1.5),
        ROW(pad_index, qn_pad_index_attrs, " n=3 before=1 after=2 mode=circular", 3, 1, 2, QN_PAD_circular, 0),
        ROW(pad_index, qn_pad_index_attrs, " n=3 before=1 after=2 mode=?", 3, 1, 2, QN_PAD_circular + 1, 0),
        ROW(random, qn_random_attrs, " kind=normal a=1 b=0.5 stream=4", .kind = QN_RANDOM_normal, .a = 1, .b = 0.5,
            .stream = 4),
        ROW(random, qn_random_attrs, " kind=bits a=0 b=0 stream=0", .kind = QN_RANDOM_bits),
        ROW(random, qn_random_attrs, " kind=? a=0 b=0 stream=0", .kind = QN_RANDOM_bits + 1),
        ROW(conv, qn_conv_attrs, " stride=1,2 padding=0,3 dilation=1,1", .stride = {1, 2}, .padding = {0, 3},
            .dilation = {1, 1}, .n_spatial = 2, .groups = 1),
        ROW(conv, qn_conv_attrs, " stride=1 padding=0 dilation=1 groups=4", .stride = {1}, .dilation = {1},
            .n_spatial = 1, .groups = 4),
        ROW(pool, qn_pool_attrs, " kind=argmax window=3 stride=2 padding=1", .kernel = {3}, .stride = {2},
            .padding = {1}, .kind = QN_POOL_argmax, .n_spatial = 1),
        ROW(pool, qn_pool_attrs, " kind=avg adaptive", .kind = QN_POOL_avg, .n_spatial = 1, .adaptive = 1),
        ROW(pool, qn_pool_attrs, " kind=? adaptive", .kind = QN_POOL_argmax + 1, .adaptive = 1),
        ROW(upsample, qn_upsample_attrs, " mode=linear align_corners size=4,5", .size = {4, 5}, .n_spatial = 2,
            .mode = QN_UPSAMPLE_linear, .align_corners = 1),
        ROW(upsample, qn_upsample_attrs, " mode=nearest size=4", .size = {4}, .n_spatial = 1),
        ROW(sgd_step, qn_sgd_attrs, " mode=nesterov", QN_SGD_nesterov),
        ROW(sgd_step, qn_sgd_attrs, "", QN_SGD_MODES),
        ROW(embedding_bag, qn_bag_attrs, " mode=mean", .mode = QN_BAG_mean, .padding_idx = -1),
        ROW(embedding_bag, qn_bag_attrs, " mode=max padding_idx=0 strict", .mode = QN_BAG_max, .strict = 1),
        ROW(embedding_bag, qn_bag_attrs, " mode=?", .mode = QN_BAG_max + 1, .padding_idx = -1),
        ROW(sdpa, qn_sdpa_attrs, " scale=0.5", .scale = 0.5),
        ROW(attention, qn_attn_attrs, " scale=1 sinks", .scale = 1, .has_sinks = 1),
        ROW(attention, qn_attn_attrs, " scale=1 alibi=8", .scale = 1, .alibi = 8),
        ROW(sdpa, qn_sdpa_attrs, " scale=1 causal mask sinks softcap=30 window=7", .scale = 1, .causal = 1,
            .has_mask = 1, .has_sinks = 1, .softcap = 30, .window = 7),
        ROW(layer_norm, qn_layer_norm_attrs, " eps=1e-05", 1e-5),
        ROW(norm_back, qn_norm_back_attrs, " of=layer_norm eps=0.5 wanted=xb", .eps = 0.5, .centred = 1,
            .wanted = QN_NORM_x | QN_NORM_b),
        ROW(norm_back, qn_norm_back_attrs, " of=rms_norm eps=0.5 wanted=w", .eps = 0.5, .wanted = QN_NORM_w),
        ROW(softmax_back, qn_softmax_back_attrs, " of=softmax", .log = 0),
        ROW(softmax_back, qn_softmax_back_attrs, " of=log_softmax", .log = 1),
        ROW(rope, qn_rope_attrs, " mode=norm n_rot=8 base=5 sections=[1,2,1,0] interleaved of_text", .n_rot = 8,
            .base = 5, .freq_scale = 1, .attn_factor = 1, .sections = {1, 2, 1}, .interleaved = 1, .of_text = 1),
        ROW(rope, qn_rope_attrs,
            " mode=norm n_rot=8 base=5 ext_factor=1 beta_fast=32 beta_slow=1 n_ctx_orig=64 exact_bounds", .n_rot = 8,
            .base = 5, .freq_scale = 1, .attn_factor = 1, .ext_factor = 1, .beta_fast = 32, .beta_slow = 1,
            .n_ctx_orig = 64, .exact_bounds = 1),
        ROW(rope_apply, qn_rope_apply_attrs, " mode=neox n_rot=4 back", .mode = QN_ROPE_NEOX, .n_rot = 4, .back = 1),
        ROW(rope_apply, qn_rope_apply_attrs, " mode=norm n_rot=2 heads_first", .mode = QN_ROPE_NORM, .n_rot = 2,
            .heads_first = 1),
        ROW(cross_entropy, qn_cross_entropy_attrs, " reduction=none ignore=-100", .reduction = QN_LOSSES_none,
            .ignore = -100),
        ROW(cross_entropy, qn_cross_entropy_attrs, " reduction=? ignore=0 smoothing=0.1",
            .reduction = QN_LOSSES_none + 1, .smoothing = 0.1),
        ROW(scale, qn_scale_attrs, " scale=2", .scale = 2),
        ROW(clamp, qn_clamp_attrs, " min=-1 max=0.25", -1, 0.25),
        ROW(gelu, qn_gelu_attrs, "", 0),
        ROW(gelu, qn_gelu_attrs, " tanh", 1),
        ROW(sum, qn_reduce_attrs, " dims=0,2 keep", .dims = 5, .keep = 1),
        ROW(sum, qn_reduce_attrs, " dims=7", .dims = 128),
    };
#undef ROW
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_str s = {0};
        qn__attrs_print(&(qn_node){.op = rows[i].op, .attrs = rows[i].attrs}, &s);
        const char *text = s.data ? s.data : "";
        if (strcmp(text, rows[i].text) != 0)
            fail_msg("%s: \"%s\", \"%s\" expected", qn__op_info(rows[i].op)->name, text, rows[i].text);
        qn__str_deinit(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_attributes),
                                       cmocka_unit_test(test_dot), cmocka_unit_test(test_svg)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
