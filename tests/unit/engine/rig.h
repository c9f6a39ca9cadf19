/* SPDX-License-Identifier: MIT */
/* tests/unit/engine/rig.h -- small models opened, sessions fed, logits compared bit for bit. */
#ifndef QN_TEST_ENGINE_RIG_H
#define QN_TEST_ENGINE_RIG_H

#include "../model/tiny.h"
#include <quern/engine.h>

enum { RIG_VOCAB = 300, RIG_MAX = 128 }; /* tiny.h's vocabulary; most tokens of a test */

static inline qn_engine *rig_open(const tiny *t, const qn_engine_options *options)
{
    static int number;
    char name[32];
    qn_engine *e = NULL;
    snprintf(name, sizeof(name), "model-%d.gguf", number++);
    const char *path = tiny_path(name);
    const qn_engine_options two_threads = {.n_threads = 2};
    MUST(tiny_write(path, t, err));
    MUST(qn_engine_open(path, options ? options : &two_threads, &e, err));
    return e;
}

static inline qn_session *rig_session(qn_engine *e, qn_session_options o)
{
    qn_session *s = NULL;
    if (!o.n_ctx) o.n_ctx = RIG_MAX;
    if (!o.n_batch) o.n_batch = 32;
    MUST(qn_session_create(e, &o, &s, err));
    return s;
}

/* Token i of the story number `story`: every story is another text over the whole vocabulary. */
static inline qn_token rig_token(int story, int i)
{
    return (qn_token)((uint32_t)(story * 7919 + i * 104729 + i * i * 31 + 5) % RIG_VOCAB);
}

static inline void rig_story(int story, qn_token *tokens, int n)
{
    for (int i = 0; i < n; i++) tokens[i] = rig_token(story, i);
}

static inline void rig_feed(qn_session *s, int seq, const qn_token *tokens, int n)
{
    MUST(qn_session_feed(s, seq, tokens, (size_t)n, err));
}

static inline void rig_decode(qn_session *s, const qn_batch_item *items, int n)
{
    MUST(qn_session_decode(s, items, n, err));
}

typedef struct rig_row {
    float x[RIG_VOCAB];
} rig_row;

static inline rig_row rig_logits(const qn_session *s, int index)
{
    rig_row row;
    const float *x = qn_session_logits(s, index);
    assert_non_null(x);
    memcpy(row.x, x, sizeof(row.x));
    return row;
}

/* Logits of the last of n tokens, computed in a session of their own at positions first, first+1, ... */
static inline rig_row rig_fresh_at(qn_engine *e, qn_session_options o, const qn_token *tokens, int n, int first)
{
    o.n_seq = 0;
    qn_session *s = rig_session(e, o);
    for (int i = 0; i < n; i++) rig_decode(s, &(qn_batch_item){tokens[i], first + i, 0, i + 1 == n}, 1);
    const rig_row row = rig_logits(s, 0);
    qn_session_destroy(s);
    return row;
}

static inline rig_row rig_fresh(qn_engine *e, qn_session_options o, const qn_token *tokens, int n)
{
    return rig_fresh_at(e, o, tokens, n, 0);
}

#define SAME(a, b) check_same((a), (b), __FILE__, __LINE__)
static inline void check_same(rig_row a, rig_row b, const char *file, int line)
{
    int n = 0, first = -1;
    for (int i = 0; i < RIG_VOCAB; i++) {
        if (!isfinite(a.x[i])) fail_msg("%s:%d: logit %d is %g", file, line, i, (double)a.x[i]);
        if (memcmp(&a.x[i], &b.x[i], sizeof(float)) == 0) continue;
        if (first < 0) first = i;
        n++;
    }
    if (n)
        fail_msg("%s:%d: %d of %d logits differ, the first is %d: %.9g and %.9g", file, line, n, RIG_VOCAB, first,
                 (double)a.x[first], (double)b.x[first]);
}

/* Root mean square of the difference, relative to the logits' own. */
static inline double rig_distance(const rig_row *a, const rig_row *b)
{
    double num = 0, den = 0;
    for (int i = 0; i < RIG_VOCAB; i++) {
        num += ((double)a->x[i] - b->x[i]) * ((double)a->x[i] - b->x[i]);
        den += (double)b->x[i] * b->x[i];
    }
    return sqrt(num / den);
}

#define DIFFERENT(a, b) check_different((a), (b), __FILE__, __LINE__)
static inline void check_different(rig_row a, rig_row b, const char *file, int line)
{
    const double d = rig_distance(&a, &b);
    if (!(d > 1e-3)) fail_msg("%s:%d: logits differ by %g only: this test would not see a mistake", file, line, d);
}

#endif
