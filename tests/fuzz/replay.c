/* SPDX-License-Identifier: MIT */
/* tests/fuzz/replay.c -- a main for fuzz targets built without libFuzzer: runs the target once on each file given, and
 * on every file below each directory given, in the order of their names. Fails when there was none: a corpus that is
 * gone tests nothing. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        return -1;
    }
    size_t size = 0, cap = 4096;
    uint8_t *data = malloc(cap);
    for (size_t n; data && (n = fread(data + size, 1, cap - size, f)) > 0;) {
        size += n;
        if (size < cap) continue;
        uint8_t *more = realloc(data, cap *= 2);
        if (!more) free(data);
        data = more;
    }
    fclose(f);
    /* A block of exactly the input's size: reading one byte more is an error that a sanitizer sees. */
    uint8_t *exact = data ? malloc(size ? size : 1) : NULL;
    if (!exact) {
        fprintf(stderr, "%s: out of memory\n", path);
        free(data);
        return -1;
    }
    memcpy(exact, data, size);
    free(data);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 1;
}

static int run_path(const char *path);

static int run_directory(const char *path)
{
    struct dirent **entries;
    const int n = scandir(path, &entries, NULL, alphasort);
    int total = 0;
    if (n < 0) {
        perror(path);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        char inner[4096];
        const int len = snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && total >= 0) {
            const int ran = len < (int)sizeof inner ? run_path(inner) : -1;
            total = ran < 0 ? -1 : total + ran;
        }
        free(entries[i]);
    }
    free(entries);
    return total;
}

/* How many inputs were run, or -1. */
static int run_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        return -1;
    }
    return S_ISDIR(st.st_mode) ? run_directory(path) : run_file(path);
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        const int ran = run_path(argv[i]);
        if (ran < 0) return 1;
        total += ran;
    }
    printf("%d inputs\n", total);
    return total > 0 ? 0 : 1;
}
