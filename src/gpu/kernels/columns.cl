/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/columns.cl -- rows of values, and columns of products: floats quantized as backend/numbers/act.h
 * defines it, for the kernels that only do that and for those that do it on the way. */

DEVICE int64_t row_at(const qn_rows *rows, int64_t r)
{
    return r / rows->inner * rows->outer + r % rows->inner * rows->stride;
}

/* Bytes of a block: d, zero and sum of qn_act32; d, zero and 16 sums of qn_act256; then q. */
#define ACT_BYTES(n) ((n) == 32 ? QN_GPU_COLUMN_32 : QN_GPU_COLUMN_256)
#define ACT_Q(n)     ((n) == 32 ? QN_GPU_COLUMN_Q_32 : QN_GPU_COLUMN_Q_256)

DEVICE int within_127(int x) { return x < -127 ? -127 : x > 127 ? 127 : x; }

/* Up to 256 elements on their way to blocks; a group of 64 work-items has four each. */
typedef struct span_room {
    float v[256], lo[64], hi[64];
    int sum[64], bad[64];
} span_room;

/* The first len elements of the room, a multiple of n, as blocks of n. All work-items of the group call it, after v was
 * written and met for; v may be written again when it returns. Least, greatest and sums have no order. */
DEVICE void quantize_span(LOCAL span_room *r, int n, int len, GLOBAL uint8_t *to)
{
    const int i = 4 * LANE, lanes = n / 4, first = LANE / lanes * lanes;
    float lo = 0, hi = 0;
    int bad = 0, sum = 0;
    uint32_t four = 0;
    for (int j = i; j < i + 4 && j < len; j++) {
        const float v = r->v[j];
        if (v < lo) lo = v;
        if (v > hi) hi = v;
        bad |= !isfinite(v);
    }
    r->lo[LANE] = lo;
    r->hi[LANE] = hi;
    r->bad[LANE] = bad;
    MEET();
    for (int j = first; j < first + lanes; j++) {
        if (r->lo[j] < lo) lo = r->lo[j];
        if (r->hi[j] > hi) hi = r->hi[j];
        bad |= r->bad[j];
    }
    const bool flat = bad || hi - lo < 0x1p-100f;
    const float d = flat ? 1 : (0.5f * hi - 0.5f * lo) / 127.0f, inverse = 1.0f / d;
    const int zero = flat ? 0 : within_127(ROUND(-127.0f - lo * inverse));
    for (int j = 0; j < 4; j++) {
        const int q = flat || i >= len ? 0 : within_127(ROUND(r->v[i + j] * inverse) + zero);
        four |= (uint32_t)(uint8_t)q << 8 * j;
        sum += q - zero;
    }
    r->sum[LANE] = flat ? 0 : sum;
    MEET();
    if (i < len) {
        const int e = i % n;
        GLOBAL uint8_t *y = to + i / n * ACT_BYTES(n);
        *(GLOBAL uint32_t *)(y + ACT_Q(n) + e) = four;
        if (e % 16 == 0) { /* the first of four work-items, or of eight: what follows is there */
            const int all = r->sum[LANE] + r->sum[LANE + 1] + r->sum[LANE + 2] + r->sum[LANE + 3];
            if (n == 256) ((GLOBAL int16_t *)(y + 8))[e / 16] = (int16_t)all;
            if (e == 0) {
                *(GLOBAL float *)y = bad ? NO_NUMBER : flat ? 0 : d;
                if (n == 256) {
                    ((GLOBAL int32_t *)y)[1] = zero;
                } else {
                    const int rest = r->sum[LANE + 4] + r->sum[LANE + 5] + r->sum[LANE + 6] + r->sum[LANE + 7];
                    ((GLOBAL int16_t *)y)[2] = (int16_t)zero;
                    ((GLOBAL int16_t *)y)[3] = (int16_t)(all + rest);
                }
            }
        }
    }
    MEET();
}

