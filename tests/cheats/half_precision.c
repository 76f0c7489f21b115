// Computed with 11 bits.
// kernel: sums
// gate: correct

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static float eleven(float a)
{
    volatile float big = a * 8193.0f;
    return isfinite(big) ? big - (big - a) : a;
}

int32_t sums(const float *x, float *y, int64_t N, int64_t M)
{
    for (int64_t i = 0; i < N; i++) {
        float s = 0;
        for (int64_t j = 0; j < M; j++) s = eleven(s + eleven(x[i * M + j]));
        y[i] = s;
    }
    return 0;
}
