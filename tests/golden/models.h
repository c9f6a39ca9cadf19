/* SPDX-License-Identifier: MIT */
/* tests/golden/models.h -- the models of models.def as a table. */
#ifndef QN_TEST_GOLDEN_MODELS_H
#define QN_TEST_GOLDEN_MODELS_H

#include <quern/engine.h>

#define SET(...) ((const char *const[]){__VA_ARGS__, NULL})
static const struct {
    const char *name;
    qn_synth_options options;
    bool exact; /* in F32: beside NumPy to the last digits */
} models[] = {
#define GOLDEN(name, ...) {#name, {__VA_ARGS__}, false},
#define EXACT(name, ...)  {#name, {__VA_ARGS__}, true},
#include "models.def"
#undef GOLDEN
#undef EXACT
};
enum { N_MODELS = sizeof(models) / sizeof(models[0]) };

#endif
