/* SPDX-License-Identifier: MIT */
/* tests/unit/base/file.c -- writers that leave nothing half-written, and whole-file reads with a limit. */
#include "base/file.h"
#include "base/metrics.h"
#include "files.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/time.h>

static qn_writer *open_writer(const char *path)
{
    qn_writer *w = NULL;
    qn_error err = {0};
    if (qn__writer_open(path, &w, &err) != QN_OK) fail_msg("%s", err.text);
    return w;
}

static int fresh(void **state)
{
    (void)state;
    scratch_make("t_base_file");
    return 0;
}

static int tidy(void **state)
{
    (void)state;
    remove_tree(scratch);
    return 0;
}

/* ---- writers ---- */

static bool nameless_files(void)
{
    const int fd = open(scratch, O_TMPFILE | O_WRONLY, 0600);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void commit_replaces(void **state)
{
    (void)state;
    const char *path = write_text("target", "old");
    const int fds = count_open_fds();
    chmod(path, 0640);
    qn_writer *w = open_writer(path);
    qn__writer_put(w, "new ", 4);
    qn__writer_put(w, "content", 7);
    qn__writer_put(w, NULL, 0);
    assert_int_equal(qn__writer_tell(w), 11);
    assert_false(qn__writer_failed(w));
    check_content(path, "old"); /* until the end */
    assert_int_equal(qn__writer_commit(w, NULL), QN_OK);
    check_content(path, "new content");
    assert_int_equal(count_entries(), 1);
    assert_int_equal(count_open_fds(), fds);
    struct stat st;
    stat(path, &st);
    assert_int_equal(st.st_mode & 0777, 0640); /* the old file's mode */
}

static void fresh_file_obeys_umask(void **state)
{
    (void)state;
    const mode_t old = umask(027);
    const char *path = in_scratch("new");
    assert_int_equal(qn__writer_commit(open_writer(path), NULL), QN_OK);
    umask(old);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(st.st_size, 0);
}

static void abort_leaves_no_trace(void **state)
{
    (void)state;
    const char *path = write_text("target", "old");
    qn_writer *w = open_writer(path);
    char big[300000] = {0};
    qn__writer_put(w, big, sizeof big);
    assert_int_equal(count_entries(), qn__writer_names_at_once || !nameless_files() ? 2 : 1);
    qn__writer_abort(w);
    qn__writer_abort(NULL);
    check_content(path, "old");
    assert_int_equal(count_entries(), 1);
}

/* Nothing is left of a process that is killed while it writes, beside a new file or an old one. */
static void killed(void **state)
{
    (void)state;
    if (!nameless_files()) skip();
    const char *path = write_text("target", "old");
    const pid_t child = fork();
    if (child == 0) {
        static char big[300000];
        qn_writer *a = NULL, *b = NULL;
        if (qn__writer_open(path, &a, NULL) != QN_OK || qn__writer_open(in_scratch("new"), &b, NULL) != QN_OK) _exit(1);
        qn__writer_put(a, big, sizeof big);
        qn__writer_put(b, big, sizeof big);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    check_content(path, "old");
    assert_int_equal(count_entries(), 1);
}

/* Pieces around the buffer's size, against what a plain FILE reads back. */
static void pieces_of_every_size(void **state)
{
    (void)state;
    static unsigned char piece[700000], got[sizeof piece];
    static const size_t sizes[] = {1, 262143, 1, 262144, 5, 262145, 100, 700000, 0, 3, 131072, 131072, 1};
    const char *path = in_scratch("pieces");
    qn_writer *w = open_writer(path);
    uint64_t total = 0;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        for (size_t k = 0; k < sizes[i]; k++) piece[k] = (unsigned char)((k * 7 + i) ^ k >> 8);
        qn__writer_put(w, piece, sizes[i]);
        total += sizes[i];
        assert_true(qn__writer_tell(w) == total);
    }
    assert_int_equal(qn__writer_commit(w, NULL), QN_OK);
    FILE *f = fopen(path, "rb");
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        assert_int_equal(fread(got, 1, sizes[i], f), sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++) piece[k] = (unsigned char)((k * 7 + i) ^ k >> 8);
        assert_memory_equal(got, piece, sizes[i]);
    }
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
}

static void link_stays_a_link(void **state)
{
    (void)state;
    const char *real = write_text("sub/real", "old"), *link = in_scratch("link");
    assert_int_equal(symlink("sub/real", link), 0);
    qn_writer *w = open_writer(link);
    qn__writer_put(w, "new", 3);
    assert_int_equal(qn__writer_commit(w, NULL), QN_OK);
    struct stat st;
    lstat(link, &st);
    assert_true(S_ISLNK(st.st_mode));
    check_content(real, "new");
}

static void check_not_opened(const char *path, qn_status status, const char *words)
{
    qn_writer *w = (void *)1;
    qn_error err;
    const int fds = count_open_fds();
    assert_int_equal(qn__writer_open(path, &w, &err), status);
    if (strstr(err.text, words) == NULL) fail_msg("'%s' is not in '%s'", words, err.text);
    assert_ptr_equal(w, (void *)1);
    assert_int_equal(count_open_fds(), fds);
}

static void refused_targets(void **state)
{
    (void)state;
    check_not_opened(scratch, QN_STATUS_invalid, "is a directory");
    check_not_opened("", QN_STATUS_invalid, "empty name");
    check_not_opened(in_scratch("no/such/dir"), QN_STATUS_io, "No such file or directory");
    check_not_opened("/proc/version", QN_STATUS_io, "cannot write '/proc/version': ");
    const char *path = write_text("read-only", "keep");
    chmod(path, 0444);
    if (access(path, W_OK) != 0) check_not_opened(path, QN_STATUS_io, "Permission denied"); /* root may write */
    assert_int_equal(count_entries(), 1);
}

static void devices_are_written_in_place(void **state)
{
    (void)state;
    struct stat before, after;
    stat("/dev/null", &before);
    qn_writer *w = open_writer("/dev/null");
    qn__writer_put(w, "gone", 4);
    assert_int_equal(qn__writer_commit(w, NULL), QN_OK);
    stat("/dev/null", &after);
    assert_true(S_ISCHR(after.st_mode) && before.st_ino == after.st_ino);
    w = open_writer("/dev/null");
    qn__writer_abort(w);
    assert_int_equal(stat("/dev/null", &after), 0);
}

static void full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    qn_error err;
    qn_writer *w = open_writer("/dev/full");
    qn__writer_put(w, "x", 1);
    assert_false(qn__writer_failed(w)); /* still in the buffer */
    assert_int_equal(qn__writer_commit(w, &err), QN_STATUS_io);
    assert_string_equal(err.text, "cannot write '/dev/full': No space left on device");

    w = open_writer("/dev/full");
    static char big[300000];
    qn__writer_put(w, big, sizeof big);
    assert_true(qn__writer_failed(w));
    for (int i = 0; i < 10; i++) qn__writer_put(w, big, sizeof big); /* dropped, but counted */
    assert_true(qn__writer_tell(w) == 11 * sizeof big);
    assert_int_equal(qn__writer_commit(w, NULL), QN_STATUS_io);
}

/* A regular file that the system lets grow to 100000 bytes only: the old file survives, the temporary one does not. */
static void failure_in_the_middle(void **state)
{
    (void)state;
    const char *path = write_text("target", "old");
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    qn_error err;
    qn_writer *w = open_writer(path);
    static char big[500000];
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    qn__writer_put(w, big, sizeof big);
    const bool failed = qn__writer_failed(w);
    const qn_status status = qn__writer_commit(w, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_true(failed);
    assert_int_equal(status, QN_STATUS_io);
    assert_non_null(strstr(err.text, "target': File too large"));
    check_content(path, "old");
    assert_int_equal(count_entries(), 1);
}

static void vanished_directory(void **state)
{
    (void)state;
    write_text("dir/x", "");
    qn_error err;
    qn_writer *w = open_writer(in_scratch("dir/out"));
    qn__writer_put(w, "x", 1);
    remove_tree(in_scratch("dir"));
    assert_int_equal(qn__writer_commit(w, &err), QN_STATUS_io);
    assert_non_null(strstr(err.text, "dir/out': No such file or directory"));
}

static void two_writers_one_target(void **state)
{
    (void)state;
    const char *path = in_scratch("both");
    qn_writer *a = open_writer(path), *b = open_writer(path);
    qn__writer_put(a, "a", 1);
    qn__writer_put(b, "bb", 2);
    assert_int_equal(qn__writer_commit(a, NULL), QN_OK);
    check_content(path, "a");
    assert_int_equal(qn__writer_commit(b, NULL), QN_OK);
    check_content(path, "bb"); /* whole, one after the other */
    assert_int_equal(count_entries(), 1);
}

static void standard_output(void **state)
{
    (void)state;
    const char *path = in_scratch("stdout");
    fflush(stdout);
    const int saved = dup(STDOUT_FILENO), fd = open(path, O_WRONLY | O_CREAT, 0666);
    dup2(fd, STDOUT_FILENO);
    qn_writer *w = open_writer("-");
    qn__writer_put(w, "to stdout", 9);
    const qn_status status = qn__writer_commit(w, NULL);
    const bool still_open = fcntl(STDOUT_FILENO, F_GETFD) != -1;
    dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO);
    qn_error err = {0};
    w = open_writer("-");
    qn__writer_put(w, "x", 1);
    const qn_status full = qn__writer_commit(w, &err);
    dup2(saved, STDOUT_FILENO);
    assert_int_equal(status, QN_OK);
    assert_true(still_open);
    check_content(path, "to stdout");
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(full, QN_STATUS_io);
        assert_string_equal(err.text, "cannot write standard output: No space left on device");
    }
}

static void writer_memory(void **state)
{
    (void)state;
    const char *path = write_text("target", "old");
    const int fds = count_open_fds();
    long n = 0;
    for (bool done = false; !done; n++) {
        qn_writer *w = NULL;
        books_open(n);
        const qn_status status = qn__writer_open(path, &w, NULL);
        done = status == QN_OK;
        if (!done) assert_int_equal(status, QN_STATUS_nomem);
        if (done) qn__writer_put(w, "new", 3);
        const long before = books.n_alloc;
        if (done) assert_int_equal(qn__writer_commit(w, NULL), QN_OK);
        assert_int_equal(books.n_alloc, before); /* no memory is needed to finish */
        books_close();
        check_content(path, done ? "new" : "old");
        assert_int_equal(count_entries(), 1);
        assert_int_equal(count_open_fds(), fds);
    }
    assert_true(n > 3);
}

/* ---- whole files ---- */

static void reads_all(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 46, 47, 48, 1023, 1024, 65536, 200000};
    static char bytes[200000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 13 + (i >> 9));
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        const char *path = write_file("in", bytes, sizes[i]);
        const uint64_t before = QN_METRIC_READ(read_bytes);
        char *out = NULL;
        size_t n = 99;
        assert_int_equal(qn__read_all(path, sizes[i], &out, &n, NULL), QN_OK);
        assert_int_equal(n, sizes[i]);
        assert_memory_equal(out, bytes, n);
        assert_int_equal(out[n], 0);
        assert_int_equal(QN_METRIC_READ(read_bytes) - before, n);
        qn_free(out);
        if (n == 0) continue;
        qn_error err;
        assert_int_equal(qn__read_all(path, n - 1, &out, &n, &err), QN_STATUS_limit);
        assert_non_null(strstr(err.text, "in' has more than "));
    }
}

static void refused_sources(void **state)
{
    (void)state;
    qn_error err;
    char *out = (void *)1;
    size_t n = 5;
    assert_int_equal(qn__read_all(scratch, 100, &out, &n, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "is a directory, a file was expected"));
    assert_int_equal(qn__read_all(in_scratch("absent"), 100, &out, &n, &err), QN_STATUS_io);
    assert_non_null(strstr(err.text, "absent': No such file or directory"));
    assert_int_equal(qn__read_all("", 100, &out, &n, &err), QN_STATUS_invalid);
    assert_int_equal(qn__read_all("/dev/zero", 300000, &out, &n, &err), QN_STATUS_limit); /* endless */
    assert_string_equal(err.text, "'/dev/zero' has more than 300000 bytes, the most that is read here");
    assert_ptr_equal(out, (void *)1);
    assert_int_equal(n, 5);
}

/* A file that says it is empty, and is not. */
static void system_files(void **state)
{
    (void)state;
    char *out;
    size_t n;
    if (access("/proc/self/status", R_OK) != 0) skip();
    assert_int_equal(qn__read_all("/proc/self/status", 100000, &out, &n, NULL), QN_OK);
    assert_true(n > 50 && strstr(out, "Pid:") != NULL);
    qn_free(out);
}

static void *slow_writer(void *arg)
{
    const int fd = open(arg, O_WRONLY);
    for (int i = 0; i < 50; i++) {
        if (write(fd, "0123456789", 10) != 10) break;
        usleep(2000);
    }
    close(fd);
    return NULL;
}

static void on_alarm(int sig) { (void)sig; }

/* A pipe that trickles while a timer interrupts every system call. */
static void interrupted_reads(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s", in_scratch("fifo"));
    assert_int_equal(mkfifo(path, 0666), 0);
    sigset_t alarm_only;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_only, NULL); /* the writing thread inherits it: the signals are for the reader */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, slow_writer, path), 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    struct sigaction action = {.sa_handler = on_alarm}, old;
    sigaction(SIGALRM, &action, &old); /* without SA_RESTART: reads end with EINTR */
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 700}, {0, 700}}, NULL);
    char *out = NULL;
    size_t n = 0;
    qn_error err = {0};
    const qn_status status = qn__read_all(path, 10000, &out, &n, &err);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    sigaction(SIGALRM, &old, NULL);
    pthread_join(thread, NULL);
    if (status != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(n, 500);
    for (size_t i = 0; i < n; i++) assert_int_equal(out[i], '0' + (int)(i % 10));
    qn_free(out);
}

static void standard_input(void **state)
{
    (void)state;
    int p[2];
    assert_int_equal(pipe(p), 0);
    assert_int_equal(write(p[1], "prompt\n", 7), 7);
    close(p[1]);
    const int saved = dup(STDIN_FILENO);
    dup2(p[0], STDIN_FILENO);
    char *out = NULL;
    size_t n = 0;
    const qn_status status = qn__read_all("-", 100, &out, &n, NULL);
    const bool still_open = fcntl(STDIN_FILENO, F_GETFD) != -1;
    if (saved >= 0) dup2(saved, STDIN_FILENO);
    close(p[0]);
    assert_int_equal(status, QN_OK);
    assert_string_equal(out, "prompt\n");
    assert_true(still_open);
    qn_free(out);
}

static void read_memory(void **state)
{
    (void)state;
    static char bytes[100000];
    char regular[1024];
    snprintf(regular, sizeof regular, "%s", write_file("in", bytes, sizeof bytes));
    const char *const sources[] = {regular, "/proc/self/status"}; /* a known size, and growth */
    const int fds = count_open_fds();
    for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
        long n = 0;
        for (bool done = false; !done; n++) {
            char *out = (void *)1;
            size_t size;
            assert_true(n < 20);
            books_open(n);
            const qn_status status = qn__read_all(sources[i], 1000000, &out, &size, NULL);
            done = books.n_failed == 0;
            assert_true(status == QN_OK || (status == QN_STATUS_nomem && out == (void *)1));
            if (status == QN_OK) qn_free(out);
            books_close();
            assert_int_equal(count_open_fds(), fds);
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, fresh, tidy)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(commit_replaces),
        TEST(fresh_file_obeys_umask),
        TEST(abort_leaves_no_trace),
        TEST(pieces_of_every_size),
        TEST(link_stays_a_link),
        TEST(refused_targets),
        TEST(devices_are_written_in_place),
        TEST(full_disk),
        TEST(failure_in_the_middle),
        TEST(vanished_directory),
        TEST(two_writers_one_target),
        TEST(standard_output),
        TEST(writer_memory),
        TEST(reads_all),
        TEST(refused_sources),
        TEST(system_files),
        TEST(interrupted_reads),
        TEST(standard_input),
        TEST(read_memory),
    };
    const struct CMUnitTest killed_test[] = {TEST(killed)};
    int failed = cmocka_run_group_tests(killed_test, NULL, NULL);
    for (int named = 0; named <= 1; named++) {
        qn__writer_names_at_once = named;
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
