/* SPDX-License-Identifier: MIT */
/* src/serve/routes.c -- which path leads where. */
#include "serve/routes.h"
#include "serve/anthropic.h"
#include "serve/native.h"
#include "serve/ollama.h"
#include "serve/openai.h"
#include "serve/responses.h"
#include <stdio.h>
#include <string.h>

static const route routes[] = {
#define ROUTE(method, path, function, dialect, by, open, needs) \
    {#method, path, function, &dialect##_dialect, BY_##by, open, NEEDS_##needs},
#include "serve/routes.def"
#undef ROUTE
};

static bool is_path(const char *pattern, const char *path, const char **rest)
{
    const size_t n = strlen(pattern);
    *rest = "";
    if (pattern[n - 1] != '*') return strcmp(pattern, path) == 0;
    if (strncmp(pattern, path, n - 1) != 0 || !path[n - 1]) return false;
    *rest = path + n - 1;
    return true;
}

const route *route_find(const char *method, const char *path, const char **rest, bool *other_method)
{
    *other_method = false;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        if (!is_path(routes[i].path, path, rest)) continue;
        if (strcmp(routes[i].method, method) == 0) return &routes[i];
        *other_method = true;
    }
    return NULL;
}

void route_methods(const char *path, char *out, size_t size)
{
    const char *rest;
    size_t n = 0;
    *out = '\0';
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]) && n < size; i++) {
        if (!is_path(routes[i].path, path, &rest)) continue;
        n += (size_t)snprintf(out + n, size - n, "%s%s%s", n ? ", " : "", routes[i].method,
                              strcmp(routes[i].method, "GET") == 0 ? ", HEAD" : "");
    }
}
