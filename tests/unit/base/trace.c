/* SPDX-License-Identifier: MIT */
/* tests/unit/base/trace.c -- rings: what is put comes out, what finds no room is counted and all or nothing; threads
 * join and go while somebody shuts; lists of numbers and names; addresses in mapped files. */
#include "base/trace.h"
#include "base/append.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static qn_error err;
static const qn_trace_filter all;

/* Whoever reaps has taken the samples of threads that are gone. */
static void end_samples(void)
{
    qn_sample some[64];
    for (qn_trace_ring *r = qn__trace_rings(); r; r = r->next)
        while (qn__trace_read_samples(r, some, 64) > 0) {}
}

static void a_ring_keeps_order_and_counts(void **state)
{
    (void)state;
    assert_null(qn__trace_enter());
    assert_int_equal(qn__trace_open_rings(&all, 64 * sizeof(qn_trace_slot), &err), QN_OK);
    assert_int_equal(qn__trace_open_rings(&all, 0, &err), QN_STATUS_state);
    qn_trace_ring *r = qn__trace_enter();
    assert_non_null(r);
    assert_int_equal(r->mask, 63);
    assert_true(qn__trace_enter() == r);
    qn__trace_leave();
    assert_int_equal(qn__trace_shut(&err), QN_STATUS_state); /* by who is inside */
    for (uint32_t i = 0; i < 70; i++) qn__trace_put(r, QN_TRACE_node, i, i * 10, i * 10 + 3, 1);
    assert_int_equal(r->dropped, 6);
    assert_int_equal(r->head, 64);
    for (uint32_t i = 0; i < 64; i++) {
        const qn_trace_slot *s = &r->slots[i];
        assert_true(s->kind == QN_TRACE_node && s->id == i && s->begin == i * 10 && s->duration == 3 &&
                    s->waiting == 1);
    }
    /* A record around the end of the ring, of two parts that share a slot. */
    r->tail = 60;
    const char a[] = "abcdefghij", b[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const qn_trace_part parts[] = {{a, 10}, {NULL, 0}, {b, 36}};
    r->head = 62;
    qn__trace_put_record(r, 9, 77, 5, parts, 3);
    assert_int_equal(r->head, 65); /* one and two more */
    char out[48];
    memcpy(out, &r->slots[63], 24);
    memcpy(out + 24, &r->slots[0], 24);
    assert_memory_equal(out, "abcdefghij0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", 46);
    assert_true(r->slots[62].kind == QN_TRACE_SLOT_record && r->slots[62].duration == 46 && r->slots[62].waiting == 5);
    static char large[63 * 24];
    qn__trace_put_record(r, 9, 77, 5, &(qn_trace_part){large, sizeof large}, 1);
    assert_int_equal(r->head, 65);
    assert_int_equal(r->dropped, 7);
    /* longer than can be told */
    qn__trace_put(r, QN_TRACE_node, 1, 0, UINT64_C(1) << 60, UINT64_C(1) << 50);
    assert_true(r->slots[1].duration == QN_TRACE_MAX_TICKS && r->slots[1].waiting == QN_TRACE_MAX_TICKS);
    qn__trace_leave();
    assert_int_equal(qn__trace_shut(&err), QN_OK);
    assert_null(qn__trace_enter());
    qn__trace_close_rings();
}

/* A ring's pages are there before its first event, and whoever passes a quarter of it wakes the writer, once. */
static void a_ring_is_ready_and_wakes_its_writer(void **state)
{
    (void)state;
    struct rusage before, after;
    assert_int_equal(qn__trace_open_rings(&(qn_trace_filter){.no_faults = true}, 0, &err), QN_OK);
    qn_trace_ring *r = qn__trace_enter();
    assert_non_null(r);
    const uint64_t size = r->mask + 1;
    assert_true(size * sizeof(qn_trace_slot) == 3 << 20);
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    for (uint64_t i = 0; i < size / 4; i++) qn__trace_put(r, QN_TRACE_node, 1, i, i + 1, 0);
    assert_false(qn__trace_wait(0));
    qn__trace_put(r, QN_TRACE_node, 1, 0, 1, 0);
    assert_true(qn__trace_wait(0));
    for (uint64_t i = size / 4 + 1; i < size + 5; i++) qn__trace_put(r, QN_TRACE_node, 1, i, i + 1, 0);
    assert_false(qn__trace_wait(0));
    assert_true(r->head == size && r->dropped == 5);
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
#ifndef QN_CHECKED /* a sanitizer has pages of its own */
    assert_true(after.ru_minflt - before.ru_minflt < 64);
#endif
    /* and again where the writer has taken less than has come since */
    for (uint64_t n = 0; n < 20; n++) {
        r->tail += size / 4;
        for (uint64_t i = 0; i < size / 4; i++) qn__trace_put(r, QN_TRACE_node, 1, i, i + 1, 0);
        if (!qn__trace_wait(0)) fail_msg("%llu quarters later nobody wakes the writer", (unsigned long long)n);
        assert_false(qn__trace_wait(0));
    }
    assert_int_equal(r->dropped, 5);
    r->tail = r->head;
    qn__trace_leave();
    assert_int_equal(qn__trace_shut(&err), QN_OK);
    qn__trace_close_rings();
}

static _Atomic bool stop;

static void *records(void *arg)
{
    uint64_t *n = arg;
    while (!atomic_load(&stop)) {
        qn_trace_ring *r = qn__trace_enter();
        if (!r) continue;
        qn__trace_put(r, QN_TRACE_node, 1, 1, 2, 0);
        ++*n;
        qn__trace_leave();
    }
    return NULL;
}

/* Recordings come and go while threads record: no ring is freed under a thread. */
static void threads_come_and_go(void **state)
{
    (void)state;
    pthread_t threads[3];
    uint64_t n[3] = {0};
    stop = false;
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, records, &n[i]), 0);
    for (int round = 0; round < 20; round++) {
        assert_int_equal(qn__trace_open_rings(&all, 4096, &err), QN_OK);
        sched_yield();
        end_samples();
        qn__trace_reap(0);
        assert_int_equal(qn__trace_shut(&err), QN_OK);
        qn__trace_close_rings();
        assert_null(qn__trace_rings());
    }
    assert_int_equal(qn__trace_open_rings(&all, 4096, &err), QN_OK);
    for (bool some = false; !some;) { /* until each has recorded */
        some = true;
        for (qn_trace_ring *r = qn__trace_rings(); r; r = r->next) some = some && r->head > 0;
        int rings = 0;
        for (qn_trace_ring *r = qn__trace_rings(); r; r = r->next) rings++;
        some = some && rings == 3;
        sched_yield();
    }
    stop = true;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (qn_trace_ring *r = qn__trace_rings(); r; r = r->next) {
        assert_true(r->orphan);
        r->tail = r->head;
    }
    end_samples();
    qn__trace_reap(0);
    assert_null(qn__trace_rings());
    assert_int_equal(qn__trace_shut(&err), QN_OK);
    qn__trace_close_rings();
}

/* A file that is unmapped while the recorder is at work is known until the samples of that time have been read. */
static void unmapped_file(void **state)
{
    (void)state;
    static const uint8_t data[64];
    uint64_t offset = 0;
    assert_int_equal(qn__trace_open_rings(&(qn_trace_filter){.no_faults = true}, 0, &err), QN_OK);
    qn__trace_map_added(data, sizeof data, "a file", -1);
    const int64_t fault = qn__now_ns(), read = fault + 1;
    while (qn__now_ns() <= read) continue;
    qn__trace_map_removed(data);
    const int64_t removed = qn__now_ns();
    qn__trace_reap(read);
    const int32_t file = qn__trace_map_at((uintptr_t)data + 5, fault, &offset);
    assert_true(file > 0 && offset == 5);
    assert_int_equal(qn__trace_map_at((uintptr_t)data + 5, removed, &offset), -1);
    qn__trace_reap(0);
    assert_int_equal(qn__trace_map_at((uintptr_t)data, fault, &offset), file);
    qn__trace_reap(removed + 1);
    assert_int_equal(qn__trace_map_at((uintptr_t)data, fault, &offset), -1);
    assert_int_equal(qn__trace_shut(&err), QN_OK);
    qn__trace_close_rings();
}

static _Atomic bool entered;

/* As who records a graph for the first time while somebody stops. */
static void *submits_late(void *arg)
{
    (void)arg;
    qn_trace_ring *r = qn__trace_enter();
    entered = true;
    while (qn__trace_on()) sched_yield();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* whoever shuts waits for us by now */
    qn_str s = {0};
    qn__put_varint(&s, 5);
    qn__trace_submit(QN_TRACE_BLOB_plan, &s);
    qn__trace_put(r, QN_TRACE_node, 1, 1, 2, 0);
    qn__trace_leave();
    return NULL;
}

/* The lock is free while whoever shuts waits, and what then is recorded is there. */
static void who_is_inside_may_take_the_lock(void **state)
{
    (void)state;
    pthread_t late;
    alarm(60); /* where both wait for each other */
    entered = false;
    assert_int_equal(qn__trace_open_rings(&all, 4096, &err), QN_OK);
    qn__trace_free_blobs(qn__trace_take_blobs());
    assert_int_equal(pthread_create(&late, NULL, submits_late, NULL), 0);
    while (!entered) sched_yield();
    assert_int_equal(qn__trace_shut(&err), QN_OK);
    qn_trace_blob *blobs = qn__trace_take_blobs();
    assert_true(blobs && blobs->kind == QN_TRACE_BLOB_plan && blobs->bytes.len == 1 && !blobs->next);
    assert_true(qn__trace_rings() && qn__trace_rings()->head == 1);
    pthread_join(late, NULL);
    alarm(0);
    qn__trace_free_blobs(blobs);
    qn__trace_close_rings();
}

static void lists(void **state)
{
    (void)state;
    bool valid;
    assert_true(qn__trace_in_ranges(NULL, 5, NULL));
    assert_true(qn__trace_in_ranges("0,3-5,-1", 4, &valid) && valid);
    assert_true(qn__trace_in_ranges("0,3-5,-1", -1, NULL));
    assert_false(qn__trace_in_ranges("0,3-5,-1", 2, NULL));
    assert_true(qn__trace_in_ranges("8-", 1000, &valid) && valid);
    assert_false(qn__trace_in_ranges("8-", 7, NULL));
    static const char *const wrong[] = {"x", "1,", "5-3", "--1", "1-x", "-2", ",", "99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)qn__trace_in_ranges(wrong[i], 0, &valid);
        if (strcmp(wrong[i], "1,") != 0 && valid) fail_msg("\"%s\" is taken for a list", wrong[i]);
    }
    assert_true(qn__trace_in_names("linear*,attention", "linear_experts"));
    assert_true(qn__trace_in_names("linear*,attention", "attention"));
    assert_false(qn__trace_in_names("linear*,attention", "rope"));
    assert_true(qn__trace_in_names(NULL, "rope"));
    assert_false(qn__trace_in_names("", "rope"));
}

static void maps(void **state)
{
    (void)state;
    static const char file[100] = "x", apart[10] = "y";
    uint64_t at = 0;
    assert_int_equal(qn__trace_map_of(file + 40, &at), -1);
    qn__trace_map_added(file, sizeof file, "a file", -1);
    const int32_t id = qn__trace_map_of(file + 40, &at);
    assert_true(id > 0);
    assert_int_equal(at, 40);
    assert_int_equal(qn__trace_map_of(file + 100, &at), -1);
    assert_int_equal(qn__trace_map_of(apart, &at), -1);
    /* who starts is told of it */
    assert_int_equal(qn__trace_open_rings(&all, 0, &err), QN_OK);
    qn_trace_blob *blobs = qn__trace_take_blobs();
    assert_true(blobs && blobs->kind == QN_TRACE_BLOB_file && blobs->bytes.len > 8);
    assert_memory_equal(blobs->bytes.data + blobs->bytes.len - 6, "a file", 6);
    qn__trace_free_blobs(blobs);
    assert_int_equal(qn__trace_shut(&err), QN_OK);
    qn__trace_close_rings();
    qn__trace_map_removed(file);
    assert_int_equal(qn__trace_map_of(file + 40, &at), -1);
}

static void appending(void **state)
{
    (void)state;
    char path[64], text[16];
    int fd;
    snprintf(path, sizeof path, "append-%ld", (long)getpid());
    for (int i = 0; i < 2; i++) { /* anew each time */
        assert_int_equal(qn__append_open(path, "MAGIC", 5, &fd, &err), QN_OK);
        assert_true(qn__append_put(fd, "MAGIC", 5) && qn__append_put(fd, "12345" + i, 3) && qn__append_close(fd));
    }
    assert_int_equal(qn__read_small(path, text, sizeof text), 8);
    assert_string_equal(text, "MAGIC234");
    assert_int_equal(qn__append_open(path, "OTHER", 5, &fd, &err), QN_STATUS_invalid);
    assert_int_equal(qn__read_small(path, text, sizeof text), 8);
    remove(path);
    assert_int_equal(qn__read_small(path, text, sizeof text), -1);
    assert_int_equal(qn__append_open("/no/such/folder/x", "", 0, &fd, &err), QN_STATUS_io);
}

enum { PIPED = 1 << 20 };

static void *read_late(void *path)
{
    static char bytes[PIPED];
    size_t n = 0;
    FILE *f = fopen(path, "rb");
    usleep(50000);
    if (f) n = fread(bytes, 1, PIPED, f);
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != (char)(i % 251)) n = 0;
    if (f) fclose(f);
    return (void *)n;
}

/* A pipe holds 64 KiB: who writes waits for its reader. */
static void appending_to_a_pipe(void **state)
{
    (void)state;
    static char bytes[PIPED];
    char path[64];
    pthread_t reader;
    void *n = NULL;
    int fd;
    for (size_t i = 0; i < PIPED; i++) bytes[i] = (char)(i % 251);
    snprintf(path, sizeof path, "pipe-%ld", (long)getpid());
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(qn__append_open(path, "MAGIC", 5, &fd, &err), QN_OK);
    assert_int_equal(pthread_create(&reader, NULL, read_late, path), 0);
    assert_true(qn__append_put(fd, bytes, PIPED));
    assert_int_equal(pthread_join(reader, &n), 0);
    assert_int_equal((size_t)n, PIPED);
    assert_true(qn__append_close(fd));
    remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_keeps_order_and_counts),
        cmocka_unit_test(a_ring_is_ready_and_wakes_its_writer),
        cmocka_unit_test(appending_to_a_pipe),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(unmapped_file),
        cmocka_unit_test(who_is_inside_may_take_the_lock),
        cmocka_unit_test(lists),
        cmocka_unit_test(maps),
        cmocka_unit_test(appending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
