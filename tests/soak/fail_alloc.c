/* SPDX-License-Identifier: MIT */
/* tests/soak/fail_alloc.c -- preloaded (LD_PRELOAD): while the file FAIL_WHILE is there, every FAIL_EVERY-th allocation
 * that the program asks for, the library in it included, fails; FAIL_WHILE.n says in the end how many. What other
 * libraries ask for doesn't, nor what jansson's reader does: it loses count of its buffer when memory is short (2.14).
 * Under the address sanitizer, linked as a library (clang: -shared-libasan), the others are its own. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
#pragma weak __interceptor_malloc
#pragma weak __interceptor_calloc
#pragma weak __interceptor_realloc
#pragma weak __interceptor_memalign
void *__interceptor_malloc(size_t n);
void *__interceptor_calloc(size_t n, size_t size);
void *__interceptor_realloc(void *p, size_t n);
void *__interceptor_memalign(size_t align, size_t n);
#define REAL(name, ...) (__interceptor_##name ? __interceptor_##name(__VA_ARGS__) : __libc_##name(__VA_ARGS__))
void *json_loadb(const char *data, size_t n, size_t flags, void *error);

static const char *file;
static long every;
static uintptr_t begin, end; /* of the program's code */
static _Atomic long count, n_failed;
static _Thread_local int spared;

/* The first object is the program. */
static int note(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size, (void)ctx;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        begin = info->dlpi_addr + p->p_vaddr;
        end = begin + p->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void start(void)
{
    const char *n = getenv("FAIL_EVERY");
    file = getenv("FAIL_WHILE");
    dl_iterate_phdr(note, NULL);
    every = n && file ? atol(n) : 0;
}

static bool fails(const void *from)
{
    if (every <= 0 || spared || (uintptr_t)from < begin || (uintptr_t)from >= end) return false;
    if (atomic_fetch_add(&count, 1) % every != every - 1 || access(file, F_OK) != 0) return false;
    atomic_fetch_add(&n_failed, 1);
    errno = ENOMEM;
    return true;
}

__attribute__((destructor)) static void tell(void)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s.n", file ? file : "");
    FILE *f = every > 0 ? fopen(path, "w") : NULL;
    if (f) fprintf(f, "%ld\n", (long)n_failed);
    if (f) fclose(f);
}

#define FAILS fails(__builtin_return_address(0))

void *malloc(size_t n) { return FAILS ? NULL : REAL(malloc, n); }
void *calloc(size_t n, size_t size) { return FAILS ? NULL : REAL(calloc, n, size); }
void *realloc(void *p, size_t n) { return FAILS ? NULL : REAL(realloc, p, n); }

int posix_memalign(void **out, size_t align, size_t n)
{
    void *p = FAILS ? NULL : REAL(memalign, align, n);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}

static char *copy(const char *s, size_t n)
{
    char *p = REAL(malloc, n + 1);
    if (p) memcpy(p, s, n);
    if (p) p[n] = '\0';
    return p;
}

char *strdup(const char *s) { return FAILS ? NULL : copy(s, strlen(s)); }
char *strndup(const char *s, size_t n) { return FAILS ? NULL : copy(s, strnlen(s, n)); }

void *json_loadb(const char *data, size_t n, size_t flags, void *error)
{
    static void *(*real)(const char *, size_t, size_t, void *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "json_loadb");
    spared++;
    void *value = real(data, n, flags, error);
    spared--;
    return value;
}
