/* SPDX-License-Identifier: MIT */
/* tests/unit/base/dir.c -- folders: every kind of entry is told apart without being opened. */
#include "base/dir.h"
#include "files.h"

static void kinds(void **state)
{
    (void)state;
    scratch_make("t_base_dir");
    write_text("file", "12345");
    assert_int_equal(mkdir(in_scratch("folder"), 0777), 0);
    assert_int_equal(mkfifo(in_scratch("fifo"), 0666), 0);
    assert_int_equal(symlink("file", in_scratch("to_file")), 0);
    assert_int_equal(symlink("folder", in_scratch("to_folder")), 0);
    assert_int_equal(symlink("nothing", in_scratch("to_nothing")), 0);
    assert_int_equal(symlink("loop", in_scratch("loop")), 0);
    static const struct {
        const char *name;
        qn_entry_kind kind;
        bool link;
    } want[] = {{"fifo", QN_ENTRY_other, false},      {"file", QN_ENTRY_file, false},
                {"folder", QN_ENTRY_folder, false},   {"loop", QN_ENTRY_loop, true},
                {"to_file", QN_ENTRY_file, true},     {"to_folder", QN_ENTRY_folder, true},
                {"to_nothing", QN_ENTRY_absent, true}};
    qn_arena arena;
    qn_entry *list;
    size_t n;
    bool cut;
    qn_error err;
    qn__arena_init(&arena, 0);
    assert_int_equal(qn__folder_read(scratch, 100, &arena, &list, &n, &cut, &err), QN_OK);
    assert_int_equal(n, ARRAY_LEN(want));
    assert_false(cut);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(list[i].name, want[i].name);
        assert_int_equal(list[i].kind, want[i].kind);
        assert_int_equal(list[i].link, want[i].link);
        const qn_entry e = qn__entry_at(in_scratch(want[i].name));
        assert_int_equal(e.kind, want[i].kind);
    }
    assert_string_equal(list[0].what, "a named pipe");
    assert_int_equal(list[1].bytes, 5);
    assert_int_equal(list[4].bytes, 5);
    assert_true(list[1].inode == list[4].inode && list[1].device == list[4].device && list[1].inode != 0);
    assert_int_equal(qn__entry_at(in_scratch("nothing")).kind, QN_ENTRY_absent);
    assert_false(qn__entry_at(in_scratch("nothing")).link);
    assert_int_equal(qn__entry_at(in_scratch("file/below")).kind, QN_ENTRY_absent);
    char *real = qn__real_path(&arena, in_scratch("to_folder"));
    assert_non_null(real);
    assert_string_equal(strrchr(real, '/'), "/folder");
    assert_null(qn__real_path(&arena, in_scratch("loop")));
    qn__arena_deinit(&arena);
    remove_tree(scratch);
}

static void bounds(void **state)
{
    (void)state;
    scratch_make("t_base_dir");
    char name[8];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "%02d", 49 - i);
        write_text(name, "");
    }
    qn_arena arena;
    qn_entry *list;
    size_t n;
    bool cut;
    qn_error err;
    qn__arena_init(&arena, 0);
    assert_int_equal(qn__folder_read(scratch, 50, &arena, &list, &n, &cut, &err), QN_OK);
    assert_true(n == 50 && !cut);
    for (size_t i = 1; i < n; i++) assert_true(strcmp(list[i - 1].name, list[i].name) < 0);
    assert_int_equal(qn__folder_read(scratch, 49, &arena, &list, &n, &cut, &err), QN_OK);
    assert_true(n == 49 && cut);
    assert_int_equal(qn__folder_read(in_scratch("none"), 9, &arena, &list, &n, &cut, &err), QN_STATUS_io);
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(qn__folder_read(in_scratch("00"), 9, &arena, &list, &n, &cut, &err), QN_STATUS_io);
    assert_int_equal(mkfifo(in_scratch("fifo"), 0666), 0); /* nobody waits for its writer */
    assert_int_not_equal(qn__folder_read(in_scratch("fifo"), 9, &arena, &list, &n, &cut, &err), QN_OK);
    qn__arena_deinit(&arena);
    remove_tree(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kinds), cmocka_unit_test(bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
