/* SPDX-License-Identifier: MIT */
/* src/store/files.c -- GGUF files in a tree of folders. Depth, folders and entries are bounded, and a folder that links
 * lead to twice is entered once, so that no arrangement of links makes the walk long. */
#include "base/file_kind.h"
#include "store/store.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef struct walk {
    qn_scan *s;
    const char *inside;
    qn_gguf_seen_fn fn;
    void *ctx;
    qn_arena entered; /* of `folders` */
    struct {
        uint64_t device, inode;
    } * folders; /* [n] */
    size_t n, cap;
    bool full;
} walk;

/* ---- names of files ---- */

static bool ends_with(const char *text, size_t n, const char *end)
{
    const size_t len = strlen(end);
    return n >= len && strncasecmp(text + n - len, end, len) == 0;
}

/* What downloads are called until they are whole: behind the name that the file will have. */
static const char *const partial_ends[] = {".part",       ".partial", ".incomplete", ".downloadInProgress",
                                           ".crdownload", ".aria2",   ".tmp"};

/* The length of NAME in NAME.gguf, 0 for other files; *partial for NAME.gguf.part. */
static size_t stem_length(const char *name, bool *partial)
{
    size_t n = strlen(name);
    *partial = false;
    for (size_t i = 0; i < sizeof partial_ends / sizeof *partial_ends && !*partial; i++)
        if (ends_with(name, n, partial_ends[i])) {
            *partial = true;
            n -= strlen(partial_ends[i]);
        }
    return n > 5 && ends_with(name, n, ".gguf") ? n - 5 : 0;
}

/* "-00002-of-00003" at the end of the first n bytes. */
static bool split_of(const char *name, size_t n, int *number, int *count)
{
    if (n <= 15 || name[n - 15] != '-' || strncmp(name + n - 9, "-of-", 4) != 0) return false;
    *number = *count = 0;
    for (size_t i = 0; i < 5; i++) {
        const char a = name[n - 14 + i], b = name[n - 5 + i];
        if (a < '0' || a > '9' || b < '0' || b > '9') return false;
        *number = *number * 10 + (a - '0');
        *count = *count * 10 + (b - '0');
    }
    return *number >= 1 && *count >= 1;
}

/* Parts of models that are not models: projectors and importance matrices lie beside those that they are for. */
static bool is_companion(const char *name)
{
    return strncasecmp(name, "mmproj", 6) == 0 || strcasestr(name, "-mmproj") || strcasestr(name, "imatrix");
}

/* ---- one model ---- */

/* Why an entry cannot be opened, or NULL. */
static const char *entry_problem(walk *w, const char *path, const qn_entry *e)
{
    char *real;
    if (e->kind == QN_ENTRY_absent) return e->link ? "a link to a file that is not there" : "not there any more";
    if (e->kind == QN_ENTRY_loop) return "a link that leads back to itself";
    if (e->kind == QN_ENTRY_folder) return "a folder, not a file";
    if (e->kind == QN_ENTRY_other) return qn__store_text(w->s, "not a file but %s", e->what);
    if (e->bytes == 0) return "empty";
    if (!e->link || !w->inside) return NULL;
    const qn_arena_mark mark = qn__arena_get_mark(&w->s->scratch);
    const size_t n = strlen(w->inside);
    real = qn__real_path(&w->s->scratch, path);
    const bool stays = real && strncmp(real, w->inside, n) == 0 && real[n] == '/';
    qn__arena_reset(&w->s->scratch, mark);
    return stays ? NULL : "a link that leads out of the store";
}

static qn_status see(walk *w, const char *folder, const char *rel, const qn_entry *e, const char *stem,
                     qn_gguf_seen *seen)
{
    seen->path = qn__store_path(w->s, folder, e->name);
    seen->folder = rel;
    seen->stem = stem;
    if (!seen->path || !seen->stem) return QN_FAIL(w->s->err, nomem, "out of memory: paths of models");
    if (!seen->problem) seen->problem = entry_problem(w, seen->path, e);
    if (!seen->problem && seen->partial) seen->problem = "half-downloaded";
    seen->device = e->device;
    seen->inode = e->inode;
    return w->fn(w->s, w->ctx, seen);
}

/* The parts of a split model stand in a row, because entries are sorted: *i is moved to the last of them. */
static qn_status see_split(walk *w, const char *folder, const char *rel, const qn_entry *list, size_t n, size_t *i,
                           size_t stem, int count)
{
    const qn_entry *first = &list[*i];
    qn_gguf_seen seen = {.n_parts = count};
    int expected = 1, missing = 0, number, of;
    const char *bad = NULL;
    for (size_t k = *i; k < n; k++) {
        bool partial;
        const size_t len = stem_length(list[k].name, &partial);
        if (len != stem + 15 || strncmp(list[k].name, first->name, stem) != 0 || partial ||
            !split_of(list[k].name, len, &number, &of) || of != count)
            break;
        *i = k;
        if (!missing && number > expected) missing = expected;
        expected = number + 1;
        seen.bytes += list[k].bytes;
        const qn_arena_mark mark = qn__arena_get_mark(&w->s->scratch);
        const char *path = qn__arena_printf(&w->s->scratch, "%s/%s", folder, list[k].name);
        const char *problem = path ? entry_problem(w, path, &list[k]) : NULL;
        qn__arena_reset(&w->s->scratch, mark);
        if (problem && !bad) bad = qn__store_text(w->s, "part %d of %d is %s", number, count, problem);
    }
    if (!missing && expected <= count) missing = expected;
    if (missing) bad = qn__store_text(w->s, "half-downloaded: part %d of %d is missing", missing, count);
    seen.problem = bad;
    return see(w, folder, rel, first, qn__arena_strndup(w->s->arena, first->name, stem), &seen);
}

static qn_status see_file(walk *w, const char *folder, const char *rel, const qn_entry *list, size_t n, size_t *i)
{
    bool partial;
    int number, count;
    const qn_entry *e = &list[*i];
    const size_t stem = stem_length(e->name, &partial);
    if (stem == 0 || is_companion(e->name)) return QN_OK;
    if (!partial && split_of(e->name, stem, &number, &count))
        return see_split(w, folder, rel, list, n, i, stem - 15, count);
    qn_gguf_seen seen = {.n_parts = 1, .bytes = e->bytes, .partial = partial};
    return see(w, folder, rel, e, qn__arena_strndup(w->s->arena, e->name, stem), &seen);
}

/* ---- folders ---- */

/* Notes a folder; false when it was entered before, or memory or the bound is spent. */
static bool enter(walk *w, const qn_entry *e)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->folders[i].inode == e->inode && w->folders[i].device == e->device) return false;
    if (w->n == QN_STORE_MAX_FOLDERS) w->full = true;
    if (w->full) return false;
    if (w->n == w->cap) {
        const size_t cap = w->cap ? w->cap * 2 : 64;
        void *more = qn__arena_array(&w->entered, cap, sizeof *w->folders);
        if (!more) return false;
        if (w->n) memcpy(more, w->folders, w->n * sizeof *w->folders);
        w->folders = more;
        w->cap = cap;
    }
    w->folders[w->n].device = e->device;
    w->folders[w->n++].inode = e->inode;
    return true;
}

static qn_status walk_folder(walk *w, const char *folder, const char *rel, int depth);

static qn_status visit(walk *w, const char *folder, const char *rel, const qn_entry *list, size_t n, size_t *i,
                       int depth)
{
    const qn_entry *e = &list[*i];
    if (e->kind != QN_ENTRY_folder || stem_length(e->name, &(bool){false})) return see_file(w, folder, rel, list, n, i);
    if (depth == 0 || e->name[0] == '.' || (e->link && w->inside) || !enter(w, e)) return QN_OK;
    const char *path = qn__store_path(w->s, folder, e->name);
    const char *below = *rel ? qn__store_path(w->s, rel, e->name) : qn__arena_strdup(w->s->arena, e->name);
    if (!path || !below) return QN_FAIL(w->s->err, nomem, "out of memory: paths of folders");
    return walk_folder(w, path, below, depth - 1);
}

static qn_status walk_folder(walk *w, const char *folder, const char *rel, int depth)
{
    qn_entry *list;
    size_t n;
    bool cut;
    qn_error why;
    const qn_arena_mark mark = qn__arena_get_mark(&w->s->scratch);
    qn_status status = qn__folder_read(folder, QN_STORE_MAX_ENTRIES, &w->s->scratch, &list, &n, &cut, &why);
    if (status == QN_STATUS_nomem) return QN_FAIL(w->s->err, nomem, "%s", why.text);
    if (status != QN_OK) return qn__store_add_problem(w->s, *rel ? rel : folder, folder, "%s", why.text);
    for (size_t i = 0; i < n && status == QN_OK; i++) status = visit(w, folder, rel, list, n, &i, depth);
    qn__arena_reset(&w->s->scratch, mark);
    if (status == QN_OK && cut)
        status = qn__store_add_problem(w->s, *rel ? rel : folder, folder,
                                       "this folder has more than %d entries; the rest was not looked at",
                                       QN_STORE_MAX_ENTRIES);
    return status;
}

qn_status qn__walk_ggufs(qn_scan *s, const char *root, const char *inside, int depth, qn_gguf_seen_fn fn, void *ctx)
{
    const qn_entry e = qn__entry_at(root);
    walk w = {.s = s, .inside = inside, .fn = fn, .ctx = ctx};
    if (e.kind == QN_ENTRY_absent && !e.link) return QN_OK;
    qn__arena_init(&w.entered, 0);
    (void)enter(&w, &e);
    qn_status status = walk_folder(&w, root, "", depth);
    if (status == QN_OK && w.full)
        status = qn__store_add_problem(s, root, root, "more than %d folders; the rest was not looked at",
                                       QN_STORE_MAX_FOLDERS);
    if (status == QN_OK && w.entered.failed) status = QN_FAIL(s->err, nomem, "out of memory: folders");
    qn__arena_deinit(&w.entered);
    return status;
}

/* ---- small files ---- */

qn_status qn__store_read(const char *path, size_t most, qn_arena *arena, char **out, size_t *n, qn_error *err)
{
    struct stat st;
    const int fd = qn__open_retry(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return qn__fail_open(err, path, "read", errno);
    qn_status status = QN_OK;
    size_t size = 0;
    char *text = NULL;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = QN_FAIL(err, invalid, "not a file but %s", qn__file_kind(st.st_mode));
    else if ((uintmax_t)st.st_size > most)
        status = QN_FAIL(err, limit, "%llu bytes, more than the %zu that such a file may have",
                         (unsigned long long)st.st_size, most);
    else if (!(text = qn__arena_alloc(arena, (size_t)st.st_size + 1)))
        status = QN_FAIL_NOMEM(err, (size_t)st.st_size + 1);
    while (status == QN_OK && size < (size_t)st.st_size) {
        const ssize_t got = read(fd, text + size, (size_t)st.st_size - size);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) status = QN_FAIL(err, io, "cannot be read: %s", strerror(errno));
        if (got <= 0) break;
        size += (size_t)got;
    }
    close(fd);
    if (status != QN_OK) return status;
    *out = text;
    *n = size;
    return QN_OK;
}

bool qn__file_begins(const char *path, char out[4])
{
    struct stat st;
    const int fd = qn__open_retry(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) return false;
    const bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && pread(fd, out, 4, 0) == 4;
    close(fd);
    return good;
}
