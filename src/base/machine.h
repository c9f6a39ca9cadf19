/* SPDX-License-Identifier: MIT */
/* src/base/machine.h -- the pieces of quern/machine.h that read the system's files, with the root of the file system as
 * an argument ("" is the real one), so that tests can show them machines that they do not run on. */
#ifndef QN_BASE_MACHINE_H
#define QN_BASE_MACHINE_H

#include <quern/machine.h>

#define QN_MAX_CPUS 8192 /* Linux's own ceiling on x86-64 */
typedef struct qn_cpu_set {
    uint64_t word[QN_MAX_CPUS / 64];
} qn_cpu_set;

static inline bool qn__cpu_has(const qn_cpu_set *s, int cpu) { return s->word[cpu / 64] >> (cpu % 64) & 1; }
static inline void qn__cpu_add(qn_cpu_set *s, int cpu) { s->word[cpu / 64] |= UINT64_C(1) << (cpu % 64); }
int qn__cpu_count(const qn_cpu_set *s);

/* CPUs this process may run on; never empty. */
void qn__affinity_get(qn_cpu_set *out);
/* "0-3,8,10-11"; false when it is not such a list. Numbers past QN_MAX_CPUS are left out. */
bool qn__cpu_list_parse(const char *text, qn_cpu_set *out);
/* Distinct cores behind `cpus`; a CPU whose siblings are unknown counts as a core. */
int qn__physical_cores(const char *root, const qn_cpu_set *cpus);
/* Bytes of one data or unified cache of the level, as CPU number `cpu` sees it; 0 unknown. */
uint64_t qn__cache_bytes(const char *root, int cpu, int level);
/* The tightest limits of this process's cgroups, v1 and v2, over all parents; 0 means none. */
void qn__cgroup_limits(const char *root, double *quota_cpus, uint64_t *memory_bytes);
/* A line "MemTotal:   123 kB" of /proc/meminfo in bytes; 0 unknown. */
uint64_t qn__meminfo_bytes(const char *root, const char *key);
/* What this process may still take without swapping: the machine's MemAvailable, or less where a cgroup leaves less.
 * File pages that can be had back count as free. UINT64_MAX unknown. */
uint64_t qn__memory_free(const char *root);
/* CPUs that can be busy with us at one time: by affinity and quota, at least 1. */
int qn__cpus_at_once(const char *root);
/* What the processor and the system's saved register state allow: a bit for each level; `features` is a list of words.
 */
unsigned qn__cpu_identify(char *name, size_t name_bytes, char *features, size_t features_bytes);

#endif
