/* SPDX-License-Identifier: MIT */
/* tests/unit/format/corpus.h -- what the tests of seed corpora share: a folder CORPUS, and beside it CORPUS.expect, a
 * line a file: its name, the status of opening it, the words that the message holds, between tabs. */
#ifndef QN_TEST_FORMAT_CORPUS_H
#define QN_TEST_FORMAT_CORPUS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <quern/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    char *data = malloc(1 << 16);
    *size = fread(data, 1, 1 << 16, f);
    fclose(f);
    /* Exactly as large as the file, so that a sanitizer sees one byte too far. */
    char *exact = malloc(*size ? *size : 1);
    memcpy(exact, data, *size);
    free(data);
    return exact;
}

/* Returns the number of complaints about one way of opening. */
static int check(const char *name, const char *how, const char *status_name, char *const *words, int n_words,
                 qn_status status, const qn_error *err)
{
    int bad = 0;
    if (strcmp(qn_status_name(status), status_name) != 0) {
        print_error("%s %s: found status %s, expected %s (%s)\n", name, how, qn_status_name(status), status_name,
                    status == QN_OK ? "" : err->text);
        return 1;
    }
    if (status == QN_OK) return 0;
    for (int i = 0; i < n_words; i++) {
        if (strstr(err->text, words[i])) continue;
        print_error("%s %s: \"%s\" does not say \"%s\"\n", name, how, err->text, words[i]);
        bad++;
    }
    if (strchr(err->text, '\n') || strlen(err->text) < 20 || !strstr(err->text, "offset") ||
        !strstr(err->text, "expected")) {
        print_error("%s %s: \"%s\" is not one line with an offset and what was expected\n", name, how, err->text);
        bad++;
    }
    return bad;
}

/* Opens a file in every way there is; returns the number of complaints. */
typedef int (*open_fn)(const char *name, const char *status_name, char *const *words, int n_words);

/* The corpus holds more files than that, and at least so many bad ones. */
static void each_file(const char *expect_path, open_fn open, int more_than, int least_bad)
{
    char line[1024];
    int n_files = 0, n_bad_files = 0, complaints = 0;
    FILE *expect = fopen(expect_path, "r");
    assert_non_null(expect);
    while (fgets(line, sizeof line, expect)) {
        char *words[16], *save = NULL;
        int n = 0;
        line[strcspn(line, "\n")] = '\0';
        for (char *w = strtok_r(line, "\t", &save); w && n < 16; w = strtok_r(NULL, "\t", &save)) words[n++] = w;
        assert_true(n >= 2);
        n_files++;
        n_bad_files += strncmp(words[0], "bad-", 4) == 0;
        complaints += open(words[0], words[1], words + 2, n - 2);
    }
    fclose(expect);
    assert_int_equal(complaints, 0);
    assert_true(n_files > more_than);
    assert_true(n_bad_files >= least_bad);
}

#endif
