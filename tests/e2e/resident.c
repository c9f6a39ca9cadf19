/* SPDX-License-Identifier: MIT */
/* Resident memory of `quern inspect` on a 1.1 B Q4_K_M file stays under 30 MB: no tensor page is touched. The file is
 * written here, at full size, by synth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <fcntl.h>
#include <quern/engine.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char path[] = QN_BUILD_DIR "/resident-test.gguf";

/* Peak resident KiB of one run of the program; -1 when it fails. */
static long peak_kib(const char *command, const char *option)
{
    struct rusage usage;
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        execl(QN_BUILD_DIR "/quern", "quern", command, path, option, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && wait4(pid, &status, 0, &usage) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? usage.ru_maxrss
               : -1;
}

static void inspect_stays_small(void **state)
{
    (void)state;
    static const char *const options[] = {"--tensors", "--csv", NULL};
    qn_error err;
    const qn_synth_options synth = {.preset = "tinyllama-1.1b", .type = "Q4_K_M"};
    if (qn_synth(path, &synth, NULL, NULL, &err) != QN_OK) fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++) {
        const long kib = peak_kib("inspect", options[i]);
        printf("inspect %s: %ld KiB\n", options[i] ? options[i] : "", kib);
        assert_in_range(kib, 1, 30 * 1024);
    }
    /* A file this size written by this process: bounded memory there too. */
    qn_metrics metrics;
    qn_metrics_snapshot(&metrics);
    assert_true(metrics.peak_bytes < (64u << 20));
}

int main(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("skipped: a sanitizer's own memory would be measured\n");
    return 77;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    printf("skipped: a sanitizer's own memory would be measured\n");
    return 77;
#endif
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(inspect_stays_small)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    return failed;
}
