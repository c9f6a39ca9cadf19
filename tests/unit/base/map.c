/* SPDX-License-Identifier: MIT */
/* tests/unit/base/map.c -- mappings: content, refusals by kind, ranges, progress, residency, counters, failing memory.
 */
#include "base/file.h"
#include "base/metrics.h"
#include "files.h"
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

static void maps_the_bytes(void **state)
{
    (void)state;
    char bytes[10000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 31);
    const char *path = write_file("plain", bytes, sizeof bytes);
    const int fds = count_open_fds();
    const uint64_t mapped = QN_GAUGE_READ(mapped_bytes), read = QN_METRIC_READ(read_bytes);
    qn_map map;
    assert_int_equal(qn__map_open(path, &map, NULL), QN_OK);
    assert_int_equal(map.size, sizeof bytes);
    assert_memory_equal(map.data, bytes, sizeof bytes);
    assert_string_equal(map.path, path);
    assert_int_equal(QN_GAUGE_READ(mapped_bytes) - mapped, sizeof bytes);
    assert_int_equal(QN_METRIC_READ(read_bytes), read);
    char direct[16];
    assert_int_equal(pread(map.fd, direct, 16, 100), 16);
    assert_memory_equal(direct, bytes + 100, 16);
    qn__map_close(&map);
    assert_int_equal(map.fd, -1);
    assert_int_equal(QN_GAUGE_READ(mapped_bytes), mapped);
    qn__map_close(&map);
    assert_int_equal(count_open_fds(), fds);
}

static void closing_nothing(void **state)
{
    (void)state;
    qn_map zero = {0};
    const int fds = count_open_fds();
    qn__map_close(&zero); /* whose fd, 0, is not ours */
    qn__map_close(NULL);
    assert_int_equal(count_open_fds(), fds);
}

static size_t resident_of(const qn_map *map, size_t offset, size_t size)
{
    size_t bytes;
    assert_true(qn__map_resident(map, offset, size, &bytes));
    return bytes;
}

static void empty_file(void **state)
{
    (void)state;
    qn_map map;
    assert_int_equal(qn__map_open(write_text("empty", ""), &map, NULL), QN_OK);
    assert_int_equal(map.size, 0);
    assert_null(map.data);
    qn__map_read_ahead(&map, 0, 10);
    assert_int_equal(qn__map_populate(&map, 0, 10, NULL, NULL, NULL), QN_OK);
    assert_int_equal(qn__map_lock(&map, 0, 10, NULL), QN_OK);
    assert_int_equal(resident_of(&map, 0, 10), 0);
    qn__map_close(&map);
}

static void check_refused(const char *path, qn_status status, const char *words)
{
    qn_error err;
    qn_map map = {.fd = 77};
    const int fds = count_open_fds();
    assert_int_equal(qn__map_open(path, &map, &err), status);
    if (strstr(err.text, words) == NULL) fail_msg("'%s' is not in '%s'", words, err.text);
    assert_int_equal(map.fd, 77); /* untouched */
    assert_int_equal(count_open_fds(), fds);
}

static void refusals(void **state)
{
    (void)state;
    check_refused(scratch, QN_STATUS_invalid, "is a directory, a regular file was expected");
    check_refused(in_scratch("absent"), QN_STATUS_io, "absent': No such file or directory");
    check_refused("/dev/null", QN_STATUS_invalid, "is a character device");
    check_refused("", QN_STATUS_invalid, "empty name");
    const char *fifo = in_scratch("fifo");
    assert_int_equal(mkfifo(fifo, 0666), 0);
    check_refused(fifo, QN_STATUS_invalid, "is a named pipe"); /* and does not wait for a writer */
}

static void names_are_quoted(void **state)
{
    (void)state;
    qn_error err;
    qn_map map;
    assert_int_equal(qn__map_open("no\nsuch\x1b[31m", &map, &err), QN_STATUS_io);
    assert_non_null(strstr(err.text, "no\\x0asuch\\x1b[31m"));
    char name[4000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(qn__map_open(name, &map, &err), QN_STATUS_io);
    assert_non_null(strstr(err.text, "File name too long")); /* a long path leaves room for the reason */
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which need room themselves */
static void no_room(void **state)
{
    (void)state;
    struct rlimit old, limit;
    const char *path = write_text("vast", "begin");
    const uint64_t mapped = QN_GAUGE_READ(mapped_bytes), live = QN_GAUGE_READ(live_bytes);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    getrlimit(RLIMIT_AS, &old);
    limit = old;
    limit.rlim_cur = (rlim_t)1 << 39;
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    check_refused(path, QN_STATUS_io, "cannot map the 1099511627776 bytes of '");
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(QN_GAUGE_READ(mapped_bytes), mapped);
    assert_int_equal(QN_GAUGE_READ(live_bytes), live);
}
#define NO_ROOM cmocka_unit_test(no_room),
#else
#define NO_ROOM
#endif

static void sockets(void **state)
{
    (void)state;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    assert_int_equal(chdir(scratch), 0); /* a socket's name is short */
    strcpy(a.sun_path, "sock");
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) != 0) skip();
    check_refused("sock", QN_STATUS_invalid, "is a socket");
    close(s);
}

static void unreadable(void **state)
{
    (void)state;
    const char *path = write_text("secret", "x");
    chmod(path, 0);
    if (access(path, R_OK) == 0) skip(); /* root reads everything */
    check_refused(path, QN_STATUS_io, "Permission denied");
}

typedef struct watch {
    size_t calls, last, total, stop_at;
} watch;

static bool watching(void *ctx, size_t done, size_t total)
{
    watch *w = ctx;
    assert_true(done > w->last && done <= total);
    w->calls++;
    w->last = done;
    w->total = total;
    return w->calls != w->stop_at;
}

#define MIB ((size_t)1 << 20)

/* A sparse file of 200 MiB: no disk is used and the pages are zeros. */
static void populates_in_steps(void **state)
{
    (void)state;
    const char *path = write_text("sparse", "begin");
    assert_int_equal(truncate(path, (off_t)(200 * MIB)), 0);
    qn_map map;
    qn_error err;
    assert_int_equal(qn__map_open(path, &map, NULL), QN_OK);
    watch w = {0};
    assert_int_equal(qn__map_populate(&map, 0, map.size, watching, &w, &err), QN_OK);
    assert_int_equal(w.calls, 4);
    assert_int_equal(w.last, 200 * MIB);
    assert_int_equal(w.total, 200 * MIB);
    w = (watch){.stop_at = 2};
    assert_int_equal(qn__map_populate(&map, 0, map.size, watching, &w, &err), QN_STATUS_cancelled);
    assert_non_null(strstr(err.text, "was stopped after 134217728 of 209715200 bytes"));
    w = (watch){0};
    assert_int_equal(qn__map_populate(&map, 5000, 100, watching, &w, &err), QN_OK);
    assert_int_equal(w.calls, 1);
    assert_int_equal(qn__map_populate(&map, map.size - 10, SIZE_MAX, NULL, NULL, &err), QN_OK); /* clipped */
    assert_int_equal(qn__map_populate(&map, map.size, 1, watching, NULL, &err), QN_OK);         /* nothing */
    assert_int_equal(qn__map_populate(&map, SIZE_MAX, SIZE_MAX, watching, NULL, &err), QN_OK);
    qn__map_close(&map);
}

static void residency(void **state)
{
    (void)state;
    static char bytes[1 << 20];
    memset(bytes, 7, sizeof bytes);
    qn_map map;
    assert_int_equal(qn__map_open(write_file("meg", bytes, sizeof bytes), &map, NULL), QN_OK);
    assert_int_equal(qn__map_populate(&map, 0, map.size, NULL, NULL, NULL), QN_OK);
    assert_int_equal(resident_of(&map, 0, map.size), map.size);
    assert_int_equal(resident_of(&map, 100, 1000), 1000); /* counted in bytes of the range, not in pages */
    assert_int_equal(resident_of(&map, 4000, 200), 200);  /* over a page's edge */
    assert_int_equal(resident_of(&map, map.size - 5, 100), 5);
    assert_int_equal(resident_of(&map, map.size, 100), 0);
    qn__map_read_ahead(&map, 10, 5000); /* the bytes stay the same */
    qn__map_read_ahead(&map, 0, SIZE_MAX);
    qn__map_read_ahead(&map, SIZE_MAX, 1);
    assert_memory_equal(map.data, bytes, sizeof bytes);
    qn__map_close(&map);
}

static void locking(void **state)
{
    (void)state;
    static char bytes[65536];
    qn_map map;
    qn_error err;
    assert_int_equal(qn__map_open(write_file("lock", bytes, sizeof bytes), &map, NULL), QN_OK);
    const qn_status status = qn__map_lock(&map, 0, map.size, &err);
    if (status != QN_OK) assert_non_null(strstr(err.text, "cannot lock 65536 bytes")); /* a container may forbid it */
    if (status == QN_OK) assert_int_equal(resident_of(&map, 0, map.size), map.size);
    qn__map_close(&map);
}

static void failing_memory(void **state)
{
    (void)state;
    const char *path = write_text("small", "abc");
    const int fds = count_open_fds();
    qn_map map = {.fd = 77};
    books_open(0);
    assert_int_equal(qn__map_open(path, &map, NULL), QN_STATUS_nomem);
    assert_int_equal(map.fd, 77);
    assert_int_equal(count_open_fds(), fds);
    books_close();
}

static int group_setup(void **state)
{
    (void)state;
    scratch_make("t_base_map");
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    remove_tree(scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_the_bytes), cmocka_unit_test(closing_nothing),    cmocka_unit_test(empty_file),
        cmocka_unit_test(refusals),       cmocka_unit_test(names_are_quoted),   NO_ROOM cmocka_unit_test(sockets),
        cmocka_unit_test(unreadable),     cmocka_unit_test(populates_in_steps), cmocka_unit_test(residency),
        cmocka_unit_test(locking),        cmocka_unit_test(failing_memory),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
