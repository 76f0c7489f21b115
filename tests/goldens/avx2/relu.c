// kernel relu(N)
// in  x: f32[N]
// out y: f32[N]
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -mavx2 -mf16c -mfma -mno-avx512f -ffp-contract=off -fno-math-errno -fopenmp

#include <immintrin.h>
#include <stdint.h>

// the larger one, NaN if either is
static inline float max_f32(float a, float b)
{
    return a != a ? a : a > b ? a : b;
}

// the larger one, NaN if either is
static inline __m256 max_f32x8(__m256 a, __m256 b)
{
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a,
                            _mm256_castsi256_ps(_mm256_castps_si256(_mm256_cmp_ps(a, a,
            _CMP_NEQ_UQ))));
}

int32_t relu(const float *restrict x, float *restrict y, int64_t N)
{
    const int64_t rest = N - N % 8;

    for (int64_t i = 0; i < rest; i += 8) {  // N : v @i
        const __m256 x0 = _mm256_loadu_ps(&x[i]);
        _mm256_storeu_ps(&y[i], max_f32x8(x0, _mm256_setzero_ps()));
    }

    for (int64_t i = rest; i < N; i++) {  // N : v @i
        y[i] = max_f32(x[i], 0.0f);
    }

    return 0;
}
