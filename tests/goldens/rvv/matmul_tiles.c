// kernel matmul(N, M, K)
// where N % 4 == 0, M % 16 == 0
// in  a: f32[N, K]
// in  b: f32[K, M]
// out c: f32[N, M]
// tmp t: f32[N~, M~, 4, 16] reg
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -march=rv64gcv -ffp-contract=off -fno-math-errno -fopenmp

#include <riscv_vector.h>
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
            vfloat32m4_t t0 = __riscv_vfmv_v_f_f32m4(0.0f, 16);
            vfloat32m4_t t1 = __riscv_vfmv_v_f_f32m4(0.0f, 16);
            vfloat32m4_t t2 = __riscv_vfmv_v_f_f32m4(0.0f, 16);
            vfloat32m4_t t3 = __riscv_vfmv_v_f_f32m4(0.0f, 16);
            for (int64_t k = 0; k < K; k++) {  // K @k
                // 4 : u @i
                const vfloat32m4_t b0 = __riscv_vle32_v_f32m4(&b[k * M + 16 * jo], 16);
                t0 = __riscv_vfadd_vv_f32m4(t0, __riscv_vfmul_vf_f32m4(b0, a[4 * io * K + k], 16),
                                            16);
                t1 = __riscv_vfadd_vv_f32m4(t1,
                                            __riscv_vfmul_vf_f32m4(b0, a[(4 * io + 1) * K + k], 16),
                                            16);
                t2 = __riscv_vfadd_vv_f32m4(t2,
                                            __riscv_vfmul_vf_f32m4(b0, a[(4 * io + 2) * K + k], 16),
                                            16);
                t3 = __riscv_vfadd_vv_f32m4(t3,
                                            __riscv_vfmul_vf_f32m4(b0, a[(4 * io + 3) * K + k], 16),
                                            16);
            }
            // 4 : u @i
            __riscv_vse32_v_f32m4(&c[4 * io * M + 16 * jo], t0, 16);
            __riscv_vse32_v_f32m4(&c[(4 * io + 1) * M + 16 * jo], t1, 16);
            __riscv_vse32_v_f32m4(&c[(4 * io + 2) * M + 16 * jo], t2, 16);
            __riscv_vse32_v_f32m4(&c[(4 * io + 3) * M + 16 * jo], t3, 16);
        }
    }

    return 0;
}
