// Two outputs as if they were one.
// kernel: pair
// gate: correct

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int32_t pair(const float *x, float *y, float *z, int64_t N)
{
    for (int64_t i = 0; i < N; i++) {
        y[i] = x[i] + 1;
        z[i] = y[i];
    }
    return 0;
}
