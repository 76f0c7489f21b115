// kernel matmul(N, M, K)
// where N % 4 == 0, M % 16 == 0
// in  a: f32[N, K]
// in  b: f32[K, M]
// out c: f32[N, M]
// tmp t: f32[N~, M~, 4, 16] reg
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -fopenmp

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
            _Alignas(64) float t[64];
            #pragma GCC unroll 4
            for (int64_t i = 0; i < 4; i++) {  // 4 : u @i
                #pragma omp simd
                for (int64_t j = 0; j < 16; j++) {  // 16 : v @j
                    t[i * 16 + j] = 0.0f;
                }
            }
            for (int64_t k = 0; k < K; k++) {  // K @k
                #pragma GCC unroll 4
                for (int64_t i = 0; i < 4; i++) {  // 4 : u @i
                    #pragma omp simd
                    for (int64_t j = 0; j < 16; j++) {  // 16 : v @j
                        t[i * 16 + j] += a[(4 * io + i) * K + k] * b[k * M + 16 * jo + j];
                    }
                }
            }
            #pragma GCC unroll 4
            for (int64_t i = 0; i < 4; i++) {  // 4 : u @i
                #pragma omp simd
                for (int64_t j = 0; j < 16; j++) {  // 16 : v @j
                    c[(4 * io + i) * M + 16 * jo + j] = t[i * 16 + j];
                }
            }
        }
    }

    return 0;
}
