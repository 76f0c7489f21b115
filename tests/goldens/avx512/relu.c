// kernel relu(N)
// in  x: f32[N]
// out y: f32[N]
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -mavx2 -mavx512bw -mavx512dq -mavx512f -mavx512vl -mbmi2 -mf16c -mfma -ffp-contract=off -fno-math-errno -fopenmp

#include <immintrin.h>
#include <stdint.h>

int32_t relu(const float *restrict x, float *restrict y, int64_t N)
{
    const int64_t rest = N - N % 32;

    for (int64_t i = 0; i < rest; i += 32) {  // N : v @i
        const __m512 x0 = _mm512_loadu_ps(&x[i]);
        _mm512_storeu_ps(&y[i], _mm512_abs_ps(_mm512_max_ps(_mm512_setzero_ps(), x0)));
        const __m512 x1 = _mm512_loadu_ps(&x[i + 16]);
        _mm512_storeu_ps(&y[i + 16], _mm512_abs_ps(_mm512_max_ps(_mm512_setzero_ps(), x1)));
    }

    if (rest < N) {
        const int64_t last = N - N % 16;
        for (int64_t i = rest; i < last; i += 16) {  // N : v @i
            const __m512 x2 = _mm512_loadu_ps(&x[i]);
            _mm512_storeu_ps(&y[i], _mm512_abs_ps(_mm512_max_ps(_mm512_setzero_ps(), x2)));
        }
        if (last < N) {
            const __mmask16 active = (__mmask16)_bzhi_u32(0xffff, N - last);
            const __m512 x3 = _mm512_maskz_loadu_ps(active, &x[last]);
            _mm512_mask_storeu_ps(&y[last], active,
                                  _mm512_abs_ps(_mm512_max_ps(_mm512_setzero_ps(), x3)));
        }
    }

    return 0;
}
