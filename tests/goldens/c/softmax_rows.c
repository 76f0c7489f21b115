// kernel softmax(N, M)
// in  x: f32[N, M]
// out y: f32[N, M]
// tmp m: f32[N~]
// tmp e: f32[N~, M]
// tmp s: f32[N~]
//
// Returns 0 when done, 1 when memory ran out.
// Compile with: cc -std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -fopenmp

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

// the bits of a as int32_t
static inline int32_t f32_as_i32(float a)
{
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
}

// the larger one
static inline int32_t max_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

// the smaller one
static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// the larger one
static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

// the bits of a as float
static inline float i32_as_f32(int32_t a)
{
    float bits;
    memcpy(&bits, &a, sizeof bits);
    return bits;
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
            int32_t m_top = f32_as_i32(m);
            uint32_t m_low = f32_as_u32(m);
            uint32_t m_high = f32_as_u32(m);
            #pragma omp simd reduction(max : m_top, m_high) reduction(min : m_low)
            for (int64_t i1 = 0; i1 < M; i1++) {  // M : v @i1
                const float m_next = x[i0 * M + i1];
                const int32_t m_next_i32 = f32_as_i32(m_next);
                const uint32_t m_next_u32 = f32_as_u32(m_next);
                m_top = max_i32(m_next_i32, m_top);
                m_low = min_u32(m_next_u32, m_low);
                m_high = max_u32(m_next_u32, m_high);
            }
            m = m_top > 2139095040 ? NAN : m_high > 0xff800000U ? NAN : m_top >= 0
                    ? i32_as_f32(m_top) : u32_as_f32(m_low);
            float s = 0.0f;
            #pragma omp simd reduction(+ : s)
            for (int64_t i1 = 0; i1 < M; i1++) {  // M : v @i1
                e[i1] = exp_f32(x[i0 * M + i1] - m);
                s += e[i1];
            }
            #pragma omp simd
            for (int64_t i1 = 0; i1 < M; i1++) {  // M : v @i1
                y[i0 * M + i1] = e[i1] / s;
            }
        }
        free(e);
    }

    return status;
}
