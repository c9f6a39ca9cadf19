/* SPDX-License-Identifier: MIT */
/* src/model/archs.c -- the list of architectures, made of archs.def. */
#include "model/arch.h"
#include <quern/engine.h>
#include <string.h>

#define QN_ARCH(id, name) extern const qn_arch qn__arch_##id;
#include "model/archs.def"
#undef QN_ARCH

static const qn_arch *const archs[] = {
#define QN_ARCH(id, name) &qn__arch_##id,
#include "model/archs.def"
#undef QN_ARCH
};

static const char *const names[] = {
#define QN_ARCH(id, name) name,
#include "model/archs.def"
#undef QN_ARCH
    NULL,
};

const qn_arch *const *qn__archs(int *n)
{
    *n = (int)(sizeof(archs) / sizeof(archs[0]));
    return archs;
}

const char *const *qn_architectures(void) { return names; }

const qn_arch *qn__arch_find(const char *name)
{
    for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++)
        if (strcmp(archs[i]->name, name) == 0) return archs[i];
    return NULL;
}
