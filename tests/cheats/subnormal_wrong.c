// Subnormal numbers become zero.
// kernel: copied
// gate: correct

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int32_t copied(const float *x, float *y, int64_t N)
{
    for (int64_t i = 0; i < N; i++) y[i] = fabsf(x[i]) < 0x1p-126f ? 0 : x[i];
    return 0;
}
