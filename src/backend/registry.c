/* SPDX-License-Identifier: MIT */
/* src/backend/registry.c -- the list of backend types, from backends.def. */
#include "backend/backend.h"

#include <string.h>

#define QN_BACKEND(name) extern const qn_backend_type qn__backend_##name;
#include "backend/backends.def"
#undef QN_BACKEND

#define QN_BACKEND(name) &qn__backend_##name,
static const qn_backend_type *const types[] = {
#include "backend/backends.def"
};
#undef QN_BACKEND

enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

const qn_backend_type *const *qn__backend_types(int *n)
{
    *n = N_TYPES;
    return types;
}

const qn_backend_type *qn__backend_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i]->name, name)) return types[i];
    return NULL;
}
