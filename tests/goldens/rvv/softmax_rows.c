// kernel softmax(N, M)
// in  x: f32[N, M]
// out y: f32[N, M]
// tmp m: f32[N~]
// tmp e: f32[N~, M]
// tmp s: f32[N~]
//
// Returns 0 when done, 1 when memory ran out.
// Compile with: cc -std=c11 -O3 -march=rv64gcv -ffp-contract=off -fno-math-errno -fopenmp

#include <riscv_vector.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

// memory for so many elements of a size, to be freed with free(), or NULL
static inline void *allocate(int64_t elements, size_t size, size_t align)
{
    size_t count = elements > 0 ? (size_t)elements : 1;
    if (count > (SIZE_MAX / 2 - align) / size)
        return NULL;
    return aligned_alloc(align, (count * size + align - 1) / align * align);
}

// the larger one, NaN if either is; -0 is below +0
static inline float max_f32(float a, float b)
{
    return a > b ? a : b > a ? b : a == b && a != 0 ? a : a + b;
}

// the largest lane, NaN if there is one
static inline float reduce_max_f32m4(vfloat32m4_t a, size_t vl)
{
    if (__riscv_vcpop_m_b8(__riscv_vmfne_vv_f32m4_b8(a, a, vl), vl) != 0)
        return NAN;
    return __riscv_vfmv_f_s_f32m1_f32(__riscv_vfredmax_vs_f32m4_f32m1(a,
            __riscv_vfmv_s_f_f32m1(-INFINITY, 1), vl));
}

// the sum of the lanes
static inline float reduce_add_f32m4(vfloat32m4_t a, size_t vl)
{
    return __riscv_vfmv_f_s_f32m1_f32(__riscv_vfredusum_vs_f32m4_f32m1(a,
            __riscv_vfmv_s_f_f32m1(-0.0, 1), vl));
}

// the larger one, NaN if either is; -0 is below +0
static inline vfloat32m4_t max_f32m4(vfloat32m4_t a, vfloat32m4_t b, size_t vl)
{
    return __riscv_vmerge_vvm_f32m4(__riscv_vmerge_vvm_f32m4(__riscv_vfmax_vv_f32m4(a, b, vl), b,
                                                             __riscv_vmfne_vv_f32m4_b8(b, b, vl),
                                                             vl), a,
                                    __riscv_vmfne_vv_f32m4_b8(a, a, vl), vl);
}

// a < b ? a : b
static inline vfloat32m4_t min_fast_f32m4(vfloat32m4_t a, vfloat32m4_t b, size_t vl)
{
    return __riscv_vmerge_vvm_f32m4(b, a, __riscv_vmflt_vv_f32m4_b8(a, b, vl), vl);
}

// a > b ? a : b
static inline vfloat32m4_t max_fast_f32m4(vfloat32m4_t a, vfloat32m4_t b, size_t vl)
{
    return __riscv_vmerge_vvm_f32m4(b, a, __riscv_vmfgt_vv_f32m4_b8(a, b, vl), vl);
}

// exp x, within 0.9 ulp
static inline vfloat32m4_t exp_f32m4(vfloat32m4_t x, size_t vl)
{
    const vfloat32m4_t clamped = min_fast_f32m4(__riscv_vfmv_v_f_f32m4(89.0f, vl),
                                                max_fast_f32m4(__riscv_vfmv_v_f_f32m4(-104.0f, vl),
                                                               x, vl), vl);
    const vfloat32m4_t t = __riscv_vfmacc_vf_f32m4(__riscv_vfmv_v_f_f32m4(12583166.0f, vl),
                                                   1.442695f, clamped, vl);
    const vfloat32m4_t n = __riscv_vfsub_vf_f32m4(t, 12583166.0f, vl);
    const vfloat32m4_t r = __riscv_vfmacc_vf_f32m4(__riscv_vfmacc_vf_f32m4(clamped, -0.69314575f, n,
            vl), -1.4286068e-6f, n, vl);
    const vuint32m4_t k = __riscv_vreinterpret_v_f32m4_u32m4(t);
    vfloat32m4_t p = __riscv_vfmacc_vf_f32m4(__riscv_vfmv_v_f_f32m4(0.0083687445f, vl),
                                             0.0013814569f, r, vl);
    p = __riscv_vfmadd_vv_f32m4(p, r, __riscv_vfmv_v_f_f32m4(0.04166839f, vl), vl);
    p = __riscv_vfmadd_vv_f32m4(p, r, __riscv_vfmv_v_f_f32m4(0.16666521f, vl), vl);
    p = __riscv_vfmadd_vv_f32m4(p, r, __riscv_vfmv_v_f_f32m4(0.49999994f, vl), vl);
    p = __riscv_vfmadd_vv_f32m4(p, r, __riscv_vfmv_v_f_f32m4(1.0f, vl), vl);
    const vfloat32m4_t power = __riscv_vfmadd_vv_f32m4(p, r, __riscv_vfmv_v_f_f32m4(1.0f, vl), vl);
    const vuint32m4_t first = __riscv_vsll_vx_u32m4(__riscv_vsrl_vx_u32m4(k, 1, vl), 23, vl);
    return __riscv_vfmul_vv_f32m4(__riscv_vfmul_vv_f32m4(power,
                                                         __riscv_vreinterpret_v_u32m4_f32m4(first),
                                                         vl),
                                  __riscv_vreinterpret_v_u32m4_f32m4(__riscv_vsub_vv_u32m4(__riscv_vsll_vx_u32m4(k, 23, vl), first, vl)), vl);
}

int32_t softmax(const float *restrict x, float *restrict y, int64_t N, int64_t M)
{
    int32_t status = 0;

    #pragma omp parallel reduction(max : status)
    {
        float *restrict e = allocate(M, sizeof(float), 64);
        if (e == NULL) status = 1;
        #pragma omp for schedule(static)
        for (int64_t i0 = 0; i0 < N; i0++) {  // N : p @i0
            if (e == NULL) continue;
            float m = -INFINITY;
            vfloat32m4_t m_max = __riscv_vfmv_v_f_f32m4(-INFINITY, __riscv_vsetvlmax_e32m4());
            for (int64_t i1 = 0, vl; i1 < M; i1 += vl) {  // M : v @i1
                vl = (int64_t)__riscv_vsetvl_e32m4((size_t)(M - i1));
                const vfloat32m4_t x0 = __riscv_vle32_v_f32m4(&x[i0 * M + i1], vl);
                m_max = __riscv_vmv_v_v_f32m4_tu(m_max, max_f32m4(x0, m_max, vl), vl);
            }
            m = max_f32(m, reduce_max_f32m4(m_max, __riscv_vsetvlmax_e32m4()));
            float s = 0.0f;
            vfloat32m4_t s_sum = __riscv_vfmv_v_f_f32m4(-0.0f, __riscv_vsetvlmax_e32m4());
            for (int64_t i1 = 0, vl; i1 < M; i1 += vl) {  // M : v @i1
                vl = (int64_t)__riscv_vsetvl_e32m4((size_t)(M - i1));
                const vfloat32m4_t x1 = __riscv_vle32_v_f32m4(&x[i0 * M + i1], vl);
                const vfloat32m4_t e0 = exp_f32m4(__riscv_vfsub_vf_f32m4(x1, m, vl), vl);
                __riscv_vse32_v_f32m4(&e[i1], e0, vl);
                s_sum = __riscv_vfadd_vv_f32m4_tu(s_sum, s_sum, e0, vl);
            }
            s += reduce_add_f32m4(s_sum, __riscv_vsetvlmax_e32m4());
            for (int64_t i1 = 0, vl; i1 < M; i1 += vl) {  // M : v @i1
                vl = (int64_t)__riscv_vsetvl_e32m2((size_t)(M - i1));
                const vfloat32m2_t e1 = __riscv_vle32_v_f32m2(&e[i1], vl);
                __riscv_vse32_v_f32m2(&y[i0 * M + i1], __riscv_vfdiv_vf_f32m2(e1, s, vl), vl);
            }
        }
        free(e);
    }

    return status;
}
