/* SPDX-License-Identifier: MIT */
/* src/backend/registry.c -- the list of backend types, from backends.def, and opening backends by the names that users
 * write. */
#include "backend/backend.h"

#include <stdio.h>
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

const qn_backend_type *qn__backend_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (!strcmp(types[i]->name, name)) return types[i];
    return NULL;
}

static qn_status not_known(const char *name, qn_error *err)
{
    char known[128] = "";
    for (int i = 0; i < N_TYPES; i++)
        snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "", types[i]->name);
    return QN_FAIL(err, unsupported, "backend \"%s\" is not known; this build has %s", name, known);
}

static qn_status open_one(const char *spec, size_t len, const qn_backend_options *each, qn_backend **out, qn_error *err)
{
    char name[48], quoted[128];
    if (len == 0 || len >= sizeof(name))
        return QN_FAIL(err, invalid, "backend \"%s\" is empty or too long; names are like cpu or cpu:avx2",
                       qn__str_quote(quoted, sizeof(quoted), spec, len));
    memcpy(name, spec, len);
    name[len] = '\0';
    qn__str_quote(quoted, sizeof(quoted), name, strcspn(name, ":"));
    char *which = strchr(name, ':');
    if (which) *which++ = '\0';
    const qn_backend_type *type = qn__backend_find(name);
    if (!type) return not_known(quoted, err);
    qn_backend_options options = each ? *each : (qn_backend_options){0};
    options.which = which;
    return type->open(&options, out, err);
}

/* Names are unique within a list: they stand in listings and graphs. */
static void make_unique(qn_backend *const *opened, int n)
{
    char name[sizeof(opened[n]->name)];
    snprintf(name, sizeof(name), "%s", opened[n]->name);
    for (int i = 0; i < n; i++)
        if (strcmp(opened[i]->name, name) == 0)
            snprintf(opened[n]->name, sizeof(opened[n]->name), "%.16s#%d", name, n & 7);
}

qn_status qn__backends_open(const char *list, const qn_backend_options *each, int max, qn_backend **out, int *n,
                            qn_error *err)
{
    if (!list) list = "cpu";
    for (;;) {
        const size_t len = strcspn(list, ",");
        if (*n == max)
            return QN_FAIL(err, limit, "backend list \"%.64s\": more than %d are not possible here", list, max);
        QN_TRY(open_one(list, len, each, &out[*n], err));
        make_unique(out, (*n)++);
        if (!list[len]) return QN_OK;
        list += len + 1;
    }
}

bool qn__backends_name_device(const char *list)
{
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
        const size_t len = strcspn(list, ":,");
        for (int i = 0; i < N_TYPES; i++)
            if (types[i]->devices && strlen(types[i]->name) == len && !strncmp(types[i]->name, list, len)) return true;
    }
    return false;
}

int qn_devices_get(qn_device *out, int max, qn_error *why)
{
    int n = 0;
    if (why) *why = (qn_error){0};
    for (int i = 0; i < N_TYPES; i++) {
        int some = 0;
        qn_error err = {0};
        if (!types[i]->devices) continue;
        if (types[i]->devices(out + n, max - n, &some, &err) == QN_OK)
            n += some;
        else if (why && why->status == QN_OK)
            *why = err;
        else if (why) /* one after the other */
            snprintf(why->text + strlen(why->text), sizeof(why->text) - strlen(why->text), "; %s", err.text);
    }
    return n;
}
