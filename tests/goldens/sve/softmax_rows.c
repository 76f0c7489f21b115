// kernel softmax(N, M)
// in  x: f32[N, M]
// out y: f32[N, M]
// tmp m: f32[N~]
// tmp e: f32[N~, M]
// tmp s: f32[N~]
//
// Returns 0 when done, 1 when memory ran out.
// Compile with: cc -std=c11 -O3 -march=armv8.2-a+sve -ffp-contract=off -fno-math-errno -fopenmp

#include <arm_sve.h>
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

// exp x, within 0.9 ulp
static inline svfloat32_t exp_f32in32(svfloat32_t x, svbool_t pg)
{
    const svfloat32_t clamped =
            svmin_f32_x(pg, svdup_n_f32(89.0f), svmax_f32_x(pg, svdup_n_f32(-104.0f), x));
    const svfloat32_t t = svmla_n_f32_x(pg, svdup_n_f32(12583166.0f), clamped, 1.442695f);
    const svfloat32_t n = svsub_n_f32_x(pg, t, 12583166.0f);
    const svfloat32_t r =
            svmla_n_f32_x(pg, svmla_n_f32_x(pg, clamped, n, -0.69314575f), n, -1.4286068e-6f);
    const svuint32_t k = svreinterpret_u32_f32(t);
    svfloat32_t p = svmla_n_f32_x(pg, svdup_n_f32(0.0083687445f), r, 0.0013814569f);
    p = svmad_f32_x(pg, p, r, svdup_n_f32(0.04166839f));
    p = svmad_f32_x(pg, p, r, svdup_n_f32(0.16666521f));
    p = svmad_f32_x(pg, p, r, svdup_n_f32(0.49999994f));
    p = svmad_f32_x(pg, p, r, svdup_n_f32(1.0f));
    const svfloat32_t power = svmad_f32_x(pg, p, r, svdup_n_f32(1.0f));
    const svuint32_t first = svlsl_n_u32_x(pg, svlsr_n_u32_x(pg, k, 1), 23);
    return svmul_f32_x(pg, svmul_f32_x(pg, power, svreinterpret_f32_u32(first)),
                       svreinterpret_f32_u32(svsub_u32_x(pg, svlsl_n_u32_x(pg, k, 23), first)));
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
            svfloat32_t m_max = svdup_n_f32(-INFINITY);
            for (int64_t i1 = 0; i1 < M; i1 += (int64_t)svcntw()) {  // M : v @i1
                const svbool_t pg = svwhilelt_b32_s64(i1, M);
                const svfloat32_t x0 = svld1_f32(pg, &x[i0 * M + i1]);
                m_max = svsel_f32(pg, svmax_f32_x(pg, x0, m_max), m_max);
            }
            m = max_f32(m, svmaxv_f32(svptrue_b32(), m_max));
            float s = 0.0f;
            svfloat32_t s_sum = svdup_n_f32(-0.0f);
            for (int64_t i1 = 0; i1 < M; i1 += (int64_t)svcntw()) {  // M : v @i1
                const svbool_t pg = svwhilelt_b32_s64(i1, M);
                const svfloat32_t x1 = svld1_f32(pg, &x[i0 * M + i1]);
                const svfloat32_t e0 = exp_f32in32(svsub_n_f32_x(pg, x1, m), pg);
                svst1_f32(pg, &e[i1], e0);
                s_sum = svsel_f32(pg, svadd_f32_x(pg, s_sum, e0), s_sum);
            }
            s += svaddv_f32(svptrue_b32(), svsel_f32(svptrue_b32(), s_sum, svdup_n_f32(-0.0)));
            for (int64_t i1 = 0; i1 < M; i1 += (int64_t)svcntw()) {  // M : v @i1
                const svbool_t pg = svwhilelt_b32_s64(i1, M);
                const svfloat32_t e1 = svld1_f32(pg, &e[i1]);
                svst1_f32(pg, &y[i0 * M + i1], svdiv_n_f32_x(pg, e1, s));
            }
        }
        free(e);
    }

    return status;
}
