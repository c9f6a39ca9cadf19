/* SPDX-License-Identifier: MIT */
/* tests/unit/quant/pack_bits.h -- FNV-1a of what qn_pack writes, five distributions each without and with importance.
 * In the order of pack_figures.h; written by the test itself when it differs. */
/* clang-format off */
static const struct {
    const char *name;
    uint64_t hash;
} pack_bits[] = {
    {"Q4_0", 0x64156ab51f2d3dfd},
    {"Q4_1", 0xa9284996f1107f09},
    {"Q5_0", 0x569aaf4c4c0eebce},
    {"Q5_1", 0x75728ed56d1f255c},
    {"Q8_0", 0xe580d5c4a4e41700},
    {"Q2_K", 0x62a14f820e44b575},
    {"Q3_K", 0x7d23396438c1cc11},
    {"Q4_K", 0x464384338c115a50},
    {"Q5_K", 0x67228d2bbea9158d},
    {"Q6_K", 0xd5bd60ea549d4981},
    {"IQ4_NL", 0x69fb535ccf3a3878},
    {"IQ4_XS", 0xa1e6bdef7ed76f22},
    {"TQ1_0", 0xd8849655ff8f029f},
    {"TQ2_0", 0xc3bf6b98ebcfea92},
    {"MXFP4", 0x3faeea0a69d94370},
    {"NVFP4", 0x213921c67d7ecfff},
};
/* clang-format on */
