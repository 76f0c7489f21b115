// kernel matmul(N, M, K)
// where N % 4 == 0, M % 16 == 0
// in  a: f32[N, K]
// in  b: f32[K, M]
// out c: f32[N, M]
// tmp t: f32[N~, M~, 4, 16] reg
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -mavx2 -mavx512bw -mavx512dq -mavx512f -mavx512vl -mbmi2 -mf16c -mfma -ffp-contract=off -fno-math-errno -fopenmp

#include <immintrin.h>
#include <stdint.h>

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

int32_t matmul(const float *restrict a, const float *restrict b, float *restrict c, int64_t N,
               int64_t M, int64_t K)
{
    #pragma omp parallel for schedule(static)
    for (int64_t io = 0; io < N / 4; io++) {  // N // 4 : p @io
        for (int64_t jo = 0; jo < M / 16; jo++) {  // M // 16 @jo
            // 4 : u @i
            __m512 t0 = _mm512_setzero_ps();
            __m512 t1 = _mm512_setzero_ps();
            __m512 t2 = _mm512_setzero_ps();
            __m512 t3 = _mm512_setzero_ps();
            for (int64_t k = 0; k < K; k++) {  // K @k
                // 4 : u @i
                const __m512 b0 = _mm512_loadu_ps(&b[k * M + 16 * jo]);
                t0 = _mm512_add_ps(t0, _mm512_mul_ps(_mm512_set1_ps(a[4 * io * K + k]), b0));
                t1 = _mm512_add_ps(t1, _mm512_mul_ps(_mm512_set1_ps(a[(4 * io + 1) * K + k]), b0));
                t2 = _mm512_add_ps(t2, _mm512_mul_ps(_mm512_set1_ps(a[(4 * io + 2) * K + k]), b0));
                t3 = _mm512_add_ps(t3, _mm512_mul_ps(_mm512_set1_ps(a[(4 * io + 3) * K + k]), b0));
            }
            // 4 : u @i
            _mm512_storeu_ps(&c[4 * io * M + 16 * jo], t0);
            _mm512_storeu_ps(&c[(4 * io + 1) * M + 16 * jo], t1);
            _mm512_storeu_ps(&c[(4 * io + 2) * M + 16 * jo], t2);
            _mm512_storeu_ps(&c[(4 * io + 3) * M + 16 * jo], t3);
        }
    }

    return 0;
}
