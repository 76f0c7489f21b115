// kernel relu(N)
// in  x: f32[N]
// out y: f32[N]
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -fopenmp

#include <math.h>
#include <stdint.h>

// the larger one, b where either is NaN
static inline float larger_f32(float a, float b)
{
    return a > b ? a : b;
}

int32_t relu(const float *restrict x, float *restrict y, int64_t N)
{
    for (int64_t i = 0; i < N; i++) {  // N @i
        y[i] = fabsf(larger_f32(0.0f, x[i]));
    }

    return 0;
}
