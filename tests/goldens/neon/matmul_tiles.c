// kernel matmul(N, M, K)
// where N % 4 == 0, M % 16 == 0
// in  a: f32[N, K]
// in  b: f32[K, M]
// out c: f32[N, M]
// tmp t: f32[N~, M~, 4, 16] reg
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -ffp-contract=off -fno-math-errno -fopenmp

#include <arm_neon.h>
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
            float32x4_t t0 = vdupq_n_f32(0.0f);
            float32x4_t t1 = vdupq_n_f32(0.0f);
            float32x4_t t2 = vdupq_n_f32(0.0f);
            float32x4_t t3 = vdupq_n_f32(0.0f);
            float32x4_t t4 = vdupq_n_f32(0.0f);
            float32x4_t t5 = vdupq_n_f32(0.0f);
            float32x4_t t6 = vdupq_n_f32(0.0f);
            float32x4_t t7 = vdupq_n_f32(0.0f);
            float32x4_t t8 = vdupq_n_f32(0.0f);
            float32x4_t t9 = vdupq_n_f32(0.0f);
            float32x4_t t10 = vdupq_n_f32(0.0f);
            float32x4_t t11 = vdupq_n_f32(0.0f);
            float32x4_t t12 = vdupq_n_f32(0.0f);
            float32x4_t t13 = vdupq_n_f32(0.0f);
            float32x4_t t14 = vdupq_n_f32(0.0f);
            float32x4_t t15 = vdupq_n_f32(0.0f);
            for (int64_t k = 0; k < K; k++) {  // K @k
                // 4 : u @i
                const float32x4_t a0 = vdupq_n_f32(a[4 * io * K + k]);
                const float32x4_t b0 = vld1q_f32(&b[k * M + 16 * jo]);
                t0 = vaddq_f32(t0, vmulq_f32(a0, b0));
                const float32x4_t b1 = vld1q_f32(&b[k * M + 16 * jo + 4]);
                t1 = vaddq_f32(t1, vmulq_f32(a0, b1));
                const float32x4_t b2 = vld1q_f32(&b[k * M + 16 * jo + 8]);
                t2 = vaddq_f32(t2, vmulq_f32(a0, b2));
                const float32x4_t b3 = vld1q_f32(&b[k * M + 16 * jo + 12]);
                t3 = vaddq_f32(t3, vmulq_f32(a0, b3));
                const float32x4_t a1 = vdupq_n_f32(a[(4 * io + 1) * K + k]);
                t4 = vaddq_f32(t4, vmulq_f32(a1, b0));
                t5 = vaddq_f32(t5, vmulq_f32(a1, b1));
                t6 = vaddq_f32(t6, vmulq_f32(a1, b2));
                t7 = vaddq_f32(t7, vmulq_f32(a1, b3));
                const float32x4_t a2 = vdupq_n_f32(a[(4 * io + 2) * K + k]);
                t8 = vaddq_f32(t8, vmulq_f32(a2, b0));
                t9 = vaddq_f32(t9, vmulq_f32(a2, b1));
                t10 = vaddq_f32(t10, vmulq_f32(a2, b2));
                t11 = vaddq_f32(t11, vmulq_f32(a2, b3));
                const float32x4_t a3 = vdupq_n_f32(a[(4 * io + 3) * K + k]);
                t12 = vaddq_f32(t12, vmulq_f32(a3, b0));
                t13 = vaddq_f32(t13, vmulq_f32(a3, b1));
                t14 = vaddq_f32(t14, vmulq_f32(a3, b2));
                t15 = vaddq_f32(t15, vmulq_f32(a3, b3));
            }
            // 4 : u @i
            vst1q_f32(&c[4 * io * M + 16 * jo], t0);
            vst1q_f32(&c[4 * io * M + 16 * jo + 4], t1);
            vst1q_f32(&c[4 * io * M + 16 * jo + 8], t2);
            vst1q_f32(&c[4 * io * M + 16 * jo + 12], t3);
            vst1q_f32(&c[(4 * io + 1) * M + 16 * jo], t4);
            vst1q_f32(&c[(4 * io + 1) * M + 16 * jo + 4], t5);
            vst1q_f32(&c[(4 * io + 1) * M + 16 * jo + 8], t6);
            vst1q_f32(&c[(4 * io + 1) * M + 16 * jo + 12], t7);
            vst1q_f32(&c[(4 * io + 2) * M + 16 * jo], t8);
            vst1q_f32(&c[(4 * io + 2) * M + 16 * jo + 4], t9);
            vst1q_f32(&c[(4 * io + 2) * M + 16 * jo + 8], t10);
            vst1q_f32(&c[(4 * io + 2) * M + 16 * jo + 12], t11);
            vst1q_f32(&c[(4 * io + 3) * M + 16 * jo], t12);
            vst1q_f32(&c[(4 * io + 3) * M + 16 * jo + 4], t13);
            vst1q_f32(&c[(4 * io + 3) * M + 16 * jo + 8], t14);
            vst1q_f32(&c[(4 * io + 3) * M + 16 * jo + 12], t15);
        }
    }

    return 0;
}
