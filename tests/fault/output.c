/* SPDX-License-Identifier: MIT */
/* The program's files: a disk that is full, a folder that is not there, a pipe or a device that must stay one, an old
 * file that stands until the new one is whole. */
#include "unit/model/tiny.h"
#include <fcntl.h>
#include <sys/stat.h>

#include "cli/args.c"
#include "cli/common.c"
#include "cli/files.c"
#include "cli/values.c"

/* main.c and help.c are not here, and nobody asks for them. */
const cli_command *cli_command_get(int i)
{
    (void)i;
    return NULL;
}
int cli_n_commands(void) { return 0; }
void cli_print_help(void *ctx, const cli_usage *u, const cli_option *options, int n)
{
    (void)ctx, (void)u, (void)options, (void)n;
}

static char *slurp(const char *path, size_t *len)
{
    char *text = cli_read_text(path, 1 << 20, len);
    assert_non_null(text);
    return text;
}

static void replaces_whole_files(void **state)
{
    (void)state;
    size_t len = 0;
    const char *path = tiny_path("out.json");
    assert_int_equal(cli_write_text(path, "old", 3), CLI_OK);
    assert_int_equal(cli_write_text(path, "new text", 8), CLI_OK);
    char *text = slurp(path, &len);
    assert_int_equal(len, 8);
    assert_string_equal(text, "new text");
    free(text);
    assert_int_equal(tiny_n_files(), 1);
    assert_int_equal(cli_write_text(tiny_path("no/such/out.json"), "x", 1), CLI_FAILED);
    assert_int_equal(tiny_n_files(), 1);
}

static void keeps_pipes_and_devices(void **state)
{
    (void)state;
    struct stat st;
    char text[16] = "";
    const char *path = tiny_path("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    const int fd = open(path, O_RDWR | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(cli_write_text(path, "through", 7), CLI_OK);
    assert_int_equal(read(fd, text, sizeof(text)), 7);
    assert_string_equal(text, "through");
    close(fd);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    unlink(path);
    if (access("/dev/full", W_OK) != 0) return;
    assert_int_equal(cli_write_text("/dev/full", "x", 1), CLI_FAILED);
    assert_int_equal(stat("/dev/full", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

static void reads_up_to_a_limit(void **state)
{
    (void)state;
    size_t len = 7;
    const char *path = tiny_path("in");
    char *big = malloc(200000);
    assert_non_null(big);
    memset(big, 'x', 200000);
    assert_int_equal(cli_write_text(path, big, 200000), CLI_OK);
    char *text = slurp(path, &len);
    assert_int_equal(len, 200000);
    assert_memory_equal(text, big, len);
    assert_int_equal(text[len], 0);
    free(text);
    free(big);
    assert_null(cli_read_text(path, 1 << 16, &len));
    assert_null(cli_read_text(tiny_path("none"), 1 << 16, &len));
    assert_null(cli_read_text("/", 1 << 16, &len));
    assert_int_equal(cli_write_text(path, "", 0), CLI_OK);
    text = slurp(path, &len);
    assert_int_equal(len, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaces_whole_files),
        cmocka_unit_test(keeps_pipes_and_devices),
        cmocka_unit_test(reads_up_to_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
