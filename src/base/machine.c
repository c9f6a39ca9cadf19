/* SPDX-License-Identifier: MIT */
/* src/base/machine.c -- the processor: its name, its features, and the rung of the CPU backend that it can run. A
 * feature counts only when the operating system also saves the registers that it uses (XCR0). */
#include "base/ladder.h"
#include "base/machine.h"
#include "base/thread.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)

#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

enum { EAX, EBX, ECX, EDX };
enum { STATE_none = 0, STATE_ymm = 0x06, STATE_zmm = 0xe6, STATE_tile = 0x60000 }; /* bits of XCR0 */

static uint64_t saved_state(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & 1u << 27) == 0) return 0; /* OSXSAVE: xgetbv exists */
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

/* Linux wants to be asked before a process touches the 8 KiB of tiles (Documentation/arch/x86/xstate.rst); its threads
 * and children inherit the leave. It says no where a thread's alternate signal stack is too small to save them. */
static bool tiles_allowed(void)
{
#if defined(__linux__)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

static bool has_feature(unsigned leaf, unsigned subleaf, int reg, int bit, uint64_t state, uint64_t saved)
{
    unsigned r[4];
    if (state == STATE_tile && ((saved & state) != state || !tiles_allowed())) return false;
    if (leaf == 7 && subleaf > 0) { /* leaf 7 says how many subleaves it has */
        if (!__get_cpuid_count(7, 0, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) || r[EAX] < subleaf) return false;
    }
    if (!__get_cpuid_count(leaf, subleaf, &r[EAX], &r[EBX], &r[ECX], &r[EDX])) return false;
    return (r[reg] >> bit & 1) != 0 && (saved & state) == state;
}

/* The maker's name is in EBX, EDX, ECX of leaf 0, family and model in EAX of leaf 1. */
static bool many_streams(void)
{
    unsigned r[4];
    char maker[13] = {0};
    if (!__get_cpuid(0, &r[EAX], &r[EBX], &r[ECX], &r[EDX])) return false;
    memcpy(maker, (unsigned[]){r[EBX], r[EDX], r[ECX]}, 12);
    if (!__get_cpuid(1, &r[EAX], &r[EBX], &r[ECX], &r[EDX])) return false;
    return qn__x86_many_streams(maker, r[EAX]);
}

static void brand(char *name, size_t size)
{
    unsigned r[12] = {0};
    char text[sizeof r + 1] = {0};
    for (unsigned i = 0; i < 3; i++) {
        if (!__get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3])) break;
    }
    memcpy(text, r, sizeof r);
    const char *p = text;
    while (*p == ' ') p++;
    snprintf(name, size, "%s", *p != '\0' ? p : "x86");
    for (size_t n = strlen(name); n > 0 && name[n - 1] == ' '; n--) name[n - 1] = '\0';
}

static uint64_t features_here(void)
{
    const uint64_t saved = saved_state();
    uint64_t set = 0;
#define QN_X86_FEATURE(name, leaf, subleaf, reg, bit, state, level) \
    if (has_feature(leaf, subleaf, reg, bit, STATE_##state, saved)) set |= UINT64_C(1) << QN_X86_HAS_##name;
#include "base/cpu_features.def"
    return set;
}

#define QN_X86_FEATURE(name, leaf, subleaf, reg, bit, state, level) #name,
static const char *const feature_names[] = {
#include "base/cpu_features.def"
};
enum { FEATURE_COUNT = QN_X86_FEATURE_COUNT };
static unsigned levels_of(uint64_t features) { return qn__x86_levels(features); }

#else

#include <sys/utsname.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

static bool many_streams(void) { return false; } /* not measured */

static void brand(char *name, size_t size)
{
    struct utsname u;
    snprintf(name, size, "%.60s", uname(&u) == 0 ? u.machine : "unknown");
}

#if defined(__aarch64__) && defined(__linux__)
static uint64_t features_here(void)
{
    const unsigned long words[] = {0, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
    uint64_t set = 0;
#define QN_ARM_FEATURE(name, word, bit, level) \
    if (words[word] >> (bit)&1) set |= UINT64_C(1) << QN_ARM_HAS_##name;
#include "base/cpu_features.def"
    return set;
}
#else
static uint64_t features_here(void) { return 0; }
#endif

#if defined(__aarch64__)
#define QN_ARM_FEATURE(name, word, bit, level) #name,
static const char *const feature_names[] = {
#include "base/cpu_features.def"
};
enum { FEATURE_COUNT = QN_ARM_FEATURE_COUNT };
static unsigned levels_of(uint64_t features) { return qn__arm_levels(features); }
#else
static const char *const feature_names[] = {""};
enum { FEATURE_COUNT = 0 };
static unsigned levels_of(uint64_t features) { return (unsigned)features | 1u; }
#endif

#endif

unsigned qn__cpu_identify(char *name, size_t name_bytes, char *features, size_t features_bytes)
{
    const uint64_t set = features_here();
    size_t n = 0;
    brand(name, name_bytes);
    features[0] = '\0';
    for (int i = 0; i < FEATURE_COUNT; i++)
        if (set >> i & 1 && n + strlen(feature_names[i]) + 1 < features_bytes)
            n += (size_t)snprintf(features + n, features_bytes - n, "%s%s", n > 0 ? " " : "", feature_names[i]);
    return levels_of(set);
}

void qn_machine_get(qn_machine *out)
{
    qn_cpu_set cpus;
    memset(out, 0, sizeof *out);
    out->levels = qn__cpu_identify(out->cpu_name, sizeof out->cpu_name, out->features, sizeof out->features);
    for (int l = 0; l < QN_CPU_LEVEL_COUNT; l++)
        if (out->levels >> l & 1) out->level = (qn_cpu_level)l;
    out->many_streams = many_streams();
    qn__affinity_get(&cpus);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    out->logical_cpus = online > 0 ? (int)online : 1;
    out->usable_cpus = qn__cpu_count(&cpus);
    out->physical_cores = qn__physical_cores("", &cpus);
    out->default_threads = qn__default_threads();
    qn__cgroup_limits("", &out->quota_cpus, &out->memory_limit_bytes);

    int first = 0;
    while (first + 1 < QN_MAX_CPUS && !qn__cpu_has(&cpus, first)) first++;
    out->l1d_bytes = qn__cache_bytes("", first, 1);
    out->l2_bytes = qn__cache_bytes("", first, 2);
    out->l3_bytes = qn__cache_bytes("", first, 3);
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (out->l1d_bytes == 0 && sysconf(_SC_LEVEL1_DCACHE_SIZE) > 0)
        out->l1d_bytes = (uint64_t)sysconf(_SC_LEVEL1_DCACHE_SIZE);
    if (out->l2_bytes == 0 && sysconf(_SC_LEVEL2_CACHE_SIZE) > 0)
        out->l2_bytes = (uint64_t)sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (out->l3_bytes == 0 && sysconf(_SC_LEVEL3_CACHE_SIZE) > 0)
        out->l3_bytes = (uint64_t)sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif

    out->memory_bytes = qn__meminfo_bytes("", "MemTotal");
    const uint64_t unused = qn__memory_free("");
    out->memory_free_bytes = unused != UINT64_MAX ? unused : 0;
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (out->memory_bytes == 0 && pages > 0 && page_bytes > 0)
        out->memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    if (out->memory_limit_bytes >= out->memory_bytes) out->memory_limit_bytes = 0; /* it binds nothing */
}

static const char *const level_names[] = {
#define ROW(name, base, needs) #name,
    QN_CPU_LEVEL_ROWS(ROW)
#undef ROW
};

const char *qn_cpu_level_name(qn_cpu_level level)
{
    return (unsigned)level < QN_CPU_LEVEL_COUNT ? level_names[level] : "unknown";
}

bool qn_cpu_level_find(const char *name, qn_cpu_level *out)
{
    for (int i = 0; i < QN_CPU_LEVEL_COUNT; i++) {
        if (strcmp(level_names[i], name) == 0) {
            *out = (qn_cpu_level)i;
            return true;
        }
    }
    return false;
}
