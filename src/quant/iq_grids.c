/* SPDX-License-Identifier: MIT */
/* src/quant/iq_grids.c -- the codebooks of the IQ formats, see iq_grids.inc. */
#include "quant/iq_grids.h"

#define QN_GRID const
#include "quant/iq_grids.inc"
