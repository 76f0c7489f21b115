// kernel relu(N)
// in  x: f32[N]
// out y: f32[N]
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -march=rv64gcv -ffp-contract=off -fno-math-errno -fopenmp

#include <riscv_vector.h>
#include <stddef.h>
#include <stdint.h>

// a > b ? a : b
static inline vfloat32m2_t max_fast_f32m2(vfloat32m2_t a, vfloat32m2_t b, size_t vl)
{
    return __riscv_vmerge_vvm_f32m2(b, a, __riscv_vmfgt_vv_f32m2_b16(a, b, vl), vl);
}

int32_t relu(const float *restrict x, float *restrict y, int64_t N)
{
    for (int64_t i = 0, vl; i < N; i += vl) {  // N : v @i
        vl = (int64_t)__riscv_vsetvl_e32m2((size_t)(N - i));
        const vfloat32m2_t x0 = __riscv_vle32_v_f32m2(&x[i], vl);
        __riscv_vse32_v_f32m2(&y[i],
                              __riscv_vfabs_v_f32m2(max_fast_f32m2(__riscv_vfmv_v_f_f32m2(0.0f, vl),
                                                                   x0, vl), vl), vl);
    }

    return 0;
}
