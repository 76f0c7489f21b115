// kernel matmul(N, M, K)
// where N % 4 == 0, M % 16 == 0
// in  a: f32[N, K]
// in  b: f32[K, M]
// out c: f32[N, M]
// tmp t: f32[N~, M~, 4, 16] reg
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -mavx2 -mf16c -mfma -mno-avx512f -ffp-contract=off -fno-math-errno -fopenmp

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
            __m256 t0 = _mm256_setzero_ps();
            __m256 t1 = _mm256_setzero_ps();
            __m256 t2 = _mm256_setzero_ps();
            __m256 t3 = _mm256_setzero_ps();
            __m256 t4 = _mm256_setzero_ps();
            __m256 t5 = _mm256_setzero_ps();
            __m256 t6 = _mm256_setzero_ps();
            __m256 t7 = _mm256_setzero_ps();
            for (int64_t k = 0; k < K; k++) {  // K @k
                // 4 : u @i
                const __m256 a0 = _mm256_set1_ps(a[4 * io * K + k]);
                const __m256 b0 = _mm256_loadu_ps(&b[k * M + 16 * jo]);
                t0 = _mm256_add_ps(t0, _mm256_mul_ps(a0, b0));
                const __m256 b1 = _mm256_loadu_ps(&b[k * M + 16 * jo + 8]);
                t1 = _mm256_add_ps(t1, _mm256_mul_ps(a0, b1));
                const __m256 a1 = _mm256_set1_ps(a[(4 * io + 1) * K + k]);
                t2 = _mm256_add_ps(t2, _mm256_mul_ps(a1, b0));
                t3 = _mm256_add_ps(t3, _mm256_mul_ps(a1, b1));
                const __m256 a2 = _mm256_set1_ps(a[(4 * io + 2) * K + k]);
                t4 = _mm256_add_ps(t4, _mm256_mul_ps(a2, b0));
                t5 = _mm256_add_ps(t5, _mm256_mul_ps(a2, b1));
                const __m256 a3 = _mm256_set1_ps(a[(4 * io + 3) * K + k]);
                t6 = _mm256_add_ps(t6, _mm256_mul_ps(a3, b0));
                t7 = _mm256_add_ps(t7, _mm256_mul_ps(a3, b1));
            }
            // 4 : u @i
            _mm256_storeu_ps(&c[4 * io * M + 16 * jo], t0);
            _mm256_storeu_ps(&c[4 * io * M + 16 * jo + 8], t1);
            _mm256_storeu_ps(&c[(4 * io + 1) * M + 16 * jo], t2);
            _mm256_storeu_ps(&c[(4 * io + 1) * M + 16 * jo + 8], t3);
            _mm256_storeu_ps(&c[(4 * io + 2) * M + 16 * jo], t4);
            _mm256_storeu_ps(&c[(4 * io + 2) * M + 16 * jo + 8], t5);
            _mm256_storeu_ps(&c[(4 * io + 3) * M + 16 * jo], t6);
            _mm256_storeu_ps(&c[(4 * io + 3) * M + 16 * jo + 8], t7);
        }
    }

    return 0;
}
