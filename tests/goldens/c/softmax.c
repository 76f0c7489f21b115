// kernel softmax(N, M)
// in  x: f32[N, M]
// out y: f32[N, M]
// tmp m: f32[N]
// tmp e: f32[N, M]
// tmp s: f32[N]
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

// a * b for numbers of elements, and more than any memory holds where that does not fit
static inline int64_t product(int64_t a, int64_t b)
{
    const int64_t many = INT64_MAX / 2;
    return a > 0 && b > many / a ? many : a * b;
}

// the larger one, NaN if either is; -0 is below +0
static inline float max_f32(float a, float b)
{
    return a > b ? a : b > a ? b : a == b && a != 0 ? a : a + b;
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
    float *restrict m = allocate(N, sizeof(float), 64);
    float *restrict e = allocate(product(N, M), sizeof(float), 64);
    float *restrict s = allocate(N, sizeof(float), 64);
    if (m == NULL || e == NULL || s == NULL) {
        free(s);
        free(e);
        free(m);
        return 1;
    }

    for (int64_t i = 0; i < N; i++) {  // N @i
        m[i] = -INFINITY;
        for (int64_t j = 0; j < M; j++) {  // M @j
            m[i] = max_f32(m[i], x[i * M + j]);
        }
    }

    for (int64_t r = 0; r < N; r++) {  // N @r
        s[r] = 0.0f;
        double s_sum = -0.0;
        for (int64_t k = 0; k < M; k++) {  // M @k
            e[r * M + k] = exp_f32(x[r * M + k] - m[r]);
            s_sum += (double)e[r * M + k];
        }
        s[r] = (float)((double)s[r] + s_sum);
        for (int64_t l = 0; l < M; l++) {  // M @l
            y[r * M + l] = e[r * M + l] / s[r];
        }
    }

    free(s);
    free(e);
    free(m);
    return 0;
}
