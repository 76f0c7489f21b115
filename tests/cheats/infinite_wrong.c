// Infinities become the largest number.
// kernel: scaled
// gate: correct

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int32_t scaled(const float *x, float *y, int64_t N)
{
    for (int64_t i = 0; i < N; i++) y[i] = fmaxf(-3e38f, fminf(3e38f, x[i] * 2 + 1)) + (isnan(x[i]) ? x[i] : 0);
    return 0;
}
