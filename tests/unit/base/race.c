/* SPDX-License-Identifier: MIT */
/* The thread sanitizer reports races, of a word and of a whole vector: its runtime isn't that of the compiler
 * (test.sh), and a sanitizer that sees nothing passes every test. Two threads that nothing orders are a race whichever
 * runs first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct vector {
    float x[16];
} vector;

static int word;
static vector wide, zeros;

static void *write_word(void *unused)
{
    (void)unused;
    word++;
    return NULL;
}

static void *write_vector(void *unused)
{
    (void)unused;
    wide = zeros;
    return NULL;
}

/* What a child says in which two threads call fn, and its exit status. */
static int child(void *(*fn)(void *), char *said, size_t size)
{
    int fds[2], status = 0;
    assert_int_equal(pipe(fds), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        pthread_t threads[2];
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        for (int i = 0; i < 2; i++)
            if (pthread_create(&threads[i], NULL, fn, NULL) != 0) _exit(99);
        for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
        exit(0); /* not _exit: the sanitizer gives its status there */
    }
    close(fds[1]);
    FILE *reports = fdopen(fds[0], "r");
    assert_non_null(reports);
    said[fread(said, 1, size - 1, reports)] = 0;
    fclose(reports);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void races_are_reported(void **state)
{
    (void)state;
    static char said[4096];
#ifndef __SANITIZE_THREAD__
    skip();
#endif
    assert_int_not_equal(child(write_word, said, sizeof said), 0);
    assert_non_null(strstr(said, "data race"));
    assert_int_not_equal(child(write_vector, said, sizeof said), 0);
    assert_non_null(strstr(said, "data race"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(races_are_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
