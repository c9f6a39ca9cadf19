/* SPDX-License-Identifier: MIT */
#include "cpu/avxvnni/one.h"
#include "cpu/ukr_one_drive.h"
