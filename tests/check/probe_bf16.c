/* SPDX-License-Identifier: MIT */
/* tests/check/probe_bf16.c -- what measures products of bfloat16 counts them exactly. */
#include "probe.h"

CHECK_KERNEL(probe_bf16) { check_probe(t, "Gflop/s", t->kernels->probe_bf16); }
