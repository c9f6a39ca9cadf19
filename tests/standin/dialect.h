/* SPDX-License-Identifier: MIT */
/* tests/standin/dialect.h -- the kernels' language as C: the work-items of a group take turns, from one MEET to the
 * next (fibers.c), and read where they are from variables. */
#ifndef QN_TESTS_DIALECT_H
#define QN_TESTS_DIALECT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

extern int64_t standin_group;
extern int32_t standin_lane, standin_width;
extern void *standin_room;
void standin_meet(void);

#define GLOBAL
#define LOCAL
#define KERNEL
#define DEVICE              static inline
#define CONSTANT            static const
#define CONSTANT_AT(type)   const type *
#define GROUP               standin_group
#define LANE                standin_lane
#define WIDTH               standin_width
#define MEET()              standin_meet()
#define MEET_ALL()          standin_meet()
#define ROOM                void *room_
#define IN_ROOM(type, name) LOCAL type *name = room_
#define fma                 fmaf
#define sqrt                sqrtf
#define fabs                fabsf
#define ROUND(x)            ((int)rintf(x))
#define BITS(x)             bits_of(x)
#define FLOAT(bits)         float_of((uint32_t)(bits))

typedef struct quad {
    uint32_t x, y, z, w;
} __attribute__((aligned(16))) quad;

static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* A kernel as the driver calls it, by an array of pointers to its arguments; addresses are the host's by now. Where
 * nothing is computed (STANDIN_COMPUTES_NOT), the compiler drops what no one calls. */
#define ARG(i)  *(uint8_t *const *)p[2 * (i)], *(const uint64_t *)p[2 * (i) + 1]
#define ARGS_2  ARG(0), ARG(1)
#define ARGS_3  ARGS_2, ARG(2)
#define ARGS_4  ARGS_3, ARG(3)
#define ARGS_5  ARGS_4, ARG(4)
#define ARGS_6  ARGS_5, ARG(5)
#define ARGS_7  ARGS_6, ARG(6)
#define ARGS_8  ARGS_7, ARG(7)
#define ARGS_9  ARGS_8, ARG(8)
#define ARGS_10 ARGS_9, ARG(9)
#define ARGS_13 ARGS_10, ARG(10), ARG(11), ARG(12)
#define KERNEL_OF(name, n, sizes, parameters) \
    static void name##_item parameters; \
    static void name##_kernel(void **p) { name##_item(ARGS_##n, *(const sizes *)p[2 * (n)], standin_room); } \
    static const int name##_sizes = sizeof(sizes), name##_values = n; \
    static void name##_item parameters

#endif
