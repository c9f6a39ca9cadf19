/* SPDX-License-Identifier: MIT */
/* tests/check/probe_int8.c -- what measures 8-bit products counts them exactly. */
#include "probe.h"

CHECK_KERNEL(probe_int8) { check_probe(t, "Gop/s", t->kernels->probe_int8); }
