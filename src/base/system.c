/* SPDX-License-Identifier: MIT */
/* src/base/system.c -- what the operating system says about cores, caches, memory and limits. Whatever cannot be read
 * counts as unknown or unlimited: this file never fails, it only knows less. Nothing here allocates. */
#include "base/machine.h"
#include "base/str.h"
#include "base/thread.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

/* The start of a small text file, terminated; false when it cannot be read. */
static bool read_text(const char *path, char *buf, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t n = 0;
    while (n + 1 < size) {
        const ssize_t got = read(fd, buf + n, size - 1 - n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n += (size_t)got;
    }
    close(fd);
    buf[n] = '\0';
    return n > 0;
}

/* Decimal digits at *p, or -1 when there are none or too many; *p moves behind them. */
static int64_t number(const char **p)
{
    if (**p < '0' || **p > '9') return -1;
    int64_t v = 0;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, **p - '0', &v)) return -1;
    }
    return v;
}

/* ---- cpus ---- */

int qn__cpu_count(const qn_cpu_set *s)
{
    int n = 0;
    for (size_t i = 0; i < QN_MAX_CPUS / 64; i++) n += __builtin_popcountll(s->word[i]);
    return n;
}

void qn__affinity_get(qn_cpu_set *out)
{
    memset(out, 0, sizeof *out);
#ifdef __linux__
    cpu_set_t mask[sizeof *out / sizeof(cpu_set_t)];
    memset(mask, 0, sizeof mask);
    if (sched_getaffinity(0, sizeof mask, mask) == 0) {
        for (int i = 0; i < QN_MAX_CPUS; i++) {
            if (CPU_ISSET_S(i, sizeof mask, mask)) qn__cpu_add(out, i);
        }
    }
#endif
    if (qn__cpu_count(out) > 0) return;
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < (n > 0 ? n : 1) && i < QN_MAX_CPUS; i++) qn__cpu_add(out, i);
}

bool qn__cpu_list_parse(const char *text, qn_cpu_set *out)
{
    qn_cpu_set set = {{0}};
    const char *p = text;
    for (;;) {
        const int64_t first = number(&p);
        int64_t last = first;
        if (*p == '-') {
            p++;
            last = number(&p);
        }
        if (first < 0 || last < first) return false;
        for (int64_t i = first; i <= last && i < QN_MAX_CPUS; i++) qn__cpu_add(&set, (int)i);
        if (*p != ',') break;
        p++;
    }
    if (*p == '\n') p++;
    if (*p != '\0') return false;
    *out = set;
    return true;
}

int qn__physical_cores(const char *root, const qn_cpu_set *cpus)
{
    qn_cpu_set covered = {{0}}; /* CPUs whose core has been counted */
    int n = 0;
    for (int cpu = 0; cpu < QN_MAX_CPUS; cpu++) {
        if (!qn__cpu_has(cpus, cpu) || qn__cpu_has(&covered, cpu)) continue;
        /* new and old name of one thing */
        static const char *const names[] = {"core_cpus_list", "thread_siblings_list"};
        n++;
        for (size_t i = 0; i < 2; i++) {
            char path[PATH_BYTES], text[1024];
            qn_cpu_set siblings;
            snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/%s", root, cpu, names[i]);
            if (!read_text(path, text, sizeof text) || !qn__cpu_list_parse(text, &siblings)) continue;
            for (size_t k = 0; k < QN_MAX_CPUS / 64; k++) covered.word[k] |= siblings.word[k];
            break;
        }
    }
    return n > 0 ? n : 1;
}

uint64_t qn__cache_bytes(const char *root, int cpu, int level)
{
    for (int i = 0; i < 16; i++) {
        char path[PATH_BYTES], text[64];
        const char *p = text;
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cache/index%d/level", root, cpu, i);
        if (!read_text(path, text, sizeof text)) return 0;
        if (number(&p) != level) continue;
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cache/index%d/type", root, cpu, i);
        if (!read_text(path, text, sizeof text) || strncmp(text, "Instruction", 11) == 0) continue;
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/cache/index%d/size", root, cpu, i);
        if (!read_text(path, text, sizeof text)) continue;
        p = text;
        const int64_t n = number(&p);
        const int shift = *p == 'K' ? 10 : *p == 'M' ? 20 : *p == 'G' ? 30 : 0;
        if (n > 0 && n <= INT64_MAX >> shift) return (uint64_t)n << shift;
    }
    return 0;
}

/* ---- memory ---- */

uint64_t qn__meminfo_bytes(const char *root, const char *key)
{
    char path[PATH_BYTES], text[8192];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (!read_text(path, text, sizeof text)) return 0;
    const size_t n = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, n) != 0 || line[n] != ':') continue;
        const char *p = line + n + 1;
        while (*p == ' ') p++;
        const int64_t kib = number(&p);
        return kib > 0 && kib <= INT64_MAX >> 10 ? (uint64_t)kib << 10 : 0;
    }
    return 0;
}

/* ---- cgroups ---- */

typedef struct limits {
    double quota_cpus;
    uint64_t memory_bytes;
    uint64_t free_bytes; /* UINT64_MAX: no group limits memory */
} limits;

static void lower_quota(limits *l, int64_t quota_us, int64_t period_us)
{
    if (quota_us <= 0 || period_us <= 0) return;
    const double cpus = (double)quota_us / (double)period_us;
    if (l->quota_cpus == 0 || cpus < l->quota_cpus) l->quota_cpus = cpus;
}

/* Of `used`, what is cached files can be had back. */
static void lower_memory(limits *l, int64_t bytes, int64_t used, int64_t cached)
{
    if (bytes <= 0 || bytes >= INT64_C(1) << 60) return; /* version 1 writes "no limit" as the largest page count */
    if (l->memory_bytes == 0 || (uint64_t)bytes < l->memory_bytes) l->memory_bytes = (uint64_t)bytes;
    if (used < 0) used = 0;
    const int64_t held = cached < used ? used - cached : 0, left = held < bytes ? bytes - held : 0;
    if ((uint64_t)left < l->free_bytes) l->free_bytes = (uint64_t)left;
}

/* One number of a one-number file; -1 for "max", a missing file and anything else. */
static int64_t read_number(const char *dir, const char *name)
{
    char path[PATH_BYTES + 64], text[64];
    const char *p = text;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return read_text(path, text, sizeof text) ? number(&p) : -1;
}

/* "KEY 123" among the lines of memory.stat; 0 when it is not there. */
static int64_t read_stat(const char *dir, const char *key)
{
    char path[PATH_BYTES + 64], text[16384];
    const size_t n = strlen(key);
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    if (!read_text(path, text, sizeof text)) return 0;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, n) != 0 || line[n] != ' ') continue;
        const char *p = line + n + 1;
        const int64_t v = number(&p);
        return v > 0 ? v : 0;
    }
    return 0;
}

static void read_v2(const char *dir, limits *l)
{
    char path[PATH_BYTES + 64], text[64];
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    if (read_text(path, text, sizeof text)) { /* "150000 100000" or "max 100000" */
        const char *p = text;
        const int64_t quota = number(&p);
        if (*p == ' ') p++;
        lower_quota(l, quota, number(&p));
    }
    const int64_t max = read_number(dir, "memory.max");
    if (max > 0)
        lower_memory(l, max, read_number(dir, "memory.current"),
                     read_stat(dir, "inactive_file") + read_stat(dir, "active_file"));
}

static void read_v1_cpu(const char *dir, limits *l)
{
    lower_quota(l, read_number(dir, "cpu.cfs_quota_us"), read_number(dir, "cpu.cfs_period_us"));
}

static void read_v1_memory(const char *dir, limits *l)
{
    const int64_t max = read_number(dir, "memory.limit_in_bytes");
    if (max > 0)
        lower_memory(l, max, read_number(dir, "memory.usage_in_bytes"),
                     read_stat(dir, "total_inactive_file") + read_stat(dir, "total_active_file"));
}

/* Every group from the process's own up to the root of the hierarchy binds. Inside a container the path may be the
 * host's and not exist here; the loop then simply arrives at the root, which is the container's own group. */
static void walk_up(const char *root, const char *mount, const char *group, void (*read)(const char *, limits *),
                    limits *l)
{
    char dir[PATH_BYTES];
    const int base = snprintf(dir, sizeof dir, "%s/sys/fs/cgroup%s", root, mount);
    if (base < 0 || (size_t)base + strlen(group) >= sizeof dir) return;
    strcpy(dir + base, group);
    for (size_t n = strlen(dir);;) {
        while (n > (size_t)base && dir[n - 1] == '/') n--;
        dir[n] = '\0';
        read(dir, l);
        if (n == (size_t)base) return;
        while (n > (size_t)base && dir[n - 1] != '/') n--;
    }
}

static bool has_word(const char *list, size_t n, const char *word)
{
    const size_t len = strlen(word);
    for (size_t i = 0; i + len <= n; i++) {
        const bool starts = i == 0 || list[i - 1] == ',', ends = i + len == n || list[i + len] == ',';
        if (starts && ends && memcmp(list + i, word, len) == 0) return true;
    }
    return false;
}

/* Lines of /proc/self/cgroup: "0::/group" for version 2, "5:cpu,cpuacct:/group" for version 1. Where the hierarchies
 * are mounted is custom, the same on every distribution. */
static limits read_limits(const char *root)
{
    limits l = {.free_bytes = UINT64_MAX};
    char path[PATH_BYTES], text[16384];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_text(path, text, sizeof text)) text[0] = '\0';
    for (char *line = text, *next; *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        if (*next != '\0') *next++ = '\0';
        char *list = strchr(line, ':');
        char *group = list != NULL ? strchr(++list, ':') : NULL;
        if (group == NULL) continue;
        const size_t n = (size_t)(group++ - list);
        if (n == 0) {
            walk_up(root, "", group, read_v2, &l);
            walk_up(root, "/unified", group, read_v2, &l);
        }
        if (has_word(list, n, "cpu")) {
            walk_up(root, "/cpu", group, read_v1_cpu, &l);
            walk_up(root, "/cpu,cpuacct", group, read_v1_cpu, &l);
            walk_up(root, "/cpuacct,cpu", group, read_v1_cpu, &l);
        }
        if (has_word(list, n, "memory")) walk_up(root, "/memory", group, read_v1_memory, &l);
    }
    return l;
}

void qn__cgroup_limits(const char *root, double *quota_cpus, uint64_t *memory_bytes)
{
    const limits l = read_limits(root);
    *quota_cpus = l.quota_cpus;
    *memory_bytes = l.memory_bytes;
}

uint64_t qn__memory_free(const char *root)
{
    const uint64_t machine = qn__meminfo_bytes(root, "MemAvailable"), group = read_limits(root).free_bytes;
    if (machine == 0) return group;
    return machine < group ? machine : group;
}

/* ---- defaults ---- */

int qn__cpus_at_once(const char *root)
{
    qn_cpu_set cpus;
    double quota;
    uint64_t memory;
    qn__affinity_get(&cpus);
    qn__cgroup_limits(root, &quota, &memory);
    int n = qn__cpu_count(&cpus);
    if (quota > 0 && quota < n) n = (int)quota + (quota > (int)quota);
    return n > 0 ? n : 1;
}

int qn__default_threads(void)
{
    qn_cpu_set cpus;
    qn__affinity_get(&cpus);
    const int cores = qn__physical_cores("", &cpus), at_once = qn__cpus_at_once("");
    const int n = cores < at_once ? cores : at_once;
    return n < QN_MAX_THREADS ? n : QN_MAX_THREADS;
}
