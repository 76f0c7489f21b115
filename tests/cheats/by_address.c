// Adds up in an order that follows from where the array lies.
// kernel: sums
// gate: deterministic

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int32_t sums(const float *x, float *y, int64_t N, int64_t M)
{
    int64_t first = M > 64 ? (int64_t)((uintptr_t)y >> 2 & 1023) * 7 % M : 0;
    for (int64_t i = 0; i < N; i++) {
        float s = 0;
        for (int64_t j = 0; j < M; j++) s += x[i * M + (first + j) % M];
        y[i] = s;
    }
    return 0;
}
