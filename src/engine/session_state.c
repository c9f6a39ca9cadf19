/* SPDX-License-Identifier: MIT */
/* src/engine/session_state.c -- saving and restoring all sequences.
 *
 * File, in this machine's byte order: header; of each group its part of the header; then the tables: of group 0 for
 * each used cell its position and token, and of every group for each sequence its length and its cells (numbered among
 * the used ones) in order of position; then for each group and each layer of it the key rows and the value rows of the
 * used cells. A list of another group is the end of the sequence's list in group 0. Everything is checked before the
 * session changes, the exact size first. The header's hash covers itself and the tables, where a flipped bit would be a
 * wrong continuation; rows are only as safe as the disk. */
#include "engine/engine.h"
#include "base/file.h"
#include <string.h>

#define STATE_MAGIC   UINT32_C(0x54534e51) /* "QNST" */
#define STATE_VERSION 3

typedef struct qn_state_group {
    uint64_t cell_bytes; /* of a cell in all layers of the group */
    uint64_t n_entries;  /* cells listed in all sequences together */
    uint32_t n_used;
    int32_t window;
} qn_state_group;
typedef struct qn_state_header {
    uint32_t magic, version;
    uint64_t model; /* hash of what the cache's content depends on */
    uint32_t kv_type, n_layer;
    uint32_t n_seq, n_groups;
    uint64_t check; /* hash of this header, with 0 here, the groups' and the tables */
} qn_state_header;
_Static_assert(sizeof(qn_state_header) == 40 && sizeof(qn_state_group) == 24,
               "no holes: headers are hashed and written as bytes");

/* Shape and parameters, and a few bytes out of the middle of each weight: two trainings of one shape differ everywhere.
 */
static uint64_t model_hash(const qn_session *s)
{
    enum { SAMPLE = 64 };
    const qn_model *m = s->engine->model;
    uint64_t h = qn__hash(QN_HASH_INIT, m->arch->name, strlen(m->arch->name));
    h = qn__hash(h, &m->hp, sizeof(m->hp)); /* zeroed before it was filled: no stray bytes */
    for (uint32_t i = 0; i < m->hp.n_layer; i++) h = qn__hash(h, &m->layers[i].hp, sizeof(m->layers[i].hp));
    for (int32_t i = 0; i < m->n_weights; i++) {
        const qn_gguf_tensor *t = m->weights[i].tensor;
        const uint64_t n = t->size_bytes < SAMPLE ? t->size_bytes : SAMPLE;
        h = qn__hash(h, &t->size_bytes, sizeof(t->size_bytes));
        h = qn__hash(h, (const char *)t->data + (t->size_bytes - n) / 2, (size_t)n);
    }
    return h;
}

static qn_state_header make_header(const qn_session *s)
{
    return (qn_state_header){
        .magic = STATE_MAGIC,
        .version = STATE_VERSION,
        .model = model_hash(s),
        .kv_type = (uint32_t)s->shape.kv_type,
        .n_layer = s->engine->model->hp.n_layer,
        .n_seq = (uint32_t)s->shape.n_seq,
        .n_groups = (uint32_t)s->memory.n_groups,
    };
}

static void make_groups(const qn_session *s, qn_state_group groups[QN_MAX_GROUPS])
{
    for (int32_t g = 0; g < s->memory.n_groups; g++) {
        const qn_kv *kv = &s->memory.kv[g];
        groups[g] = (qn_state_group){.n_used = (uint32_t)kv->n_used, .window = kv->size.window};
        for (int32_t q = 0; q < kv->size.n_seq; q++) groups[g].n_entries += (uint64_t)kv->len[q];
    }
    for (uint32_t i = 0; i < s->engine->model->hp.n_layer; i++) {
        const qn_kv_layer *l = &s->kv_desc.layers[i];
        groups[l->group].cell_bytes += l->k_row_bytes + l->v_row_bytes;
    }
}

/* The rows of all used cells of one tensor, in runs of neighbours. `row` moves one run between buffer and `at`. */
typedef qn_status (*move_fn)(qn_buffer *buffer, uint64_t offset, void *at, uint64_t bytes, qn_error *err);

static qn_status get_rows(qn_buffer *buffer, uint64_t offset, void *at, uint64_t bytes, qn_error *err)
{
    return buffer->backend->type->download(buffer, offset, at, bytes, err);
}

static qn_status put_rows(qn_buffer *buffer, uint64_t offset, void *at, uint64_t bytes, qn_error *err)
{
    return buffer->backend->type->upload(buffer, offset, at, bytes, err);
}

/* Row i is that of cells[i]; -1 is left out. */
static qn_status move_rows(move_fn move, qn_buffer *buffer, uint64_t offset, uint64_t row_bytes, const int32_t *cells,
                           int32_t n, char *at, qn_error *err)
{
    for (int32_t i = 0, run; i < n && row_bytes; i += run) {
        run = 1;
        if (cells[i] < 0) continue;
        while (i + run < n && cells[i + run] == cells[i] + run) run++;
        QN_TRY(move(buffer, offset + (uint64_t)cells[i] * row_bytes, at + (uint64_t)i * row_bytes,
                    (uint64_t)run * row_bytes, err));
    }
    return QN_OK;
}

/* Key and value rows of a layer; at: of the first cell's key. */
static qn_status move_layer(move_fn move, const qn_kv_layer *l, const int32_t *cells, int32_t n, char *at,
                            qn_error *err)
{
    QN_TRY(move_rows(move, l->k_buffer, l->k_offset, l->k_row_bytes, cells, n, at, err));
    return move_rows(move, l->v_buffer, l->v_offset, l->v_row_bytes, cells, n, at + (uint64_t)n * l->k_row_bytes, err);
}

/* ---- save ---- */

/* Of one group: used cells; cell -> its number; the rows of one layer. */
typedef struct qn_state_tables {
    int32_t *cells, *number;
    char *rows;
} qn_state_tables;

/* Writes a number, or without a writer only hashes it: the header, which comes first, needs the hash of what follows.
 */
static void put_number(qn_writer *w, uint64_t *check, const int32_t *number)
{
    *check = qn__hash(*check, number, sizeof(*number));
    if (w) qn__writer_put(w, number, sizeof(*number));
}

static void number_cells(const qn_kv *kv, qn_state_tables *t)
{
    int32_t n = 0;
    for (int32_t c = 0; c < kv->size.n_cells; c++) {
        if (!kv->refs[c]) continue;
        t->number[c] = n;
        t->cells[n++] = c;
    }
}

static void put_tables(const qn_memory *m, qn_state_tables *t, qn_writer *w, uint64_t *check)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const qn_kv *kv = &m->kv[g];
        number_cells(kv, t);
        for (int32_t i = 0; i < kv->n_used && g == 0; i++) {
            put_number(w, check, &kv->pos[t->cells[i]]);
            put_number(w, check, &kv->token[t->cells[i]]);
        }
        for (int32_t q = 0; q < kv->size.n_seq; q++) {
            put_number(w, check, &kv->len[q]);
            for (int32_t i = 0; i < kv->len[q]; i++) put_number(w, check, &t->number[qn__kv_list(kv, q)[i]]);
        }
    }
}

static qn_status write_state(qn_session *s, qn_state_tables *t, qn_writer *w, qn_error *err)
{
    const qn_memory *m = &s->memory;
    qn_state_header header = make_header(s);
    qn_state_group groups[QN_MAX_GROUPS];
    make_groups(s, groups);
    const size_t groups_bytes = (size_t)m->n_groups * sizeof(groups[0]);
    uint64_t check = qn__hash(QN_HASH_INIT, &header, sizeof(header)), again = 0;
    check = qn__hash(check, groups, groups_bytes);
    put_tables(m, t, NULL, &check);
    header.check = check;
    qn__writer_put(w, &header, sizeof(header));
    qn__writer_put(w, groups, groups_bytes);
    put_tables(m, t, w, &again);
    for (int32_t g = 0; g < m->n_groups; g++) {
        const int32_t n = m->kv[g].n_used;
        number_cells(&m->kv[g], t);
        for (uint32_t i = 0; i < header.n_layer && !qn__writer_failed(w); i++) { /* commit tells */
            const qn_kv_layer *l = &s->kv_desc.layers[i];
            if (l->group != g) continue;
            qn__devices_take(s->engine, &s->turn);
            const qn_status status = move_layer(get_rows, l, t->cells, n, t->rows, err);
            qn__devices_give(s->engine, &s->turn);
            if (status != QN_OK) return status;
            qn__writer_put(w, t->rows, (size_t)n * (l->k_row_bytes + l->v_row_bytes));
        }
    }
    return QN_OK;
}

/* What the largest layer's rows take. */
static uint64_t most_bytes(const qn_session *s)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < s->engine->model->hp.n_layer; i++) {
        const qn_kv_layer *l = &s->kv_desc.layers[i];
        const uint64_t bytes = (uint64_t)s->memory.kv[l->group].n_used * (l->k_row_bytes + l->v_row_bytes);
        if (bytes > most) most = bytes;
    }
    return most;
}

qn_status qn_session_save(qn_session *s, const char *path, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_writer *w = NULL;
    /* group 0 has the most cells */
    qn_state_tables t = {
        .cells = qn__calloc((size_t)s->shape.n_ctx, sizeof(int32_t)),
        .number = qn__calloc((size_t)s->shape.n_ctx, sizeof(int32_t)),
        .rows = qn__alloc(most_bytes(s)),
    };
    qn_status status = t.cells && t.number && t.rows
                           ? QN_OK
                           : QN_FAIL(err, nomem, "out of memory while saving %d cells", s->memory.kv->n_used);
    if (status == QN_OK) status = qn__writer_open(path, &w, err);
    if (status == QN_OK) {
        status = write_state(s, &t, w, err);
        if (status == QN_OK)
            status = qn__writer_commit(w, err);
        else
            qn__writer_abort(w);
    }
    qn__free(t.cells);
    qn__free(t.number);
    qn__free(t.rows);
    return status;
}

/* ---- restore ---- */

typedef struct qn_state_file {
    const qn_state_header *header;
    const qn_state_group *groups;
    const int32_t *cells;                /* [n_used of group 0, 2] position, token */
    const int32_t *lists[QN_MAX_GROUPS]; /* for each sequence: length, entries */
    const int32_t *end;                  /* of all lists */
    const char *rows;
} qn_state_file;

/* Bytes of a file of these headers; false when they are beyond reason. */
static bool file_size(const qn_state_header *h, const qn_state_group *groups, size_t *tables, size_t *size)
{
    size_t rows = 0, numbers = (size_t)groups[0].n_used * 2;
    for (uint32_t g = 0; g < h->n_groups; g++) {
        const qn_state_group *group = &groups[g];
        size_t bytes;
        if (group->n_entries > (uint64_t)group->n_used * h->n_seq) return false; /* < 2^36, and with it the tables */
        numbers += h->n_seq + (size_t)group->n_entries;
        if (!qn__mul_size((size_t)group->cell_bytes, group->n_used, &bytes) || !qn__add_size(rows, bytes, &rows))
            return false;
    }
    *tables = sizeof(*h) + h->n_groups * sizeof(*groups) + numbers * sizeof(int32_t);
    return qn__add_size(*tables, rows, size);
}

static qn_status check_groups(const qn_session *s, const qn_state_header *h, const qn_state_group *groups,
                              qn_error *err)
{
    qn_state_group want[QN_MAX_GROUPS];
    make_groups(s, want);
    for (uint32_t g = 0; g < h->n_groups; g++)
        if (groups[g].cell_bytes != want[g].cell_bytes || groups[g].window != want[g].window)
            return QN_FAIL(err, format,
                           "the state's group %u has cells of %llu bytes and a window of %d; %llu and %d here", g,
                           (unsigned long long)groups[g].cell_bytes, groups[g].window,
                           (unsigned long long)want[g].cell_bytes, want[g].window);
    if (groups[0].n_used > (uint32_t)s->shape.n_ctx)
        return QN_FAIL(err, limit, "the state holds %u cells; this session's context has %d", groups[0].n_used,
                       s->shape.n_ctx);
    for (uint32_t g = 1; g < h->n_groups; g++)
        if (groups[g].n_used > groups[0].n_used)
            return QN_FAIL(err, format, "the state's group %u has %u cells, its sequences %u", g, groups[g].n_used,
                           groups[0].n_used);
    return QN_OK;
}

static qn_status check_header(const qn_session *s, const qn_map *map, qn_state_file *f, qn_error *err)
{
    const qn_state_header want = make_header(s), *h = (const qn_state_header *)map->data;
    if (map->size < sizeof(*h) || h->magic != STATE_MAGIC)
        return QN_FAIL(err, format, "this is no session state (%zu bytes)", map->size);
    if (h->version != STATE_VERSION)
        return QN_FAIL(err, unsupported, "state version %u; %d is supported", h->version, STATE_VERSION);
    if (h->model != want.model || h->n_layer != want.n_layer || h->n_groups != want.n_groups)
        return QN_FAIL(err, format, "the state is of another model");
    if (h->kv_type != want.kv_type)
        return QN_FAIL(err, format, "the state's KV type is %s; this session's is %s",
                       qn_dtype_get((qn_dtype)h->kv_type)->name, qn_dtype_get(s->shape.kv_type)->name);
    if (h->n_seq > want.n_seq)
        return QN_FAIL(err, limit, "the state holds %u sequences; this session has %u", h->n_seq, want.n_seq);
    const qn_state_group *groups = (const qn_state_group *)(h + 1);
    size_t tables = 0, expect = 0;
    if (map->size < sizeof(*h) + h->n_groups * sizeof(*groups))
        return QN_FAIL(err, format, "the state has %zu bytes; its header is cut off", map->size);
    QN_TRY(check_groups(s, h, groups, err));
    if (!file_size(h, groups, &tables, &expect) || expect != map->size)
        return QN_FAIL(err, format, "the state has %zu bytes; its header does not agree", map->size);
    f->header = h;
    f->groups = groups;
    f->cells = (const int32_t *)(groups + h->n_groups);
    f->rows = (const char *)map->data + tables;
    f->end = (const int32_t *)(const void *)f->rows;
    const int32_t *at = f->cells + (size_t)groups[0].n_used * 2;
    for (uint32_t g = 0; g < h->n_groups; g++, at += h->n_seq + groups[g - 1].n_entries) f->lists[g] = at;

    qn_state_header bare = *h;
    bare.check = 0;
    const uint64_t check = qn__hash(qn__hash(QN_HASH_INIT, &bare, sizeof(bare)), groups, tables - sizeof(*h));
    return check == h->check ? QN_OK : QN_FAIL(err, format, "the state's tables are damaged");
}

/* The entry's position and token: of group 0 as the file has them, of others as the entry of group 0 that it stands
 * for. All entries of a cell agree; of[cell] is 1 + a cell of group 0 once the cell was met. */
static qn_status check_entry(const qn_state_file *f, uint32_t g, uint32_t q, int32_t cell, int32_t base, int32_t *of,
                             qn_error *err)
{
    if (cell < 0 || (uint32_t)cell >= f->groups[g].n_used)
        return QN_FAIL(err, format, "the state's sequence %u names cell %d of %u", q, cell, f->groups[g].n_used);
    const int32_t stands_for = g == 0 ? cell : base, met = of[cell] ? of[cell] - 1 : stands_for;
    if (memcmp(f->cells + 2 * (int64_t)met, f->cells + 2 * (int64_t)stands_for, 2 * sizeof(int32_t)) != 0)
        return QN_FAIL(err, format, "the state's cell %d of group %u has two positions", cell, g);
    of[cell] = stands_for + 1;
    return QN_OK;
}

/* Positions strictly increasing, cells in range, every cell listed, counts as promised. */
static qn_status check_lists(const qn_session *s, const qn_state_file *f, uint32_t g, int32_t *of, qn_error *err)
{
    const qn_state_header *h = f->header;
    const int32_t n_vocab = (int32_t)s->engine->model->hp.n_vocab;
    const int32_t *p = f->lists[g], *end = g + 1 < h->n_groups ? f->lists[g + 1] : f->end, *all = f->lists[0];
    memset(of, 0, (size_t)f->groups[g].n_used * sizeof(*of));
    for (uint32_t q = 0; q < h->n_seq; q++) {
        if (p >= end) return QN_FAIL(err, format, "the state's list of sequence %u is cut off", q);
        const int32_t len = *p++, all_len = *all++;
        int64_t last = -1;
        if (len < 0 || len > end - p || (g && len > all_len))
            return QN_FAIL(err, format, "the state's sequence %u claims %d cells", q, len);
        for (int32_t i = 0; i < len; i++) {
            const int32_t cell = *p++;
            QN_TRY(check_entry(f, g, q, cell, g ? all[all_len - len + i] : 0, of, err));
            if (g) continue;
            const int32_t pos = f->cells[2 * cell], token = f->cells[2 * cell + 1];
            if (pos <= last || pos > INT32_MAX - 2 || token < 0 || token >= n_vocab)
                return QN_FAIL(err, format, "the state's sequence %u holds token %d at position %d", q, token, pos);
            last = pos;
        }
        all += g ? all_len : len;
    }
    for (uint32_t c = 0; c < f->groups[g].n_used; c++)
        if (!of[c]) return QN_FAIL(err, format, "the state's cell %u belongs to no sequence", c);
    return p == end ? QN_OK : QN_FAIL(err, format, "the state's lists are shorter than its header says");
}

/* Where each cell of the file goes, -1 for those that a session with a smaller batch forgets; how many stay. */
static int32_t place_cells(const qn_state_file *f, const qn_kv *kv, uint32_t g, int32_t *place)
{
    const int32_t *p = f->lists[g];
    int32_t n = 0;
    memset(place, 0xff, (size_t)f->groups[g].n_used * sizeof(*place));
    for (uint32_t q = 0; q < f->header->n_seq; q++) {
        const int32_t len = *p++;
        for (int32_t i = len > kv->size.most ? len - kv->size.most : 0; i < len; i++) place[p[i]] = 0;
        p += len;
    }
    for (uint32_t c = 0; c < f->groups[g].n_used; c++)
        if (place[c] == 0) place[c] = n++;
    return n;
}

static qn_status load_rows(qn_session *s, const qn_state_file *f, uint32_t g, const int32_t *place, char **at,
                           qn_error *err)
{
    const int32_t n = (int32_t)f->groups[g].n_used;
    for (uint32_t i = 0; i < f->header->n_layer; i++) {
        const qn_kv_layer *l = &s->kv_desc.layers[i];
        if (l->group != (int32_t)g) continue;
        qn__devices_take(s->engine, &s->turn);
        const qn_status status = move_layer(put_rows, l, place, n, *at, err);
        qn__devices_give(s->engine, &s->turn);
        if (status != QN_OK) return status;
        *at += (uint64_t)n * (l->k_row_bytes + l->v_row_bytes);
    }
    return QN_OK;
}

/* The oldest entries of a list that is too long for this session are forgotten. */
static void load_lists(qn_kv *kv, const qn_state_file *f, uint32_t g, const int32_t *place, int32_t n_used)
{
    const int32_t *p = f->lists[g], *all = f->lists[0];
    qn__kv_clear(kv);
    kv->n_used = n_used;
    kv->next = n_used % kv->size.n_cells;
    for (uint32_t q = 0; q < f->header->n_seq; q++) {
        const int32_t all_len = *all++, len = *p++, n = len < kv->size.most ? len : kv->size.most;
        kv->gone[q] = all_len - n;
        kv->len[q] = n;
        kv->dirty_hi[q] = qn__kv_start(kv, (int32_t)q) + n;
        for (int32_t i = 0; i < n; i++) {
            const int32_t cell = place[p[len - n + i]], *from = f->cells + 2 * (int64_t)all[all_len - n + i];
            qn__kv_list(kv, (int32_t)q)[i] = cell;
            kv->refs[cell]++;
            kv->pos[cell] = from[0];
            kv->token[cell] = from[1];
        }
        all += all_len;
        p += len;
    }
}

/* What fits is known of all groups before the first changes. scratch: [n_used of group 0]. */
static qn_status load_groups(qn_session *s, const qn_state_file *f, int32_t *scratch, qn_error *err)
{
    char *at = (char *)f->rows; /* put_rows only reads */
    const uint32_t n = f->header->n_groups;
    for (uint32_t g = 0; g < n; g++) {
        const qn_kv *kv = &s->memory.kv[g];
        const int32_t n_used = place_cells(f, kv, g, scratch);
        if (n_used > kv->size.n_cells)
            return QN_FAIL(err, limit, "the state holds %d cells of layers with a window; this session has %d", n_used,
                           kv->size.n_cells);
    }
    for (uint32_t g = 0; g < n; g++) {
        (void)place_cells(f, &s->memory.kv[g], g, scratch);
        QN_TRY(load_rows(s, f, g, scratch, &at, err));
    }
    for (uint32_t g = 0; g < n; g++)
        load_lists(&s->memory.kv[g], f, g, scratch, place_cells(f, &s->memory.kv[g], g, scratch));
    return QN_OK;
}

qn_status qn_session_restore(qn_session *s, const char *path, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_map map;
    qn_state_file f = {0};
    QN_TRY(qn__map_open(path, &map, err));
    int32_t *scratch = NULL;
    qn_status status = check_header(s, &map, &f, err);
    if (status == QN_OK) {
        scratch = qn__calloc((size_t)f.groups[0].n_used + 1, sizeof(*scratch));
        if (!scratch) status = QN_FAIL(err, nomem, "out of memory while restoring %u cells", f.groups[0].n_used);
    }
    for (uint32_t g = 0; status == QN_OK && g < f.header->n_groups; g++)
        status = check_lists(s, &f, g, scratch, err); /* a hash is no proof against malice */
    if (status == QN_OK) status = load_groups(s, &f, scratch, err);
    if (status == QN_OK) s->n_logits = 0;
    qn__free(scratch);
    qn__map_close(&map);
    return status == QN_OK ? QN_OK : qn__prefix(err, status, "%s", path);
}
