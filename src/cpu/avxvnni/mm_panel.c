/* SPDX-License-Identifier: MIT */
#include "cpu/avxvnni/avxvnni.h"

#define FN(name) qn__avxvnni_##name
#define VNNI
#include "cpu/avx2/panel.h"
