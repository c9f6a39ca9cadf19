// SPDX-License-Identifier: MIT
// bench/devices.cu -- what a card multiplies at most with numbers of bfloat16: by cuBLAS where the toolkit has it, else by the warp's matrix
// instruction out of registers, which reaches about two thirds of a Hopper card's rate. One line: Gflop/s, and by what.
//
//     nvcc -O3 -std=c++17 -arch=native bench/devices.cu [-lcublas] -o rate && ./rate [DEVICE]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#if __has_include(<cublas_v2.h>) && !defined(WITHOUT_CUBLAS)
#include <cublas_v2.h>
#include <cuda_bf16.h>
#define BY_CUBLAS 1
#else
#define BY_CUBLAS 0
#endif

static void must(int code, const char *what)
{
    if (code == 0) return;
    fprintf(stderr, "devices.cu: %s fails: %d\n", what, code);
    exit(1);
}
#define MUST(call) must((int)(call), #call)

#if BY_CUBLAS
enum { N = 8192 };
static cublasHandle_t handle;
static __nv_bfloat16 *memory;

static void prepare()
{
    MUST(cublasCreate(&handle));
    MUST(cudaMalloc((void **)&memory, 3 * sizeof(*memory) * N * N));
    MUST(cudaMemset(memory, 0x3c, 3 * sizeof(*memory) * N * N)); // a number below 1
}
static double work() // operations
{
    const float one = 1, none = 0;
    __nv_bfloat16 *a = memory, *b = a + (size_t)N * N, *c = b + (size_t)N * N;
    MUST(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, N, N, N, &one, a, CUDA_R_16BF, N, b, CUDA_R_16BF, N, &none, c, CUDA_R_16BF, N,
                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return 2.0 * N * N * N;
}
static const char *const by = "cuBLAS";
#else
enum { GROUPS = 1024, WARPS = 8, ROUNDS = 4096, CHAINS = 4 };
static float *memory;

__global__ void multiply(float *out)
{
    const uint32_t x = 0x3c003c00u + threadIdx.x;
    float c[CHAINS][4] = {};
    for (int i = 0; i < ROUNDS; i++)
        for (int j = 0; j < CHAINS; j++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
                         : "r"(x), "r"(x), "r"(x), "r"(x), "r"(x), "r"(x));
    float sum = 0;
    for (int j = 0; j < CHAINS; j++)
        for (int k = 0; k < 4; k++) sum += c[j][k];
    if (sum == 1) *out = sum; // so that it is computed
}
static void prepare() { MUST(cudaMalloc((void **)&memory, sizeof(*memory))); }
static double work()
{
    multiply<<<GROUPS, 32 * WARPS>>>(memory);
    MUST(cudaGetLastError());
    return 2.0 * 16 * 8 * 16 * CHAINS * ROUNDS * WARPS * GROUPS;
}
static const char *const by = "mma.sync";
#endif

int main(int argc, char **argv)
{
    cudaEvent_t begin, end;
    double best = 0;
    MUST(cudaSetDevice(argc > 1 ? atoi(argv[1]) : 0));
    prepare();
    MUST(cudaEventCreate(&begin));
    MUST(cudaEventCreate(&end));
    for (int round = 0; round < 5; round++) {
        float ms = 0;
        double ops = 0;
        MUST(cudaEventRecord(begin));
        for (int i = 0; i < 10; i++) ops += work();
        MUST(cudaEventRecord(end));
        MUST(cudaEventSynchronize(end));
        MUST(cudaEventElapsedTime(&ms, begin, end));
        if (round > 0 && ops / ms > best) best = ops / ms; // the first warms up
    }
    printf("%.0f %s\n", best * 1e-6, by);
    return 0;
}
