/* SPDX-License-Identifier: MIT */
/* tests/unit/lm/parity.c -- whole decoders against PyTorch's. */
#include "unit/nn/rig.h"

#define PARITY_CASES   "unit/lm/cases.inc"
#define PARITY_FIGURES "unit/lm/figures.inc"
#include "unit/nn/parity.h"
