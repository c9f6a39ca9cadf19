/* SPDX-License-Identifier: MIT */
/* src/cli/trace_perfetto.c -- Perfetto's protobuf, written by hand: a track a thread, and a slice an event as a packet
 * for its begin and one for its end. Slices of a track must nest, so events are sorted by track and begin, the longer
 * first, and ends are written when they are due. Field numbers are those of protos/perfetto/trace. */
#include "cli/trace_perfetto.h"
#include <stdlib.h>
#include <string.h>

enum {
    TRACE_packet = 1,
    PACKET_timestamp = 8,
    PACKET_sequence = 10,
    PACKET_track_event = 11,
    PACKET_track_descriptor = 60,
    TRACK_uuid = 1,
    TRACK_process = 3,
    TRACK_thread = 4,
    TRACK_parent = 5,
    PROCESS_pid = 1,
    PROCESS_name = 6,
    THREAD_pid = 1,
    THREAD_tid = 2,
    THREAD_name = 5,
    EVENT_annotation = 4,
    EVENT_type = 9,
    EVENT_track = 11,
    EVENT_category = 22,
    EVENT_name = 23,
    ANNOTATION_int = 4,
    ANNOTATION_name = 10,
    TYPE_begin = 1,
    TYPE_end = 2,
};

/* A message that is being written: as long as names may be, and more. */
typedef struct message {
    unsigned char data[2048];
    size_t n;
} message;

static void put_varint(message *m, uint64_t x)
{
    for (; x > 127 && m->n < sizeof m->data; x >>= 7) m->data[m->n++] = (unsigned char)(x | 128);
    if (m->n < sizeof m->data) m->data[m->n++] = (unsigned char)x;
}

static void put_number(message *m, int field, uint64_t x)
{
    put_varint(m, (uint64_t)field << 3);
    put_varint(m, x);
}

static void put_bytes(message *m, int field, const void *bytes, size_t n)
{
    if (m->n + n + 16 > sizeof m->data) return;
    put_varint(m, (uint64_t)field << 3 | 2);
    put_varint(m, n);
    memcpy(m->data + m->n, bytes, n);
    m->n += n;
}

static void put_text(message *m, int field, const char *text)
{
    char safe[512];
    trace_safe(safe, sizeof safe, text);
    put_bytes(m, field, safe, strlen(safe));
}

static void put_message(message *m, int field, const message *inner) { put_bytes(m, field, inner->data, inner->n); }

static void write_packet(FILE *out, const message *packet)
{
    message head = {.n = 0};
    put_varint(&head, TRACE_packet << 3 | 2);
    put_varint(&head, packet->n);
    fwrite(head.data, 1, head.n, out);
    fwrite(packet->data, 1, packet->n, out);
}

enum { PROCESS_UUID = 1, FIRST_LANE_UUID = 2, SEQUENCE = 1, PID = 1 };

static void write_tracks(FILE *out, const qn_trace_info *info)
{
    message process = {.n = 0}, track = {.n = 0}, packet = {.n = 0};
    put_number(&process, PROCESS_pid, PID);
    put_text(&process, PROCESS_name, "quern");
    put_number(&track, TRACK_uuid, PROCESS_UUID);
    put_message(&track, TRACK_process, &process);
    put_message(&packet, PACKET_track_descriptor, &track);
    write_packet(out, &packet);
    for (int i = 0; i < info->n_lanes; i++) {
        const qn_trace_lane *l = &info->lanes[i];
        char name[64];
        message thread = {.n = 0};
        if (l->member >= 0)
            snprintf(name, sizeof name, "thread %d", l->member);
        else
            snprintf(name, sizeof name, "lane %u", l->id);
        track.n = packet.n = 0;
        put_number(&thread, THREAD_pid, PID);
        put_number(&thread, THREAD_tid, (uint64_t)l->id + 2);
        put_text(&thread, THREAD_name, name);
        put_number(&track, TRACK_uuid, (uint64_t)l->id + FIRST_LANE_UUID);
        put_number(&track, TRACK_parent, PROCESS_UUID);
        put_message(&track, TRACK_thread, &thread);
        put_message(&packet, PACKET_track_descriptor, &track);
        write_packet(out, &packet);
    }
}

/* ---- events ---- */

typedef struct slice {
    int64_t begin, end, wait;
    const qn_trace_node *node;
    uint64_t step;
    char *text; /* of a mark: owned */
    uint32_t lane;
    int kind;
} slice;

typedef struct slices {
    slice *at;
    size_t n, cap;
    bool failed;
} slices;

static bool collect(void *ctx, const qn_trace_event *e)
{
    slices *s = ctx;
    if (s->n == s->cap) {
        const size_t cap = s->cap ? s->cap * 2 : 1024;
        slice *at = realloc(s->at, cap * sizeof *at);
        s->failed = !at;
        if (!at) return false;
        s->at = at;
        s->cap = cap;
    }
    slice *one = &s->at[s->n++];
    *one = (slice){.begin = e->begin_ns,
                   .end = e->begin_ns + e->ns,
                   .wait = e->wait_ns,
                   .node = e->node,
                   .lane = e->lane->id,
                   .kind = e->kind};
    if (e->step) one->step = e->step->number;
    if (e->text) one->text = strdup(e->text);
    return true;
}

static int by_place(const void *a, const void *b)
{
    const slice *x = a, *y = b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end < y->end) - (x->end > y->end);
}

static void annotate(message *event, const char *name, int64_t value)
{
    message m = {.n = 0};
    put_text(&m, ANNOTATION_name, name);
    put_number(&m, ANNOTATION_int, (uint64_t)value);
    put_message(event, EVENT_annotation, &m);
}

static void write_event(FILE *out, const slice *s, int type)
{
    message event = {.n = 0}, packet = {.n = 0};
    put_number(&event, EVENT_type, (uint64_t)type);
    put_number(&event, EVENT_track, (uint64_t)s->lane + FIRST_LANE_UUID);
    if (type == TYPE_begin) {
        put_text(&event, EVENT_category, qn_trace_kind_name(s->kind));
        if (s->node)
            put_text(&event, EVENT_name, s->node->name[0] ? s->node->name : s->node->op);
        else
            put_text(&event, EVENT_name, s->text ? s->text : qn_trace_kind_name(s->kind));
        if (s->step) annotate(&event, "step", (int64_t)s->step);
        if (s->node) annotate(&event, "layer", s->node->layer);
        annotate(&event, "wait_ns", s->wait);
    }
    put_number(&packet, PACKET_timestamp, (uint64_t)(type == TYPE_begin ? s->begin : s->end));
    put_number(&packet, PACKET_sequence, SEQUENCE);
    put_message(&packet, PACKET_track_event, &event);
    write_packet(out, &packet);
}

/* Ends of what is open and over at `time` on the lane, the innermost first. */
static size_t close_until(FILE *out, const slice **open, size_t n, uint32_t lane, int64_t time)
{
    while (n > 0 && (open[n - 1]->lane != lane || open[n - 1]->end <= time)) write_event(out, open[--n], TYPE_end);
    return n;
}

int trace_write_perfetto(qn_trace *t, FILE *out)
{
    enum { DEPTH = 64 }; /* that spans are nested at most; deeper ones end with the one they are in */
    qn_trace_info info;
    qn_error err;
    slices s = {0};
    const slice *open[DEPTH];
    size_t n_open = 0;
    qn_trace_get_info(t, &info);
    const qn_status status = qn_trace_walk(t, collect, &s, &err);
    if (status == QN_OK && !s.failed) {
        if (s.n) qsort(s.at, s.n, sizeof s.at[0], by_place);
        write_tracks(out, &info);
        for (size_t i = 0; i < s.n; i++) {
            n_open = close_until(out, open, n_open, s.at[i].lane, s.at[i].begin);
            if (n_open == DEPTH) write_event(out, open[--n_open], TYPE_end);
            write_event(out, &s.at[i], TYPE_begin);
            open[n_open++] = &s.at[i];
        }
        while (n_open > 0) write_event(out, open[--n_open], TYPE_end);
    }
    for (size_t i = 0; i < s.n; i++) free(s.at[i].text);
    free(s.at);
    if (status != QN_OK) return cli_fail_error(&err);
    return s.failed ? cli_no_memory("out of memory for the events") : CLI_OK;
}
