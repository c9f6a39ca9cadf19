/* SPDX-License-Identifier: MIT */
/* src/store/scan_lmstudio.c -- LM Studio's models: PUBLISHER/REPO/FILE.gguf in the folder "models" of its home, or in
 * the one that the user chose, which its settings.json calls "downloadsFolder". Its home is where the text file
 * ~/.lmstudio-home-pointer says, or in one of the two usual places. */
#include "format/json.h"
#include "store/store.h"
#include <string.h>

#define MAX_POINTER 4096

static qn_status add_published(qn_scan *s, void *ctx, const qn_gguf_seen *file)
{
    (void)ctx;
    const char *slash = strchr(file->folder, '/'), *second = slash ? strchr(slash + 1, '/') : NULL;
    const char *base = file->stem;
    if (slash)
        base = second ? qn__arena_strndup(s->arena, file->folder, (size_t)(second - file->folder)) : file->folder;
    else if (*file->folder)
        base = qn__store_path(s, file->folder, file->stem);
    if (!base) return QN_FAIL(s->err, nomem, "out of memory: names of models");
    return qn__store_add_file(s, file, base, slash != NULL);
}

/* A small text file of a folder in scratch; *text is NULL where it is not there or no text: LM Studio then does without
 * it, too. */
static qn_status read_text(qn_scan *s, const char *folder, const char *name, size_t most, char **text, size_t *n)
{
    const char *path = qn__store_path(s, folder, name);
    qn_error err;
    *text = NULL;
    if (!path) return QN_FAIL(s->err, nomem, "out of memory: names of models");
    if (qn__entry_at(path).kind != QN_ENTRY_file) return QN_OK;
    const qn_status status = qn__store_read(path, most, &s->scratch, text, n, &err);
    if (status == QN_STATUS_nomem) return QN_FAIL(s->err, nomem, "%s", err.text);
    if (status != QN_OK || qn__utf8_valid(*text, *n) < *n || strlen(*text) < *n) *text = NULL;
    return QN_OK;
}

/* Of settings, in the arena; NULL: they do not say. */
static qn_status read_downloads(qn_json *j, qn_scan *s, const char **out)
{
    qn_json_str key, value;
    size_t n;
    bool more;
    QN_TRY(qn__json_open(j, '{'));
    for (;;) {
        QN_TRY(qn__json_next(j, '{', &more));
        if (!more) return QN_OK;
        QN_TRY(qn__json_key(j, &key));
        if (!qn__json_equals(&key, "downloadsFolder")) {
            QN_TRY(qn__json_skip(j));
            continue;
        }
        QN_TRY(qn__json_string(j, &value));
        const char *path = qn__json_take(s->arena, &value, &n);
        if (!path) return QN_FAIL(j->err, nomem, "out of memory: names of models");
        *out = *path == '/' && strlen(path) == n ? path : NULL;
        return QN_OK;
    }
}

static qn_status walk(qn_scan *s, const char *root)
{
    s->rank++;
    return qn__walk_ggufs(s, root, NULL, QN_STORE_MAX_DEPTH, add_published, NULL);
}

/* One home of it. */
static qn_status scan_home(qn_scan *s, const char *folder, const char *name)
{
    const char *home = folder ? (name ? qn__store_path(s, folder, name) : folder) : NULL, *chosen = NULL;
    char *text;
    size_t n;
    if (!home) return folder ? QN_FAIL(s->err, nomem, "out of memory: names of models") : QN_OK;
    const qn_arena_mark mark = qn__arena_get_mark(&s->scratch);
    qn_status status = read_text(s, home, "settings.json", QN_STORE_TEXT_BYTES, &text, &n);
    if (status == QN_OK && text) {
        qn_json j;
        qn_error err;
        qn__json_init(&j, text, n, 0, "", &err);
        strcpy(j.subject, "settings");
        if (read_downloads(&j, s, &chosen) == QN_STATUS_nomem) status = QN_FAIL(s->err, nomem, "%s", err.text);
    }
    qn__arena_reset(&s->scratch, mark);
    const char *usual = qn__store_path(s, home, "models");
    if (status == QN_OK && !usual) status = QN_FAIL(s->err, nomem, "out of memory: names of models");
    if (status == QN_OK && chosen) status = walk(s, chosen);
    return status == QN_OK ? walk(s, usual) : status;
}

/* Where the file in the user's home says that it is; NULL: nowhere. */
static qn_status read_pointer(qn_scan *s, const char *folder, const char **out)
{
    char *text;
    size_t n;
    const qn_arena_mark mark = qn__arena_get_mark(&s->scratch);
    qn_status status = read_text(s, folder, ".lmstudio-home-pointer", MAX_POINTER, &text, &n);
    while (status == QN_OK && text && n && strchr(" \t\r\n", text[n - 1])) n--;
    *out = status == QN_OK && text && *text == '/' ? qn__arena_strndup(s->arena, text, n) : NULL;
    if (status == QN_OK && text && *text == '/' && !*out)
        status = QN_FAIL(s->err, nomem, "out of memory: names of models");
    qn__arena_reset(&s->scratch, mark);
    return status;
}

qn_status qn__scan_lmstudio(qn_scan *s)
{
    const qn_store_places *p = s->places;
    const char *pointed = NULL;
    if (p->home) QN_TRY(read_pointer(s, p->home, &pointed));
    QN_TRY(scan_home(s, pointed, NULL));
    QN_TRY(scan_home(s, p->home, ".lmstudio"));
    QN_TRY(scan_home(s, p->cache_home, "lm-studio"));
    return p->cache_home ? QN_OK : scan_home(s, p->home, ".cache/lm-studio");
}
