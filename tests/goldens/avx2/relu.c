// kernel relu(N)
// in  x: f32[N]
// out y: f32[N]
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -mavx2 -mf16c -mfma -mno-avx512f -ffp-contract=off -fno-math-errno -fopenmp

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

// the larger one, b where either is NaN
static inline float larger_f32(float a, float b)
{
    return a > b ? a : b;
}

int32_t relu(const float *restrict x, float *restrict y, int64_t N)
{
    const int64_t rest = N - N % 8;

    for (int64_t i = 0; i < rest; i += 8) {  // N : v @i
        const __m256 x0 = _mm256_loadu_ps(&x[i]);
        _mm256_storeu_ps(&y[i],
                         _mm256_andnot_ps(_mm256_set1_ps(-0.0),
                                          _mm256_max_ps(_mm256_setzero_ps(), x0)));
    }

    for (int64_t i = rest; i < N; i++) {  // N : v @i
        y[i] = fabsf(larger_f32(0.0f, x[i]));
    }

    return 0;
}
