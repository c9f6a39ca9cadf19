/* SPDX-License-Identifier: MIT */
/* src/gpu/cuda_load.c -- the library of CUDA's driver, or HIP's, and what its results mean. */
#include "gpu/cuda.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

const qn_cuda_kind qn__cuda_kind = {.name = "cuda",
                                    .files = {"libcuda.so.1"},
                                    .install = "NVIDIA's driver brings it (Debian's package: libcuda1)",
                                    .older = "this driver is older than CUDA 11.4; install a newer one",
                                    .compilers = "nvcc or clang",
                                    .integrated = 18,
                                    .major = 75};
const qn_cuda_kind qn__hip_kind = {.name = "hip",
                                   .files = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                                             "libamdhip64.so.5"},
                                   .install = "AMD's HIP brings it (Debian's package: libamdhip64-dev)",
                                   .older = "this HIP is older than 5.2; install a newer one",
                                   .compilers = "hipcc",
                                   .integrated = 16,
                                   .hip = true};

/* ---- the library ---- */

/* A part of a library: the loader takes one whose segments lie past the file's end, and reading there ends the process.
 * What is no library at all it refuses by itself. */
static bool is_cut(const char *path)
{
    Elf64_Ehdr head;
    bool cut = false;
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    if (fread(&head, 1, sizeof(head), f) == sizeof(head) && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
        fseek(f, 0, SEEK_END) == 0) {
        const uint64_t size = (uint64_t)ftell(f);
        cut = head.e_phoff > size || (uint64_t)head.e_phnum * sizeof(Elf64_Phdr) > size - head.e_phoff;
        if (!cut) cut = fseek(f, (long)head.e_phoff, SEEK_SET) != 0;
        for (int i = 0; i < head.e_phnum && !cut; i++) {
            Elf64_Phdr p;
            cut = fread(&p, 1, sizeof(p), f) != sizeof(p) || p.p_offset > size || p.p_filesz > size - p.p_offset;
        }
    }
    fclose(f);
    return cut;
}

/* Where makers' packages put them, for names without a folder. */
static bool find_cut(const char *file, char *path, size_t n)
{
    static const char *const folders[] = {
        "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",   "/usr/lib",
        "/usr/local/nvidia/lib64",   "/usr/lib/wsl/lib",           "/opt/rocm/lib"};
    snprintf(path, n, "%s", file);
    if (strchr(file, '/')) return is_cut(path);
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        snprintf(path, n, "%s/%s", folders[i], file);
        if (is_cut(path)) return true;
    }
    return false;
}

/* The words of the C library's loader. */
static bool is_absent(const char *why) { return !why || strstr(why, "No such file"); }

qn_status qn__cuda_load(const qn_cuda_kind *kind, const char *const *files, qn_cuda_calls *out, qn_error *err)
{
    void *lib = NULL;
    const char *file = files[0], *why = NULL;
    char path[512];
    for (int i = 0; files[i] && !lib && is_absent(why); i++) {
        if (find_cut(files[i], path, sizeof(path)))
            return QN_FAIL(err, unsupported, "%s: %s is cut off, and can't be loaded; install it again: %s", kind->name,
                           path, kind->install);
        lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        why = lib ? NULL : dlerror();
        if (lib || !is_absent(why)) file = files[i];
    }
    if (!lib && is_absent(why)) return QN_FAIL(err, unsupported, "%s: no %s here: %s", kind->name, file, kind->install);
    if (!lib)
        return QN_FAIL(err, unsupported, "%s: %s can't be loaded; install it again: %s (%.200s)", kind->name, file,
                       kind->install, why);
    const char *missing = NULL;
#define QN_CUDA_CALL(member, cuda_name, hip_name, parameters) \
    *(void **)(void *)&out->member = dlsym(lib, kind->hip ? #hip_name : #cuda_name); \
    if (!out->member && !missing) missing = kind->hip ? #hip_name : #cuda_name;
#include "gpu/cuda_calls.def"
#undef QN_CUDA_CALL
    if (!missing) return QN_OK;
    (void)dlclose(lib);
    return QN_FAIL(err, unsupported, "%s: %s has no %s: %s", kind->name, file, missing, kind->older);
}

/* ---- results ---- */

/* Codes that the two have in common. */
static const struct {
    int code;
    qn_status status;
    const char *text;
} meanings[] = {
    {2, QN_STATUS_nomem, "not enough memory on the device: put fewer layers there, or take a shorter context"},
    {35, QN_STATUS_unsupported, "the driver is older than its library: install a newer driver"},
    {36, QN_STATUS_unsupported, "the driver is too old: install a newer one"},
    {46, QN_STATUS_unsupported, "another process has the device for itself, or it is switched off"},
    {100, QN_STATUS_unsupported, "no device is there"},
    {200, QN_STATUS_unsupported, "the driver does not take this build's kernels: install a newer driver"},
    {209, QN_STATUS_unsupported, "this build has no kernels for such a device: build with its architecture"},
    {214, QN_STATUS_lost, "the device's memory has failed"},
    {218, QN_STATUS_unsupported, "the driver does not take this build's kernels: install a newer driver"},
    {220, QN_STATUS_lost, "a link between devices has failed"},
    {221, QN_STATUS_unsupported, "the driver's compiler is not there: install the whole driver"},
    {222, QN_STATUS_unsupported, "the driver is older than this build's kernels: install a newer driver"},
    {226, QN_STATUS_lost, "the device has met an error and must be opened again"},
    {700, QN_STATUS_lost, "a kernel has left its memory"},
    {701, QN_STATUS_unsupported, "a kernel needs more than the device has"},
    {702, QN_STATUS_lost, "a kernel ran for longer than the system allows"},
    {709, QN_STATUS_lost, "the device was taken away"},
    {710, QN_STATUS_lost, "a kernel was ended"},
    {714, QN_STATUS_lost, "the device has met an error and must be opened again"},
    {715, QN_STATUS_lost, "the device has met an error and must be opened again"},
    {716, QN_STATUS_lost, "the device has met an error and must be opened again"},
    {717, QN_STATUS_lost, "the device has met an error and must be opened again"},
    {718, QN_STATUS_lost, "the device has met an error and must be opened again"},
    {719, QN_STATUS_lost, "the device has met an error and must be opened again"},
    {802, QN_STATUS_unsupported, "the system's services for devices have not started"},
    {803, QN_STATUS_unsupported, "the driver and its library are of different versions: restart the machine"},
    {804, QN_STATUS_unsupported, "the driver is older than its library: install a newer driver"},
};

qn_status qn__cuda_check(const qn_cuda_kind *kind, int code, const char *call, qn_error *err)
{
    if (code == 0) return QN_OK;
    for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
        if (meanings[i].code == code)
            return qn__fail(err, meanings[i].status, __FILE__, __LINE__, "%s: %s (%s, %d)", kind->name,
                            meanings[i].text, call, code);
    return QN_FAIL(err, unsupported, "%s: an error that it gives the number %d (%s)", kind->name, code, call);
}
