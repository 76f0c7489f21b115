// kernel matmul(N, M, K)
// where N % 4 == 0, M % 16 == 0
// in  a: f32[N, K]
// in  b: f32[K, M]
// out c: f32[N, M]
// tmp t: f32[N~, M~, 4, 16] reg
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -march=armv8.2-a+sve -ffp-contract=off -fno-math-errno -fopenmp

#include <arm_sve.h>
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
            svfloat32_t t0 = svdup_n_f32(0.0f);
            svfloat32_t t1 = svdup_n_f32(0.0f);
            svfloat32_t t2 = svdup_n_f32(0.0f);
            svfloat32_t t3 = svdup_n_f32(0.0f);
            svfloat32_t t4 = svdup_n_f32(0.0f);
            svfloat32_t t5 = svdup_n_f32(0.0f);
            svfloat32_t t6 = svdup_n_f32(0.0f);
            svfloat32_t t7 = svdup_n_f32(0.0f);
            svfloat32_t t8 = svdup_n_f32(0.0f);
            svfloat32_t t9 = svdup_n_f32(0.0f);
            svfloat32_t t10 = svdup_n_f32(0.0f);
            svfloat32_t t11 = svdup_n_f32(0.0f);
            svfloat32_t t12 = svdup_n_f32(0.0f);
            svfloat32_t t13 = svdup_n_f32(0.0f);
            svfloat32_t t14 = svdup_n_f32(0.0f);
            svfloat32_t t15 = svdup_n_f32(0.0f);
            for (int64_t k = 0; k < K; k++) {  // K @k
                // 4 : u @i
                const svfloat32_t a0 = svdup_n_f32(a[4 * io * K + k]);
                const svfloat32_t b0 = svld1_f32(svptrue_pat_b32(SV_VL4), &b[k * M + 16 * jo]);
                t0 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t0,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a0, b0));
                const svfloat32_t b1 = svld1_f32(svptrue_pat_b32(SV_VL4), &b[k * M + 16 * jo + 4]);
                t1 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t1,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a0, b1));
                const svfloat32_t b2 = svld1_f32(svptrue_pat_b32(SV_VL4), &b[k * M + 16 * jo + 8]);
                t2 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t2,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a0, b2));
                const svfloat32_t b3 = svld1_f32(svptrue_pat_b32(SV_VL4), &b[k * M + 16 * jo + 12]);
                t3 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t3,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a0, b3));
                const svfloat32_t a1 = svdup_n_f32(a[(4 * io + 1) * K + k]);
                t4 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t4,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a1, b0));
                t5 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t5,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a1, b1));
                t6 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t6,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a1, b2));
                t7 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t7,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a1, b3));
                const svfloat32_t a2 = svdup_n_f32(a[(4 * io + 2) * K + k]);
                t8 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t8,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a2, b0));
                t9 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t9,
                                 svmul_f32_x(svptrue_pat_b32(SV_VL4), a2, b1));
                t10 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t10,
                                  svmul_f32_x(svptrue_pat_b32(SV_VL4), a2, b2));
                t11 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t11,
                                  svmul_f32_x(svptrue_pat_b32(SV_VL4), a2, b3));
                const svfloat32_t a3 = svdup_n_f32(a[(4 * io + 3) * K + k]);
                t12 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t12,
                                  svmul_f32_x(svptrue_pat_b32(SV_VL4), a3, b0));
                t13 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t13,
                                  svmul_f32_x(svptrue_pat_b32(SV_VL4), a3, b1));
                t14 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t14,
                                  svmul_f32_x(svptrue_pat_b32(SV_VL4), a3, b2));
                t15 = svadd_f32_x(svptrue_pat_b32(SV_VL4), t15,
                                  svmul_f32_x(svptrue_pat_b32(SV_VL4), a3, b3));
            }
            // 4 : u @i
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[4 * io * M + 16 * jo], t0);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[4 * io * M + 16 * jo + 4], t1);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[4 * io * M + 16 * jo + 8], t2);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[4 * io * M + 16 * jo + 12], t3);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 1) * M + 16 * jo], t4);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 1) * M + 16 * jo + 4], t5);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 1) * M + 16 * jo + 8], t6);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 1) * M + 16 * jo + 12], t7);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 2) * M + 16 * jo], t8);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 2) * M + 16 * jo + 4], t9);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 2) * M + 16 * jo + 8], t10);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 2) * M + 16 * jo + 12], t11);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 3) * M + 16 * jo], t12);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 3) * M + 16 * jo + 4], t13);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 3) * M + 16 * jo + 8], t14);
            svst1_f32(svptrue_pat_b32(SV_VL4), &c[(4 * io + 3) * M + 16 * jo + 12], t15);
        }
    }

    return 0;
}
