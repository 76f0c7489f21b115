// Leaves 64 KiB behind at each call.
// kernel: scaled
// gate: honest

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static char *volatile last;

int32_t scaled(const float *x, float *y, int64_t N)
{
    char *left = N > 2048 ? malloc(1 << 16) : 0;
    if (left) memset(left, 1, 1 << 16);
    last = left;
    for (int64_t i = 0; i < N; i++) y[i] = x[i] * 2 + 1;
    return 0;
}
