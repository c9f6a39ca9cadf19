/* SPDX-License-Identifier: MIT */
/* tests/unit/base/machine.c -- what this processor is said to be, against the compiler's own detection and the
 * kernel's. */
#include "base/machine.h"
#include "failing.h"
#include <stdio.h>
#include <stdlib.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

static void levels_have_names(void **state)
{
    (void)state;
    qn_cpu_level level = QN_CPU_ref;
    assert_string_equal(qn_cpu_level_name(QN_CPU_ref), "ref");
#if defined(__x86_64__)
    assert_string_equal(qn_cpu_level_name(QN_CPU_avx512), "avx512");
#elif defined(__aarch64__)
    assert_string_equal(qn_cpu_level_name(QN_CPU_dotprod), "dotprod");
#endif
    assert_string_equal(qn_cpu_level_name(QN_CPU_LEVEL_COUNT), "unknown");
    for (int i = 0; i < QN_CPU_LEVEL_COUNT; i++) {
        assert_true(qn_cpu_level_find(qn_cpu_level_name((qn_cpu_level)i), &level));
        assert_int_equal(level, i);
    }
    level = QN_CPU_LEVEL_COUNT - 1;
    assert_false(qn_cpu_level_find("AVX2", &level));
    assert_false(qn_cpu_level_find("Neon", &level));
    assert_false(qn_cpu_level_find("", &level));
    assert_int_equal(level, QN_CPU_LEVEL_COUNT - 1);
}

#if defined(__x86_64__) || defined(__aarch64__)
static bool listed(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)) != NULL; p += n) {
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    }
    return false;
}
#endif

#if defined(__aarch64__)
static uint64_t id_field(uint64_t reg, int shift) { return reg >> shift & 15; }

/* Programs may read these registers where the kernel says so (HWCAP_CPUID), and it hides in them what it cannot serve.
 */
static void agrees_with_the_registers(void **state)
{
    (void)state;
    uint64_t isar0, isar1, pfr0;
    if ((getauxval(AT_HWCAP) >> 11 & 1) == 0) skip();
    __asm__("mrs %0, id_aa64isar0_el1" : "=r"(isar0));
    __asm__("mrs %0, id_aa64isar1_el1" : "=r"(isar1));
    __asm__("mrs %0, id_aa64pfr0_el1" : "=r"(pfr0));
    const bool asimd = id_field(pfr0, 20) != 15, dotprod = id_field(isar0, 44) != 0, i8mm = id_field(isar1, 52) != 0;
    qn_machine m;
    qn_machine_get(&m);
    assert_int_equal(listed(m.features, "asimd"), asimd);
    assert_int_equal(listed(m.features, "asimddp"), dotprod);
    assert_int_equal(listed(m.features, "i8mm"), i8mm);
    assert_int_equal(listed(m.features, "asimdhp"), id_field(pfr0, 20) == 1);
    assert_int_equal(listed(m.features, "bf16"), id_field(isar1, 44) != 0);
    assert_int_equal(m.level, !asimd ? QN_CPU_ref : !dotprod ? QN_CPU_neon : !i8mm ? QN_CPU_dotprod : QN_CPU_i8mm);
}
#endif

#if defined(__x86_64__)
static void agrees_with_the_compiler(void **state)
{
    (void)state;
    qn_machine m;
    qn_machine_get(&m);
#define AGREE(ours, theirs) assert_int_equal(listed(m.features, ours), __builtin_cpu_supports(theirs) != 0)
    AGREE("avx", "avx");
    AGREE("fma", "fma");
    AGREE("bmi2", "bmi2");
    AGREE("avx2", "avx2");
#ifndef __clang__ /* clang 14 has no word for it; the kernel's list is asked below */
    AGREE("avxvnni", "avxvnni");
#endif
    AGREE("avx512f", "avx512f");
    AGREE("avx512bw", "avx512bw");
    AGREE("avx512dq", "avx512dq");
    AGREE("avx512vl", "avx512vl");
    AGREE("avx512vnni", "avx512vnni");
#undef AGREE
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vnni");
    const bool avxvnni = avx2 && listed(m.features, "avxvnni");
    const bool amx = avx512 && listed(m.features, "avx512bf16") && listed(m.features, "avx512fp16") &&
                     listed(m.features, "amx_tile") && listed(m.features, "amx_int8") && listed(m.features, "amx_bf16");
    assert_int_equal(m.level, amx       ? QN_CPU_amx
                              : avx512  ? QN_CPU_avx512
                              : avxvnni ? QN_CPU_avxvnni
                              : avx2    ? QN_CPU_avx2
                                        : QN_CPU_ref);
    assert_int_equal(m.levels, 1u << QN_CPU_ref | (unsigned)avx2 << QN_CPU_avx2 | (unsigned)avxvnni << QN_CPU_avxvnni |
                                   /* AVX-512 without AVX-VNNI is common */
                                   (unsigned)avx512 << QN_CPU_avx512 | (unsigned)amx << QN_CPU_amx);
}

/* The line of /proc/cpuinfo that begins with this word, for the first processor. */
static const char *line_of_kernel(const char *word)
{
    static char line[16384];
    FILE *f = fopen("/proc/cpuinfo", "r");
    bool found = false;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) found = strncmp(line, word, strlen(word)) == 0;
    if (f != NULL) fclose(f);
    if (!found) skip();
    line[strcspn(line, "\n")] = ' ';
    return line;
}

static void has_the_kernels_name(void **state)
{
    (void)state;
    const char *line = line_of_kernel("model name");
    qn_machine m;
    qn_machine_get(&m);
    const char *name = strstr(line, m.cpu_name);
    assert_non_null(name);
    assert_true(name[-2] == ':' && name[-1] == ' ');
    assert_string_equal(name + strlen(m.cpu_name), " ");
}

/* The number at the end of that line. */
static unsigned number_of_kernel(const char *word)
{
    const char *colon = strchr(line_of_kernel(word), ':');
    return colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
}

/* By the kernel's family and model. */
static void streams_of_this_processor(void **state)
{
    (void)state;
    const unsigned family = number_of_kernel("cpu family"), model = number_of_kernel("model\t");
    const bool intel = strstr(line_of_kernel("vendor_id"), "GenuineIntel") != NULL;
    const bool zen_4 = strstr(line_of_kernel("vendor_id"), "AuthenticAMD") != NULL && family == 25 &&
                       ((model >= 16 && model < 32) || (model >= 96 && model < 128) || (model >= 160 && model < 176));
    qn_machine m;
    qn_machine_get(&m);
    assert_int_equal(m.many_streams, intel || zen_4);
}

/* The kernel hides what it cannot save, as we must. */
static void agrees_with_the_kernel(void **state)
{
    (void)state;
    static const struct {
        const char *ours, *kernels;
    } pairs[] = {
        {"avx", " avx "},
        {"f16c", " f16c "},
        {"fma", " fma "},
        {"avx2", " avx2 "},
        {"avxvnni", " avx_vnni "},
        {"avx512f", " avx512f "},
        {"avx512vnni", " avx512_vnni "},
        {"avx512bf16", " avx512_bf16 "},
        {"avx512fp16", " avx512_fp16 "},
        {"amx_int8", " amx_int8 "},
        {"amx_bf16", " amx_bf16 "},
    };
    const char *line = line_of_kernel("flags");
    qn_machine m;
    qn_machine_get(&m);
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        const bool theirs = strstr(line, pairs[i].kernels) != NULL;
        /* An old kernel has no word for a new feature: only what it does name must be ours too. */
        const bool ours = listed(m.features, pairs[i].ours);
        if (theirs && !ours) fail_msg("the kernel has%sbut '%s' lacks it", pairs[i].kernels, m.features);
        if (i < 4 && !theirs) assert_false(ours);
    }
}
#endif

static void short_buffers(void **state)
{
    (void)state;
    char name[8], features[10];
    memset(features, '#', sizeof features);
    const unsigned levels = qn__cpu_identify(name, sizeof name, features, sizeof features);
    qn_machine m;
    qn_machine_get(&m);
    assert_int_equal(levels, m.levels); /* what does not fit into the text still counts */
    assert_true(strlen(name) < sizeof name && strlen(features) < sizeof features);
    assert_true(strncmp(m.cpu_name, name, strlen(name)) == 0);
}

static void makes_sense(void **state)
{
    (void)state;
    qn_machine m;
    memset(&m, 0xff, sizeof m);
    qn_machine_get(&m);
    assert_true(m.cpu_name[0] != '\0' && m.cpu_name[0] != ' ');
    assert_true(m.logical_cpus >= 1 && m.usable_cpus >= 1);
    assert_true(m.physical_cores >= 1 && m.physical_cores <= m.usable_cpus);
    assert_true(m.default_threads >= 1 && m.default_threads <= m.physical_cores);
    assert_true(m.quota_cpus >= 0 && m.quota_cpus < 100000);
    assert_true(m.memory_bytes > 1 << 20 && m.memory_free_bytes <= m.memory_bytes);
    assert_true(m.memory_limit_bytes < m.memory_bytes);
    assert_true(m.l1d_bytes == 0 || (m.l1d_bytes >= 4096 && m.l1d_bytes <= 1 << 22));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_names),
#if defined(__x86_64__)
        cmocka_unit_test(agrees_with_the_compiler),
        cmocka_unit_test(has_the_kernels_name),
        cmocka_unit_test(streams_of_this_processor),
        cmocka_unit_test(agrees_with_the_kernel),
#elif defined(__aarch64__)
        cmocka_unit_test(agrees_with_the_registers),
#endif
        cmocka_unit_test(short_buffers),
        cmocka_unit_test(makes_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
