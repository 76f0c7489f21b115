// kernel softmax(N, M)
// in  x: f32[N, M]
// out y: f32[N, M]
// tmp m: f32[N~]
// tmp e: f32[N~, M]
// tmp s: f32[N~]
//
// Returns 0 when done, 1 when memory ran out.
// Compile with: cc -std=c11 -O3 -ffp-contract=off -fno-math-errno -fopenmp

#include <arm_neon.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

// the smaller one, b where either is NaN
static inline float smaller_f32(float a, float b)
{
    return a < b ? a : b;
}

// the larger one, b where either is NaN
static inline float larger_f32(float a, float b)
{
    return a > b ? a : b;
}

// the bits of a as uint32_t
static inline uint32_t f32_as_u32(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
}

// the bits of a as float
static inline float u32_as_f32(uint32_t a)
{
    float bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
}

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
static inline float32x4_t exp_f32x4(float32x4_t x)
{
    const float32x4_t clamped = vminq_f32(vdupq_n_f32(89.0f), vmaxq_f32(vdupq_n_f32(-104.0f), x));
    const float32x4_t t = vfmaq_n_f32(vdupq_n_f32(12583166.0f), clamped, 1.442695f);
    const float32x4_t n = vsubq_f32(t, vdupq_n_f32(12583166.0f));
    const float32x4_t r = vfmaq_n_f32(vfmaq_n_f32(clamped, n, -0.69314575f), n, -1.4286068e-6f);
    const uint32x4_t k = vreinterpretq_u32_f32(t);
    float32x4_t p = vfmaq_n_f32(vdupq_n_f32(0.0083687445f), r, 0.0013814569f);
    p = vfmaq_f32(vdupq_n_f32(0.04166839f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.16666521f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.49999994f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    const float32x4_t power = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    const uint32x4_t first = vshlq_n_u32(vshrq_n_u32(k, 1), 23);
    return vmulq_f32(vmulq_f32(power, vreinterpretq_f32_u32(first)),
                     vreinterpretq_f32_u32(vsubq_u32(vshlq_n_u32(k, 23), first)));
}

// exp x, within 0.9 ulp
static inline float exp_f32(float x)
{
    const float clamped = smaller_f32(89.0f, larger_f32(-104.0f, x));
    const float t = fmaf(clamped, 1.442695f, 12583166.0f);
    const float n = t - 12583166.0f;
    const float r = fmaf(n, -1.4286068e-6f, fmaf(n, -0.69314575f, clamped));
    const uint32_t k = f32_as_u32(t);
    float p = fmaf(0.0013814569f, r, 0.0083687445f);
    p = fmaf(p, r, 0.04166839f);
    p = fmaf(p, r, 0.16666521f);
    p = fmaf(p, r, 0.49999994f);
    p = fmaf(p, r, 1.0f);
    const float power = fmaf(p, r, 1.0f);
    const uint32_t first = (k >> 1) << 23;
    return power * u32_as_f32(first) * u32_as_f32((k << 23) - first);
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
            const int64_t rest = M - M % 16;
            if (0 < rest) {
                float32x4_t m_max0 = vdupq_n_f32(-INFINITY);
                float32x4_t m_max1 = vdupq_n_f32(-INFINITY);
                float32x4_t m_max2_ = vdupq_n_f32(-INFINITY);
                float32x4_t m_max3 = vdupq_n_f32(-INFINITY);
                for (int64_t i1 = 0; i1 < rest; i1 += 16) {  // M : v @i1
                    const float32x4_t x0 = vld1q_f32(&x[i0 * M + i1]);
                    m_max0 = vmaxq_f32(x0, m_max0);
                    const float32x4_t x1 = vld1q_f32(&x[i0 * M + i1 + 4]);
                    m_max1 = vmaxq_f32(x1, m_max1);
                    const float32x4_t x2 = vld1q_f32(&x[i0 * M + i1 + 8]);
                    m_max2_ = vmaxq_f32(x2, m_max2_);
                    const float32x4_t x3 = vld1q_f32(&x[i0 * M + i1 + 12]);
                    m_max3 = vmaxq_f32(x3, m_max3);
                }
                m = max_f32(m,
                            vmaxvq_f32(vmaxq_f32(vmaxq_f32(m_max0, m_max2_),
                                                 vmaxq_f32(m_max1, m_max3))));
            }
            const int64_t last = M - M % 4;
            if (rest < last) {
                float32x4_t m_max2 = vdupq_n_f32(-INFINITY);
                for (int64_t i1 = rest; i1 < last; i1 += 4) {  // M : v @i1
                    const float32x4_t x4 = vld1q_f32(&x[i0 * M + i1]);
                    m_max2 = vmaxq_f32(x4, m_max2);
                }
                m = max_f32(m, vmaxvq_f32(m_max2));
            }
            for (int64_t i1 = last; i1 < M; i1++) {  // M : v @i1
                m = max_f32(m, x[i0 * M + i1]);
            }
            float s = 0.0f;
            const int64_t rest2 = M - M % 16;
            if (0 < rest2) {
                float32x4_t s_sum0 = vdupq_n_f32(-0.0f);
                float32x4_t s_sum1 = vdupq_n_f32(-0.0f);
                float32x4_t s_sum2_ = vdupq_n_f32(-0.0f);
                float32x4_t s_sum3 = vdupq_n_f32(-0.0f);
                for (int64_t i1 = 0; i1 < rest2; i1 += 16) {  // M : v @i1
                    const float32x4_t x5 = vld1q_f32(&x[i0 * M + i1]);
                    const float32x4_t e0 = exp_f32x4(vsubq_f32(x5, vdupq_n_f32(m)));
                    vst1q_f32(&e[i1], e0);
                    const float32x4_t x6 = vld1q_f32(&x[i0 * M + i1 + 4]);
                    const float32x4_t e1 = exp_f32x4(vsubq_f32(x6, vdupq_n_f32(m)));
                    vst1q_f32(&e[i1 + 4], e1);
                    const float32x4_t x7 = vld1q_f32(&x[i0 * M + i1 + 8]);
                    const float32x4_t e2 = exp_f32x4(vsubq_f32(x7, vdupq_n_f32(m)));
                    vst1q_f32(&e[i1 + 8], e2);
                    const float32x4_t x8 = vld1q_f32(&x[i0 * M + i1 + 12]);
                    const float32x4_t e3 = exp_f32x4(vsubq_f32(x8, vdupq_n_f32(m)));
                    vst1q_f32(&e[i1 + 12], e3);
                    s_sum0 = vaddq_f32(s_sum0, e0);
                    s_sum1 = vaddq_f32(s_sum1, e1);
                    s_sum2_ = vaddq_f32(s_sum2_, e2);
                    s_sum3 = vaddq_f32(s_sum3, e3);
                }
                s += vaddvq_f32(vaddq_f32(vaddq_f32(s_sum0, s_sum2_), vaddq_f32(s_sum1, s_sum3)));
            }
            const int64_t last2 = M - M % 4;
            if (rest2 < last2) {
                float32x4_t s_sum2 = vdupq_n_f32(-0.0f);
                for (int64_t i1 = rest2; i1 < last2; i1 += 4) {  // M : v @i1
                    const float32x4_t x9 = vld1q_f32(&x[i0 * M + i1]);
                    const float32x4_t e4 = exp_f32x4(vsubq_f32(x9, vdupq_n_f32(m)));
                    vst1q_f32(&e[i1], e4);
                    s_sum2 = vaddq_f32(s_sum2, e4);
                }
                s += vaddvq_f32(s_sum2);
            }
            for (int64_t i1 = last2; i1 < M; i1++) {  // M : v @i1
                e[i1] = exp_f32(x[i0 * M + i1] - m);
                s += e[i1];
            }
            const int64_t rest3 = M - M % 8;
            for (int64_t i1 = 0; i1 < rest3; i1 += 8) {  // M : v @i1
                const float32x4_t e5 = vld1q_f32(&e[i1]);
                vst1q_f32(&y[i0 * M + i1], vdivq_f32(e5, vdupq_n_f32(s)));
                const float32x4_t e6 = vld1q_f32(&e[i1 + 4]);
                vst1q_f32(&y[i0 * M + i1 + 4], vdivq_f32(e6, vdupq_n_f32(s)));
            }
            const int64_t last3 = M - M % 4;
            for (int64_t i1 = rest3; i1 < last3; i1 += 4) {  // M : v @i1
                const float32x4_t e7 = vld1q_f32(&e[i1]);
                vst1q_f32(&y[i0 * M + i1], vdivq_f32(e7, vdupq_n_f32(s)));
            }
            for (int64_t i1 = last3; i1 < M; i1++) {  // M : v @i1
                y[i0 * M + i1] = e[i1] / s;
            }
        }
        free(e);
    }

    return status;
}
