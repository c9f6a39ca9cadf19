/* SPDX-License-Identifier: MIT */
/* src/store/scan_huggingface.c -- the cache of huggingface_hub, which llama.cpp shares:
 *
 *     models--ORG--REPO/refs/main             the commit that "main" was when it was last looked at
 *     models--ORG--REPO/snapshots/COMMIT/..   its files, as links into blobs (or as files, where there are no links)
 *     models--ORG--REPO/blobs/HASH            HASH.incomplete while it is downloaded */
#include "store/store.h"
#include <string.h>

static bool is_commit(const char *text, size_t n)
{
    if (n != 40 && n != 64) return false;
    return strspn(text, "0123456789abcdef") == n;
}

/* ORG/REPO of "models--ORG--REPO"; NULL when it is no such name. */
static const char *repo_name(qn_scan *s, const char *folder)
{
    char *name = qn__arena_strdup(s->arena, folder + strlen("models--"));
    char *between = name ? strstr(name, "--") : NULL;
    if (!name) return NULL;
    if (between) {
        memmove(between + 1, between + 2, strlen(between + 2) + 1);
        *between = '\0';
    }
    const bool good = qn__plain_name(name, 96) && (!between || qn__plain_name(between + 1, 96));
    if (between) *between = '/';
    return good ? name : NULL;
}

typedef struct repo {
    const char *base;
    size_t n;
} repo;

static qn_status add_file(qn_scan *s, void *ctx, const qn_gguf_seen *file)
{
    repo *r = ctx;
    r->n++;
    return qn__store_add_file(s, file, r->base, true);
}

/* A download of a GGUF file that goes on, or was given up: no snapshot has it yet. */
static qn_status add_incomplete(qn_scan *s, const repo *r, const char *path)
{
    qn_entry *list;
    size_t n;
    bool cut;
    const char *blobs = qn__store_path(s, path, "blobs");
    const qn_arena_mark mark = qn__arena_get_mark(&s->scratch);
    qn_status status = QN_OK;
    if (!blobs || qn__folder_read(blobs, QN_STORE_MAX_ENTRIES, &s->scratch, &list, &n, &cut, NULL) != QN_OK) n = 0;
    for (size_t i = 0; i < n && status == QN_OK; i++) {
        const size_t len = strlen(list[i].name);
        char magic[4], *at = qn__store_path(s, blobs, list[i].name);
        if (!at || len < 12 || strcmp(list[i].name + len - 11, ".incomplete") != 0 || list[i].kind != QN_ENTRY_file)
            continue;
        if (!qn__file_begins(at, magic) || memcmp(magic, "GGUF", 4) != 0) continue;
        status = qn__store_add_problem(s, r->base, at, "half-downloaded: %llu bytes so far",
                                       (unsigned long long)list[i].bytes);
    }
    qn__arena_reset(&s->scratch, mark);
    return status;
}

static qn_status scan_snapshot(qn_scan *s, repo *r, const char *snapshots, const char *commit, const char *inside)
{
    const char *path = qn__store_path(s, snapshots, commit);
    if (!path) return QN_FAIL(s->err, nomem, "out of memory: paths of models");
    if (qn__entry_at(path).link)
        return qn__store_add_problem(s, r->base, path, "its snapshot is a link, which is not followed");
    return qn__walk_ggufs(s, path, inside, 3, add_file, r);
}

/* Without a commit in refs/main: all that there are. */
static qn_status scan_snapshots(qn_scan *s, repo *r, const char *snapshots, const char *inside)
{
    qn_entry *list;
    size_t n;
    bool cut;
    const qn_arena_mark mark = qn__arena_get_mark(&s->scratch);
    qn_status status = QN_OK;
    if (qn__folder_read(snapshots, QN_STORE_MAX_ENTRIES, &s->scratch, &list, &n, &cut, NULL) != QN_OK) n = 0;
    for (size_t i = 0; i < n && status == QN_OK; i++)
        if (list[i].kind == QN_ENTRY_folder && is_commit(list[i].name, strlen(list[i].name)))
            status = scan_snapshot(s, r, snapshots, list[i].name, inside);
    qn__arena_reset(&s->scratch, mark);
    return status;
}

static qn_status scan_repo(qn_scan *s, const char *root, const qn_entry *e, const char *inside)
{
    const char *path = qn__store_path(s, root, e->name);
    repo r = {.base = repo_name(s, e->name)};
    if (!path) return QN_FAIL(s->err, nomem, "out of memory: paths of models");
    if (!r.base) return qn__store_add_problem(s, e->name, path, "this is no name of a repository");
    if (e->link) return qn__store_add_problem(s, r.base, path, "a link to a folder, which is not followed");
    const char *ref = qn__store_path(s, path, "refs/main"), *snapshots = qn__store_path(s, path, "snapshots");
    if (!ref || !snapshots) return QN_FAIL(s->err, nomem, "out of memory: paths of models");
    char *commit;
    size_t n;
    qn_error why;
    qn_status status = QN_OK;
    if (qn__entry_at(ref).kind == QN_ENTRY_absent) {
        status = scan_snapshots(s, &r, snapshots, inside);
    } else if (qn__store_read(ref, 256, s->arena, &commit, &n, &why) != QN_OK) {
        status = qn__store_add_problem(s, r.base, ref, "refs/main: %s", why.text);
    } else {
        n = strcspn(commit, "\r\n \t");
        commit[n] = '\0';
        status = is_commit(commit, n) ? scan_snapshot(s, &r, snapshots, commit, inside)
                                      : qn__store_add_problem(s, r.base, ref, "refs/main holds no commit");
    }
    return status == QN_OK ? add_incomplete(s, &r, path) : status;
}

static qn_status scan_root(qn_scan *s, const char *root)
{
    qn_entry *list;
    size_t n;
    bool cut;
    qn_error why;
    s->rank++;
    if (!root || qn__entry_at(root).kind == QN_ENTRY_absent) return QN_OK;
    const qn_arena_mark mark = qn__arena_get_mark(&s->scratch);
    qn_status status = qn__folder_read(root, QN_STORE_MAX_ENTRIES, &s->scratch, &list, &n, &cut, &why);
    if (status == QN_STATUS_nomem) return QN_FAIL(s->err, nomem, "%s", why.text);
    if (status != QN_OK) return qn__store_add_problem(s, root, root, "%s", why.text);
    const char *inside = qn__real_path(s->arena, root);
    for (size_t i = 0; i < n && status == QN_OK && inside; i++)
        if (strncmp(list[i].name, "models--", 8) == 0 && list[i].kind == QN_ENTRY_folder)
            status = scan_repo(s, root, &list[i], inside);
    qn__arena_reset(&s->scratch, mark);
    return status;
}

qn_status qn__scan_huggingface(qn_scan *s)
{
    const qn_store_places *p = s->places;
    QN_TRY(scan_root(s, p->hf_hub_cache));
    if (p->hf_home) QN_TRY(scan_root(s, qn__store_path(s, p->hf_home, "hub")));
    if (p->cache_home) return scan_root(s, qn__store_path(s, p->cache_home, "huggingface/hub"));
    return p->home ? scan_root(s, qn__store_path(s, p->home, ".cache/huggingface/hub")) : QN_OK;
}
