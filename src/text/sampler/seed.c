/* SPDX-License-Identifier: MIT */
/* src/text/sampler/seed.c -- a seed nobody chose. */
#include "text/sampler/sampler.h"
#include "base/thread.h"

#include <unistd.h>

uint64_t qn__sampler_os_seed(void)
{
    uint64_t seed = 0;

    /* Without the operating system's help (a sandbox may refuse), the clock and an address must do. */
    if (getentropy(&seed, sizeof seed) != 0) seed = (uint64_t)qn__now_ns() ^ ((uint64_t)(uintptr_t)&seed << 32);
    return seed ? seed : 1;
}
