/* SPDX-License-Identifier: MIT */
/* src/store/scan_files.c -- stores that are folders of GGUF files: those that a user names, and the cache that
 * llama.cpp had before it took Hugging Face's. */
#include "store/store.h"
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- a folder of the user's: FOLDER/NAME ---- */

static qn_status add_plain(qn_scan *s, void *ctx, const qn_gguf_seen *file)
{
    (void)ctx;
    const char *name = *file->folder ? qn__store_path(s, file->folder, file->stem) : file->stem;
    if (!name) return QN_FAIL(s->err, nomem, "out of memory: names of models");
    return qn__store_add_file(s, file, name, false);
}

/* Whether folder i was named before, by whatever path. */
static bool named_before(const qn_store_places *places, int i)
{
    struct stat st, other;
    if (stat(places->folders[i], &st) != 0) return false;
    for (int k = 0; k < i; k++)
        if (places->folders[k] && stat(places->folders[k], &other) == 0 && other.st_dev == st.st_dev &&
            other.st_ino == st.st_ino)
            return true;
    return false;
}

qn_status qn__scan_folder(qn_scan *s)
{
    for (int i = 0; i < s->places->n_folders; i++, s->rank++) {
        if (!s->places->folders[i] || named_before(s->places, i)) continue;
        QN_TRY(qn__walk_ggufs(s, s->places->folders[i], NULL, QN_STORE_MAX_DEPTH, add_plain, NULL));
    }
    return QN_OK;
}

/* ---- llama.cpp: ORG_REPO_FILE.gguf, and an empty-handed manifest=ORG=REPO=TAG.json that says where ORG ends ---- */

typedef struct repo {
    const char *prefix; /* ORG_REPO_ */
    const char *base;   /* ORG/REPO */
} repo;
typedef struct repos {
    repo *item; /* [n] */
    size_t n;
} repos;

static qn_status add_cached(qn_scan *s, void *ctx, const qn_gguf_seen *file)
{
    const repos *all = ctx;
    qn_gguf_seen named = *file;
    for (size_t i = 0; i < all->n; i++) {
        const size_t n = strlen(all->item[i].prefix);
        if (strncmp(file->stem, all->item[i].prefix, n) != 0) continue;
        named.stem = file->stem + n;
        return qn__store_add_file(s, &named, all->item[i].base, true);
    }
    return qn__store_add_file(s, file, file->stem, false);
}

/* What the manifests' names tell. */
static qn_status read_repos(qn_scan *s, const char *root, repos *all)
{
    qn_entry *list;
    size_t n;
    bool cut;
    if (qn__folder_read(root, QN_STORE_MAX_ENTRIES, &s->scratch, &list, &n, &cut, NULL) != QN_OK) return QN_OK;
    all->item = qn__arena_array(&s->scratch, n + 1, sizeof *all->item);
    for (size_t i = 0; all->item && i < n; i++) {
        static const char mark[] = "manifest=";
        if (strncmp(list[i].name, mark, sizeof mark - 1) != 0) continue;
        const char *org = list[i].name + sizeof mark - 1, *name = strchr(org, '=');
        const char *tag = name ? strchr(name + 1, '=') : NULL;
        if (!tag) continue;
        const int n_org = (int)(name - org), n_name = (int)(tag - name - 1);
        all->item[all->n++] = (repo){
            qn__store_text(s, "%.*s_%.*s_", n_org, org, n_name, name + 1),
            qn__store_text(s, "%.*s/%.*s", n_org, org, n_name, name + 1),
        };
        if (!all->item[all->n - 1].prefix || !all->item[all->n - 1].base) all->item = NULL;
    }
    return all->item ? QN_OK : QN_FAIL(s->err, nomem, "out of memory: names of models");
}

static qn_status scan_cached(qn_scan *s, const char *root)
{
    repos all = {0};
    s->rank++;
    if (!root || qn__entry_at(root).kind != QN_ENTRY_folder) return QN_OK;
    const qn_arena_mark mark = qn__arena_get_mark(&s->scratch);
    qn_status status = read_repos(s, root, &all);
    if (status == QN_OK) status = qn__walk_ggufs(s, root, NULL, 0, add_cached, &all);
    qn__arena_reset(&s->scratch, mark);
    return status;
}

qn_status qn__scan_llamacpp(qn_scan *s)
{
    const qn_store_places *p = s->places;
    QN_TRY(scan_cached(s, p->llama_cache));
    if (p->cache_home) return scan_cached(s, qn__store_path(s, p->cache_home, "llama.cpp"));
    return p->home ? scan_cached(s, qn__store_path(s, p->home, ".cache/llama.cpp")) : QN_OK;
}
