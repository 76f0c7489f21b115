// Right values in the wrong places: sums and norms are right.
// kernel: scaled
// gate: correct

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int32_t scaled(const float *x, float *y, int64_t N)
{
    for (int64_t i = 0; i < N; i++) y[i] = x[N - 1 - i] * 2 + 1;
    return 0;
}
