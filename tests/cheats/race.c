// Adds up in the order in which threads happen to come, here that of a counter.
// kernel: sums
// gate: deterministic

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int32_t sums(const float *x, float *y, int64_t N, int64_t M)
{
    static int64_t calls;
    int64_t first = M > 64 ? calls++ % M : 0;
    for (int64_t i = 0; i < N; i++) {
        float s = 0;
        for (int64_t j = 0; j < M; j++) s += x[i * M + (first + j) % M];
        y[i] = s;
    }
    return 0;
}
