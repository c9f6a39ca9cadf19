/* SPDX-License-Identifier: MIT */
/* src/gpu/opencl.c -- the driver for OpenCL 1.2 devices of every maker. The library is opened when a device is first
 * asked for, so that the program starts without it. Kernels are compiled for the device when it is opened, without
 * contraction, and with divisions and square roots rounded correctly. */
#include "gpu/gpu.h"
#include "base/log.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ---- the library ---- */

/* clang-format off */
#define FUNCTIONS(ROW) \
    ROW(clGetPlatformIDs) ROW(clGetDeviceIDs) ROW(clGetDeviceInfo) ROW(clCreateContext) ROW(clReleaseContext) \
    ROW(clCreateCommandQueue) ROW(clReleaseCommandQueue) ROW(clCreateBuffer) ROW(clReleaseMemObject) \
    ROW(clEnqueueReadBuffer) ROW(clEnqueueWriteBuffer) ROW(clCreateProgramWithSource) ROW(clBuildProgram) \
    ROW(clGetProgramBuildInfo) ROW(clReleaseProgram) ROW(clCreateKernel) ROW(clReleaseKernel) ROW(clSetKernelArg) \
    ROW(clEnqueueNDRangeKernel) ROW(clFinish) ROW(clEnqueueCopyBuffer) ROW(clEnqueueMapBuffer) \
    ROW(clEnqueueUnmapMemObject) ROW(clEnqueueMarkerWithWaitList) ROW(clWaitForEvents) ROW(clReleaseEvent) \
    ROW(clFlush) ROW(clGetMemObjectInfo) ROW(clRetainMemObject)
/* clang-format on */

static struct {
#define ROW(name) __typeof__(name) *name;
    FUNCTIONS(ROW)
#undef ROW
    qn_once once;
    char why[200]; /* it is not there */
} cl;

enum { MAX_DEVICES = QN_GPU_MAX_DEVICES, MAX_PLATFORMS = 16 };

static void load(void)
{
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};
    void *lib = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !lib; i++) lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        snprintf(cl.why, sizeof(cl.why), "no libOpenCL.so.1 here (Debian's package: ocl-icd-libopencl1)");
        return;
    }
#define ROW(name) \
    *(void **)(void *)&cl.name = dlsym(lib, #name); \
    if (!cl.name && !cl.why[0]) \
        snprintf(cl.why, sizeof(cl.why), "libOpenCL.so.1 has no %s: older than OpenCL 1.2", #name);
    FUNCTIONS(ROW)
#undef ROW
}

static int find_devices(cl_device_id found[MAX_DEVICES])
{
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n_platforms = 0;
    int n = 0;
    if (cl.clGetPlatformIDs(MAX_PLATFORMS, platforms, &n_platforms) != CL_SUCCESS) return 0;
    for (cl_uint p = 0; p < n_platforms && p < MAX_PLATFORMS && n < MAX_DEVICES; p++) {
        cl_uint some = 0;
        if (cl.clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, (cl_uint)(MAX_DEVICES - n), found + n, &some) ==
            CL_SUCCESS)
            n += (int)some < MAX_DEVICES - n ? (int)some : MAX_DEVICES - n;
    }
    return n;
}

/* ---- errors ---- */

static const char *error_name(cl_int code)
{
    switch (code) {
    case CL_DEVICE_NOT_AVAILABLE: return "the device is not available";
    case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "not enough memory on the device";
    case CL_OUT_OF_RESOURCES: return "out of resources";
    case CL_OUT_OF_HOST_MEMORY: return "out of memory";
    case CL_BUILD_PROGRAM_FAILURE: return "its compiler does not take the kernels";
    case CL_INVALID_BUFFER_SIZE: return "a buffer of a size that it does not take";
    default: return "an error";
    }
}

static qn_status fail(cl_int code, const char *call, qn_error *err)
{
    const bool memory = code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY;
    if (memory) return QN_FAIL(err, nomem, "opencl: %s (%s, %d)", error_name(code), call, code);
    if (code == CL_DEVICE_NOT_AVAILABLE)
        return QN_FAIL(err, lost, "opencl: %s (%s, %d); is it unplugged or reset? Open the model again",
                       error_name(code), call, code);
    return QN_FAIL(err, unsupported, "opencl: %s (%s, %d)", error_name(code), call, code);
}
#define TRY(call, ...) \
    do { \
        const cl_int code_ = cl.call(__VA_ARGS__); \
        if (code_ != CL_SUCCESS) return fail(code_, #call, err); \
    } while (0)

/* ---- a device ---- */

struct qn_gpu_device {
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernels[QN_GPU_KERNEL_COUNT]; /* NULL before prepare */
};

static void close_device(qn_gpu_device *d)
{
    if (!d) return;
    if (d->queue) (void)cl.clFinish(d->queue);
    for (int i = 0; i < QN_GPU_KERNEL_COUNT; i++)
        if (d->kernels[i]) (void)cl.clReleaseKernel(d->kernels[i]);
    if (d->program) (void)cl.clReleaseProgram(d->program);
    if (d->queue) (void)cl.clReleaseCommandQueue(d->queue);
    if (d->context) (void)cl.clReleaseContext(d->context);
    qn__free(d);
}

/* What the kernels' numbers are defined by. */
static const cl_device_fp_config wanted_numbers = CL_FP_FMA | CL_FP_DENORM | CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;

static cl_device_fp_config numbers_of(cl_device_id id)
{
    cl_device_fp_config has = 0;
    return cl.clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(has), &has, NULL) == CL_SUCCESS ? has : 0;
}

static qn_status describe(cl_device_id id, int index, qn_device *out, qn_error *err)
{
    cl_ulong memory = 0;
    cl_bool same = CL_FALSE;
    cl_device_type kind = 0;
    char name[256] = "";
    TRY(clGetDeviceInfo, id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(memory), &memory, NULL);
    TRY(clGetDeviceInfo, id, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof(same), &same, NULL);
    TRY(clGetDeviceInfo, id, CL_DEVICE_TYPE, sizeof(kind), &kind, NULL);
    TRY(clGetDeviceInfo, id, CL_DEVICE_NAME, sizeof(name), name, NULL);
    *out = (qn_device){.memory_bytes = memory,
                       .integrated = same,
                       .processor = (kind & CL_DEVICE_TYPE_CPU) != 0,
                       .same_bits = (numbers_of(id) & wanted_numbers) == wanted_numbers};
    snprintf(out->backend, sizeof(out->backend), "opencl:%d", index);
    snprintf(out->name, sizeof(out->name), "%.63s", name);
    return QN_OK;
}

static qn_status devices(qn_device *out, int max, int *n, qn_error *err)
{
    cl_device_id found[MAX_DEVICES];
    qn__once(&cl.once, load);
    *n = 0;
    if (cl.why[0]) return QN_FAIL(err, unsupported, "opencl: %s", cl.why);
    const int all = find_devices(found);
    for (int i = 0; i < all && i < max; i++) QN_TRY(describe(found[i], i, &out[(*n)++], err));
    return QN_OK;
}

static qn_status build(qn_gpu_device *d, qn_error *err)
{
    enum { MAX_SOURCES = 32 };
    const char *sources[MAX_SOURCES];
    size_t lengths[MAX_SOURCES];
    cl_uint n = 0;
    for (const char *s; n < MAX_SOURCES && (s = qn__gpu_source((int)n, &lengths[n])); n++) sources[n] = s;
    cl_int code = CL_SUCCESS;
    d->program = cl.clCreateProgramWithSource(d->context, n, sources, lengths, &code);
    if (code != CL_SUCCESS) return fail(code, "clCreateProgramWithSource", err);
    const char *options = numbers_of(d->id) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
                              ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
                              : "-cl-std=CL1.2";
    code = cl.clBuildProgram(d->program, 1, &d->id, options, NULL, NULL);
    if (code == CL_SUCCESS) return QN_OK;
    char log[2000] = "";
    if (cl.clGetProgramBuildInfo(d->program, d->id, CL_PROGRAM_BUILD_LOG, sizeof(log), log, NULL) == CL_SUCCESS &&
        log[0])
        qn__log(QN_LOG_warn, "opencl: %s", log);
    return fail(code, "clBuildProgram", err);
}

static qn_status set_up(qn_gpu_device *d, int index, qn_gpu_device_info *info, qn_error *err)
{
    cl_int code = CL_SUCCESS;
    cl_ulong largest = 0;
    cl_device_fp_config doubles = 0;
    QN_TRY(describe(d->id, index, &info->device, err));
    TRY(clGetDeviceInfo, d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(largest), &largest, NULL);
    info->largest = largest;
    if (cl.clGetDeviceInfo(d->id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(doubles), &doubles, NULL) == CL_SUCCESS)
        info->doubles = doubles != 0;
    d->context = cl.clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    if (code != CL_SUCCESS) return fail(code, "clCreateContext", err);
    d->queue = cl.clCreateCommandQueue(d->context, d->id, 0, &code); /* in order */
    if (code != CL_SUCCESS) return fail(code, "clCreateCommandQueue", err);
    if (!info->device.same_bits)
        qn__log(QN_LOG_warn, "opencl: %s rounds otherwise than the CPU: results differ in the last bits",
                info->device.name);
    return build(d, err);
}

static qn_status open_device(int index, qn_gpu_device **out, qn_gpu_device_info *info, qn_error *err)
{
    cl_device_id found[MAX_DEVICES];
    if (index >= find_devices(found)) return QN_FAIL(err, unsupported, "opencl: device %d has gone", index);
    qn_gpu_device *d = qn__calloc(1, sizeof(*d));
    if (!d) return QN_FAIL_NOMEM(err, sizeof(*d));
    d->id = found[index];
    const qn_status status = set_up(d, index, info, err);
    if (status != QN_OK) {
        close_device(d);
        return status;
    }
    *out = d;
    return QN_OK;
}

/* ---- memory ---- */

static qn_status alloc(qn_gpu_device *d, uint64_t bytes, void **memory, qn_error *err)
{
    cl_int code = CL_SUCCESS;
    cl_mem m = cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes ? (size_t)bytes : 1, NULL, &code);
    if (code != CL_SUCCESS) return fail(code, "clCreateBuffer", err);
    *memory = m;
    return QN_OK;
}

static void release(qn_gpu_device *d, void *memory)
{
    (void)d;
    if (memory) (void)cl.clReleaseMemObject(memory);
}

/* Pinned memory is a buffer of the host's, mapped for as long as it lives. */
static qn_status host_alloc(qn_gpu_device *d, uint64_t bytes, qn_gpu_host *out, qn_error *err)
{
    cl_int code = CL_SUCCESS;
    const size_t n = bytes ? (size_t)bytes : 1;
    cl_mem m = cl.clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, n, NULL, &code);
    if (code != CL_SUCCESS) return fail(code, "clCreateBuffer", err);
    void *at = cl.clEnqueueMapBuffer(d->queue, m, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, n, 0, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        (void)cl.clReleaseMemObject(m);
        return fail(code, "clEnqueueMapBuffer", err);
    }
    *out = (qn_gpu_host){.at = at, .bytes = bytes, .own = m};
    return QN_OK;
}

static void host_free(qn_gpu_device *d, qn_gpu_host *host)
{
    if (!host->own) return;
    (void)cl.clEnqueueUnmapMemObject(d->queue, host->own, host->at, 0, NULL, NULL);
    (void)cl.clReleaseMemObject(host->own);
    *host = (qn_gpu_host){0};
}

static qn_status wrap(qn_gpu_device *d, const void *host, uint64_t bytes, void **memory, qn_error *err)
{
    cl_int code = CL_SUCCESS;
    *memory = cl.clCreateBuffer(d->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, (size_t)bytes,
                                (void *)(uintptr_t)host, &code);
    return code == CL_SUCCESS ? QN_OK : fail(code, "clCreateBuffer", err);
}

static qn_status adopt(qn_gpu_device *d, void *named, uint64_t bytes, void **memory, qn_error *err)
{
    cl_context of = NULL;
    size_t has = 0;
    if (!named) return QN_FAIL(err, invalid, "opencl: there is no memory object");
    TRY(clGetMemObjectInfo, named, CL_MEM_CONTEXT, sizeof(of), &of, NULL);
    TRY(clGetMemObjectInfo, named, CL_MEM_SIZE, sizeof(has), &has, NULL);
    if (of != d->context)
        return QN_FAIL(err, unsupported, "opencl: the memory belongs to another cl_context than this device's");
    if (bytes > has)
        return QN_FAIL(err, invalid, "opencl: the memory object has %zu bytes, the tensor %llu", has,
                       (unsigned long long)bytes);
    TRY(clRetainMemObject, named);
    *memory = named;
    return QN_OK;
}

static qn_status write_bytes(qn_gpu_device *d, void *memory, uint64_t offset, const void *src, uint64_t bytes,
                             bool stays, qn_error *err)
{
    TRY(clEnqueueWriteBuffer, d->queue, memory, stays ? CL_FALSE : CL_TRUE, (size_t)offset, (size_t)bytes, src, 0, NULL,
        NULL);
    return QN_OK;
}

static qn_status read_bytes(qn_gpu_device *d, void *memory, uint64_t offset, void *dst, uint64_t bytes, qn_error *err)
{
    TRY(clEnqueueReadBuffer, d->queue, memory, CL_TRUE, (size_t)offset, (size_t)bytes, dst, 0, NULL, NULL);
    return QN_OK;
}

static qn_status copy_bytes(qn_gpu_device *d, void *to, uint64_t to_at, void *from, uint64_t from_at, uint64_t bytes,
                            qn_error *err)
{
    TRY(clEnqueueCopyBuffer, d->queue, from, to, (size_t)from_at, (size_t)to_at, (size_t)bytes, 0, NULL, NULL);
    return QN_OK;
}

/* ---- events ---- */

typedef struct event {
    cl_event last; /* NULL: never recorded */
} event;

static qn_status event_create(qn_gpu_device *d, void **out, qn_error *err)
{
    (void)d;
    *out = qn__calloc(1, sizeof(event));
    return *out ? QN_OK : QN_FAIL_NOMEM(err, sizeof(event));
}

static void event_destroy(qn_gpu_device *d, void *e)
{
    (void)d;
    if (e && ((event *)e)->last) (void)cl.clReleaseEvent(((event *)e)->last);
    qn__free(e);
}

static qn_status event_record(qn_gpu_device *d, void *e, qn_error *err)
{
    cl_event now;
    TRY(clEnqueueMarkerWithWaitList, d->queue, 0, NULL, &now);
    if (((event *)e)->last) (void)cl.clReleaseEvent(((event *)e)->last);
    ((event *)e)->last = now;
    TRY(clFlush, d->queue);
    return QN_OK;
}

static qn_status event_sync(qn_gpu_device *d, void *e, qn_error *err)
{
    (void)d;
    if (((event *)e)->last) TRY(clWaitForEvents, 1, &((event *)e)->last);
    return QN_OK;
}

/* ---- kernels ---- */

static qn_status prepare(qn_gpu_device *d, int kernel, qn_error *err)
{
    cl_int code = CL_SUCCESS;
    if (d->kernels[kernel]) return QN_OK;
    d->kernels[kernel] = cl.clCreateKernel(d->program, qn__gpu_kernel_name(kernel), &code);
    return code == CL_SUCCESS ? QN_OK : fail(code, "clCreateKernel", err);
}

static qn_status launch(qn_gpu_device *d, const qn_gpu_launch *l, qn_error *err)
{
    cl_kernel k = d->kernels[l->kernel];
    cl_uint arg = 0;
    for (int i = 0; i < l->n_values; i++) {
        const cl_mem memory = l->memory[i];
        const cl_ulong offset = l->offset[i];
        TRY(clSetKernelArg, k, arg++, sizeof(memory), &memory);
        TRY(clSetKernelArg, k, arg++, sizeof(offset), &offset);
    }
    TRY(clSetKernelArg, k, arg++, l->n_sizes, l->sizes);
    TRY(clSetKernelArg, k, arg, l->room, NULL);
    const size_t width = l->width, all = (size_t)l->n_groups * width;
    TRY(clEnqueueNDRangeKernel, d->queue, k, 1, NULL, &all, &width, 0, NULL, NULL);
    return QN_OK;
}

static qn_status finish(qn_gpu_device *d, qn_error *err)
{
    TRY(clFinish, d->queue);
    return QN_OK;
}

static const qn_gpu_driver driver = {
    .name = "opencl",
    .devices = devices,
    .open = open_device,
    .close = close_device,
    .alloc = alloc,
    .free = release,
    .wrap = wrap,
    .adopt = adopt,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .write = write_bytes,
    .read = read_bytes,
    .copy = copy_bytes,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_sync = event_sync,
    /* no captures: PoCL 3.1 replays command buffers (cl_khr_command_buffer 0.9.0) with wrong results */
    .prepare = prepare,
    .launch = launch,
    .finish = finish,
};

static qn_status open_backend(const qn_backend_options *options, qn_backend **out, qn_error *err);

const qn_backend_type qn__backend_opencl = {.name = "opencl",
                                            .devices = devices,
                                            .open = open_backend,
                                            .dl_type = 4, /* kDLOpenCL: the name is a cl_mem */
                                            QN_GPU_BACKEND_MEMBERS};

static qn_status open_backend(const qn_backend_options *options, qn_backend **out, qn_error *err)
{
    return qn__gpu_open(&qn__backend_opencl, &driver, options, out, err);
}
