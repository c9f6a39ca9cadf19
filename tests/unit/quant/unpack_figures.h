/* SPDX-License-Identifier: MIT */
/* tests/unit/quant/unpack_figures.h -- written by tests/oracle/quant_unpack.py, which says what was hashed. */
static const struct unpack_figure {
    const char *name;
    uint64_t hash;
} unpack_figures[] = {
    {"Q4_0", 0xd784c95d31274be7u},   {"Q4_1", 0x473b62c35e4cae1du},    {"Q5_0", 0x8f1caf1cb1fc0720u},
    {"Q5_1", 0xbd2e54b8475ceecfu},   {"Q8_0", 0x26fc5298309c0607u},    {"Q2_K", 0xeb16576733d2b679u},
    {"Q3_K", 0xe39a2dd2da3eb9b1u},   {"Q4_K", 0x568b6bd7823797dfu},    {"Q5_K", 0x38ad768c1dd8b059u},
    {"Q6_K", 0xa831d1766ee32312u},   {"IQ2_XXS", 0xb0bf6c5ae96abe16u}, {"IQ2_XS", 0x28e1f0c386164b7bu},
    {"IQ2_S", 0x30643d2aa621a37au},  {"IQ3_XXS", 0x5d3beb05330e079eu}, {"IQ3_S", 0x58685b21ed725901u},
    {"IQ1_S", 0xc86449f33ff9f918u},  {"IQ1_M", 0xfcfa842eda1bc02du},   {"IQ4_NL", 0xf48b70899d0ba97au},
    {"IQ4_XS", 0x813155ea17b4c531u}, {"TQ1_0", 0x1e4d48530f10c1d0u},   {"TQ2_0", 0x80b91aa8b4e2ebfcu},
    {"MXFP4", 0x6a1ec19c881fdd4bu},  {"NVFP4", 0x191702eed96fb820u},
};
#define HASH_F16_TO_F32  0xe3e444f648ff7443u
#define HASH_F32_TO_F16  0xd7e59d2eabe2b1b0u
#define HASH_F32_TO_BF16 0x69bb609aa675487fu
