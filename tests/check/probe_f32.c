/* SPDX-License-Identifier: MIT */
/* tests/check/probe_f32.c -- what measures float products counts them exactly. */
#include "probe.h"

CHECK_KERNEL(probe_f32) { check_probe(t, "Gop/s", t->kernels->probe_f32); }
