/* SPDX-License-Identifier: MIT */
/* src/engine/session_state.c -- saving and restoring all sequences.
 *
 * File, in this machine's byte order: header; then the tables: for each used cell its position and token, for each
 * sequence its length and its cells (numbered among the used ones) in order of position; then for each layer the key
 * rows and the value rows of the used cells. Everything is checked before the session changes, the exact size first.
 * The header's hash covers itself and the tables, where a flipped bit would be a wrong continuation; rows are only as
 * safe as the disk. */
#include "engine/engine.h"
#include "base/file.h"
#include <string.h>

#define STATE_MAGIC   UINT32_C(0x54534e51) /* "QNST" */
#define STATE_VERSION 2

typedef struct qn_state_header {
    uint32_t magic, version;
    uint64_t model; /* hash of what the cache's content depends on */
    uint32_t kv_type, n_layer;
    uint64_t k_bytes, v_bytes; /* of a cell in all layers */
    uint32_t n_used, n_seq;
    uint64_t n_entries; /* cells listed in all sequences together */
    uint64_t check;     /* hash of this header, with 0 here, and the tables */
} qn_state_header;
_Static_assert(sizeof(qn_state_header) == 64, "no holes: the header is hashed and written as bytes");

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
    qn_state_header h = {
        .magic = STATE_MAGIC,
        .version = STATE_VERSION,
        .model = model_hash(s),
        .kv_type = (uint32_t)s->shape.kv_type,
        .n_layer = s->engine->model->hp.n_layer,
        .n_used = (uint32_t)s->kv.n_used,
        .n_seq = (uint32_t)s->kv.n_seq,
    };
    for (uint32_t i = 0; i < h.n_layer; i++) {
        h.k_bytes += s->kv_desc.layers[i].k_row_bytes;
        h.v_bytes += s->kv_desc.layers[i].v_row_bytes;
    }
    for (int32_t q = 0; q < s->kv.n_seq; q++) h.n_entries += (uint64_t)s->kv.len[q];
    return h;
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

static qn_status move_rows(move_fn move, qn_buffer *buffer, uint64_t offset, uint64_t row_bytes, const int32_t *cells,
                           int32_t n, char *at, qn_error *err)
{
    for (int32_t i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && cells[i + run] == cells[i] + run; run++) {}
        QN_TRY(move(buffer, offset + (uint64_t)cells[i] * row_bytes, at + (uint64_t)i * row_bytes,
                    (uint64_t)run * row_bytes, err));
    }
    return QN_OK;
}

/* ---- save ---- */

/* used cells; cell -> its number; one tensor */
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

static void put_tables(const qn_kv *kv, const qn_state_tables *t, qn_writer *w, uint64_t *check)
{
    for (int32_t i = 0; i < kv->n_used; i++) {
        put_number(w, check, &kv->pos[t->cells[i]]);
        put_number(w, check, &kv->token[t->cells[i]]);
    }
    for (int32_t q = 0; q < kv->n_seq; q++) {
        put_number(w, check, &kv->len[q]);
        for (int32_t i = 0; i < kv->len[q]; i++) put_number(w, check, &t->number[qn__kv_list(kv, q)[i]]);
    }
}

static qn_status write_state(const qn_session *s, qn_state_tables *t, qn_writer *w, qn_error *err)
{
    const qn_kv *kv = &s->kv;
    int32_t n = 0;
    for (int32_t c = 0; c < kv->n_cells; c++) {
        if (!kv->refs[c]) continue;
        t->number[c] = n;
        t->cells[n++] = c;
    }
    qn_state_header header = make_header(s);
    uint64_t check = qn__hash(QN_HASH_INIT, &header, sizeof(header)), again = 0;
    put_tables(kv, t, NULL, &check);
    header.check = check;
    qn__writer_put(w, &header, sizeof(header));
    put_tables(kv, t, w, &again);
    for (uint32_t i = 0; i < header.n_layer; i++) {
        const qn_kv_layer *l = &s->kv_desc.layers[i];
        QN_TRY(move_rows(get_rows, l->k_buffer, l->k_offset, l->k_row_bytes, t->cells, n, t->rows, err));
        qn__writer_put(w, t->rows, (size_t)n * l->k_row_bytes);
        QN_TRY(move_rows(get_rows, l->v_buffer, l->v_offset, l->v_row_bytes, t->cells, n, t->rows, err));
        qn__writer_put(w, t->rows, (size_t)n * l->v_row_bytes);
        if (qn__writer_failed(w)) break; /* commit tells */
    }
    return QN_OK;
}

static uint64_t widest_row(const qn_session *s)
{
    uint64_t widest = 0;
    for (uint32_t i = 0; i < s->engine->model->hp.n_layer; i++) {
        const qn_kv_layer *l = &s->kv_desc.layers[i];
        const uint64_t row = l->k_row_bytes > l->v_row_bytes ? l->k_row_bytes : l->v_row_bytes;
        if (row > widest) widest = row;
    }
    return widest;
}

qn_status qn_session_save(qn_session *s, const char *path, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_writer *w = NULL;
    qn_state_tables t = {
        .cells = qn__calloc((size_t)s->kv.n_cells, sizeof(int32_t)),
        .number = qn__calloc((size_t)s->kv.n_cells, sizeof(int32_t)),
        .rows = qn__alloc((size_t)s->kv.n_used * widest_row(s)),
    };
    qn_status status = t.cells && t.number && t.rows
                           ? QN_OK
                           : QN_FAIL(err, nomem, "out of memory while saving %d cells", s->kv.n_used);
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
    const int32_t *cells; /* [n_used, 2] position, token */
    const int32_t *lists; /* for each sequence: length, entries */
    const char *rows;
} qn_state_file;

static qn_status check_header(const qn_session *s, const qn_map *map, qn_state_file *f, qn_error *err)
{
    const qn_state_header want = make_header(s), *h = (const qn_state_header *)map->data;
    if (map->size < sizeof(*h) || h->magic != STATE_MAGIC)
        return QN_FAIL(err, format, "this is no session state (%zu bytes)", map->size);
    if (h->version != STATE_VERSION)
        return QN_FAIL(err, unsupported, "state version %u; %d is supported", h->version, STATE_VERSION);
    if (h->model != want.model || h->n_layer != want.n_layer)
        return QN_FAIL(err, format, "the state is of another model");
    if (h->kv_type != want.kv_type || h->k_bytes != want.k_bytes || h->v_bytes != want.v_bytes)
        return QN_FAIL(err, format, "the state's KV type is %s; this session's is %s",
                       qn_dtype_get((qn_dtype)h->kv_type)->name, qn_dtype_get(s->shape.kv_type)->name);
    if (h->n_used > (uint32_t)s->kv.n_cells)
        return QN_FAIL(err, limit, "the state holds %u cells; this session's context has %d", h->n_used, s->kv.n_cells);
    if (h->n_seq > (uint32_t)s->kv.n_seq)
        return QN_FAIL(err, limit, "the state holds %u sequences; this session has %d", h->n_seq, s->kv.n_seq);
    size_t rows, expect;
    const bool sane = h->n_entries <= (uint64_t)h->n_used * h->n_seq; /* < 2^36, and with it the tables */
    const size_t tables = sizeof(*h) + ((size_t)h->n_used * 2 + h->n_seq + (sane ? h->n_entries : 0)) * sizeof(int32_t);
    if (!sane || !qn__mul_size((size_t)(h->k_bytes + h->v_bytes), h->n_used, &rows) ||
        !qn__add_size(tables, rows, &expect) || expect != map->size)
        return QN_FAIL(err, format, "the state has %zu bytes; its header does not agree", map->size);
    f->header = h;
    f->cells = (const int32_t *)(h + 1);
    f->lists = f->cells + (size_t)h->n_used * 2;
    f->rows = (const char *)(f->lists + h->n_seq + h->n_entries);

    qn_state_header bare = *h;
    bare.check = 0;
    const uint64_t check = qn__hash(qn__hash(QN_HASH_INIT, &bare, sizeof(bare)), f->cells, tables - sizeof(*h));
    return check == h->check ? QN_OK : QN_FAIL(err, format, "the state's tables are damaged");
}

/* Positions strictly increasing, cells in range, every cell listed, counts as promised. */
static qn_status check_lists(const qn_session *s, const qn_state_file *f, uint8_t *listed, qn_error *err)
{
    const qn_state_header *h = f->header;
    const int32_t n_vocab = (int32_t)s->engine->model->hp.n_vocab;
    const int32_t *p = f->lists, *end = (const int32_t *)f->rows;
    for (uint32_t q = 0; q < h->n_seq; q++) {
        if (p >= end) return QN_FAIL(err, format, "the state's list of sequence %u is cut off", q);
        const int32_t len = *p++;
        int64_t last = -1;
        if (len < 0 || len > end - p) return QN_FAIL(err, format, "the state's sequence %u claims %d cells", q, len);
        for (int32_t i = 0; i < len; i++) {
            const int32_t cell = *p++;
            if (cell < 0 || (uint32_t)cell >= h->n_used)
                return QN_FAIL(err, format, "the state's sequence %u names cell %d of %u", q, cell, h->n_used);
            const int32_t pos = f->cells[2 * cell], token = f->cells[2 * cell + 1];
            if (pos <= last || pos > INT32_MAX - 2 || token < 0 || token >= n_vocab)
                return QN_FAIL(err, format, "the state's sequence %u holds token %d at position %d", q, token, pos);
            last = pos;
            listed[cell] = 1;
        }
    }
    for (uint32_t c = 0; c < h->n_used; c++)
        if (!listed[c]) return QN_FAIL(err, format, "the state's cell %u belongs to no sequence", c);
    return p == end ? QN_OK : QN_FAIL(err, format, "the state's lists are shorter than its header says");
}

static qn_status load_rows(qn_session *s, const qn_state_file *f, int32_t *cells, qn_error *err)
{
    const int32_t n = (int32_t)f->header->n_used;
    char *at = (char *)f->rows; /* put_rows only reads */
    for (int32_t c = 0; c < n; c++) cells[c] = c;
    for (uint32_t i = 0; i < f->header->n_layer; i++) {
        const qn_kv_layer *l = &s->kv_desc.layers[i];
        QN_TRY(move_rows(put_rows, l->k_buffer, l->k_offset, l->k_row_bytes, cells, n, at, err));
        at += (uint64_t)n * l->k_row_bytes;
        QN_TRY(move_rows(put_rows, l->v_buffer, l->v_offset, l->v_row_bytes, cells, n, at, err));
        at += (uint64_t)n * l->v_row_bytes;
    }
    return QN_OK;
}

static void load_tables(qn_kv *kv, const qn_state_file *f)
{
    const int32_t *p = f->lists;
    qn__kv_clear(kv);
    kv->n_used = (int32_t)f->header->n_used;
    kv->next = kv->n_used % kv->n_cells;
    for (int32_t c = 0; c < kv->n_used; c++) {
        kv->pos[c] = f->cells[2 * c];
        kv->token[c] = f->cells[2 * c + 1];
    }
    for (uint32_t q = 0; q < f->header->n_seq; q++) {
        kv->len[q] = *p++;
        kv->dirty_hi[q] = kv->len[q];
        for (int32_t i = 0; i < kv->len[q]; i++) {
            qn__kv_list(kv, (int32_t)q)[i] = *p;
            kv->refs[*p++]++;
        }
    }
}

qn_status qn_session_restore(qn_session *s, const char *path, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    qn_map map;
    qn_state_file f = {0};
    QN_TRY(qn__map_open(path, &map, err));
    int32_t *cells = NULL;
    qn_status status = check_header(s, &map, &f, err);
    if (status == QN_OK) {
        cells = qn__calloc((size_t)f.header->n_used + 1, sizeof(*cells));
        if (!cells) status = QN_FAIL(err, nomem, "out of memory while restoring %u cells", f.header->n_used);
    }
    if (status == QN_OK) status = check_lists(s, &f, (uint8_t *)cells, err); /* a hash is no proof against malice */
    if (status == QN_OK) status = load_rows(s, &f, cells, err);
    if (status == QN_OK) {
        load_tables(&s->kv, &f);
        s->n_logits = 0;
    }
    qn__free(cells);
    qn__map_close(&map);
    return status == QN_OK ? QN_OK : qn__prefix(err, status, "%s", path);
}
