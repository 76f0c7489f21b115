// kernel softmax(N, M)
// in  x: f32[N, M]
// out y: f32[N, M]
// tmp m: f32[N~]
// tmp e: f32[N~, M]
// tmp s: f32[N~]
//
// Returns 0 when done, 1 when memory ran out.
// Compile with: cc -std=c11 -O3 -mavx2 -mf16c -mfma -mno-avx512f -ffp-contract=off -fno-math-errno -fopenmp

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

// the larger one, NaN if either is; -0 is below +0
static inline float max_f32(float a, float b)
{
    return a > b ? a : b > a ? b : a == b && a != 0 ? a : a + b;
}

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

// all lanes of a: max
static inline float reduce_max_f32x4(__m128 a)
{
    float as[4];
    _mm_storeu_ps(as, a);
    for (int n = 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            as[i] = max_f32(as[i], as[i + n]);
    return as[0];
}

// all lanes of a: add
static inline float reduce_add_f32x4(__m128 a)
{
    float as[4];
    _mm_storeu_ps(as, a);
    for (int n = 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            as[i] = as[i] + as[i + n];
    return as[0];
}

// the larger one, NaN if either is; -0 is below +0
static inline __m256 max_f32x8(__m256 a, __m256 b)
{
    const __m256i one = _mm256_castps_si256(_mm256_max_ps(a, b));
    const __m256i two = _mm256_castps_si256(_mm256_max_ps(b, a));
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_and_si256(one, two),
                                               _mm256_and_si256(_mm256_or_si256(one, two),
                                                                _mm256_set1_epi32(0x7fffffffU))));
}

// the larger one, NaN if either is; -0 is below +0
static inline __m128 max_f32x4(__m128 a, __m128 b)
{
    const __m128i one = _mm_castps_si128(_mm_max_ps(a, b));
    const __m128i two = _mm_castps_si128(_mm_max_ps(b, a));
    return _mm_castsi128_ps(_mm_or_si128(_mm_and_si128(one, two),
                                         _mm_and_si128(_mm_or_si128(one, two),
                                                       _mm_set1_epi32(0x7fffffffU))));
}

// all lanes of a: max
static inline float reduce_max_f32x8(__m256 a)
{
    const __m128 low = _mm256_castps256_ps128(a);
    const __m128 high = _mm256_extractf128_ps(a, 1);
    return reduce_max_f32x4(max_f32x4(low, high));
}

// exp x, within 0.9 ulp
static inline __m256 exp_f32x8(__m256 x)
{
    const __m256 clamped =
            _mm256_min_ps(_mm256_set1_ps(89.0f), _mm256_max_ps(_mm256_set1_ps(-104.0f), x));
    const __m256 t =
            _mm256_fmadd_ps(clamped, _mm256_set1_ps(1.442695f), _mm256_set1_ps(12583166.0f));
    const __m256 n = _mm256_sub_ps(t, _mm256_set1_ps(12583166.0f));
    const __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-1.4286068e-6f),
                                     _mm256_fmadd_ps(n, _mm256_set1_ps(-0.69314575f), clamped));
    const __m256i k = _mm256_castps_si256(t);
    __m256 p = _mm256_fmadd_ps(r, _mm256_set1_ps(0.0013814569f), _mm256_set1_ps(0.0083687445f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.04166839f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.16666521f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.49999994f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    const __m256 power = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    const __m256i first = _mm256_slli_epi32(_mm256_srli_epi32(k, 1), 23);
    return _mm256_mul_ps(_mm256_mul_ps(power, _mm256_castsi256_ps(first)),
                         _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_slli_epi32(k, 23), first)));
}

// all lanes of a: add
static inline float reduce_add_f32x8(__m256 a)
{
    const __m128 low = _mm256_castps256_ps128(a);
    const __m128 high = _mm256_extractf128_ps(a, 1);
    return reduce_add_f32x4(_mm_add_ps(low, high));
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
            const int64_t rest = M - M % 32;
            if (0 < rest) {
                __m256 m_max0 = _mm256_set1_ps(-INFINITY);
                __m256 m_max1 = _mm256_set1_ps(-INFINITY);
                __m256 m_max2_ = _mm256_set1_ps(-INFINITY);
                __m256 m_max3 = _mm256_set1_ps(-INFINITY);
                for (int64_t i1 = 0; i1 < rest; i1 += 32) {  // M : v @i1
                    const __m256 x0 = _mm256_loadu_ps(&x[i0 * M + i1]);
                    m_max0 = max_f32x8(x0, m_max0);
                    const __m256 x1 = _mm256_loadu_ps(&x[i0 * M + i1 + 8]);
                    m_max1 = max_f32x8(x1, m_max1);
                    const __m256 x2 = _mm256_loadu_ps(&x[i0 * M + i1 + 16]);
                    m_max2_ = max_f32x8(x2, m_max2_);
                    const __m256 x3 = _mm256_loadu_ps(&x[i0 * M + i1 + 24]);
                    m_max3 = max_f32x8(x3, m_max3);
                }
                m = max_f32(m,
                            reduce_max_f32x8(max_f32x8(max_f32x8(m_max0, m_max2_),
                                                       max_f32x8(m_max1, m_max3))));
            }
            const int64_t last = M - M % 8;
            if (rest < last) {
                __m256 m_max2 = _mm256_set1_ps(-INFINITY);
                for (int64_t i1 = rest; i1 < last; i1 += 8) {  // M : v @i1
                    const __m256 x4 = _mm256_loadu_ps(&x[i0 * M + i1]);
                    m_max2 = max_f32x8(x4, m_max2);
                }
                m = max_f32(m, reduce_max_f32x8(m_max2));
            }
            for (int64_t i1 = last; i1 < M; i1++) {  // M : v @i1
                m = max_f32(m, x[i0 * M + i1]);
            }
            float s = 0.0f;
            const int64_t rest2 = M - M % 32;
            if (0 < rest2) {
                __m256 s_sum0 = _mm256_set1_ps(-0.0f);
                __m256 s_sum1 = _mm256_set1_ps(-0.0f);
                __m256 s_sum2_ = _mm256_set1_ps(-0.0f);
                __m256 s_sum3 = _mm256_set1_ps(-0.0f);
                for (int64_t i1 = 0; i1 < rest2; i1 += 32) {  // M : v @i1
                    const __m256 x5 = _mm256_loadu_ps(&x[i0 * M + i1]);
                    const __m256 e0 = exp_f32x8(_mm256_sub_ps(x5, _mm256_set1_ps(m)));
                    _mm256_storeu_ps(&e[i1], e0);
                    const __m256 x6 = _mm256_loadu_ps(&x[i0 * M + i1 + 8]);
                    const __m256 e1 = exp_f32x8(_mm256_sub_ps(x6, _mm256_set1_ps(m)));
                    _mm256_storeu_ps(&e[i1 + 8], e1);
                    const __m256 x7 = _mm256_loadu_ps(&x[i0 * M + i1 + 16]);
                    const __m256 e2 = exp_f32x8(_mm256_sub_ps(x7, _mm256_set1_ps(m)));
                    _mm256_storeu_ps(&e[i1 + 16], e2);
                    const __m256 x8 = _mm256_loadu_ps(&x[i0 * M + i1 + 24]);
                    const __m256 e3 = exp_f32x8(_mm256_sub_ps(x8, _mm256_set1_ps(m)));
                    _mm256_storeu_ps(&e[i1 + 24], e3);
                    s_sum0 = _mm256_add_ps(s_sum0, e0);
                    s_sum1 = _mm256_add_ps(s_sum1, e1);
                    s_sum2_ = _mm256_add_ps(s_sum2_, e2);
                    s_sum3 = _mm256_add_ps(s_sum3, e3);
                }
                s += reduce_add_f32x8(_mm256_add_ps(_mm256_add_ps(s_sum0, s_sum2_),
                                                    _mm256_add_ps(s_sum1, s_sum3)));
            }
            const int64_t last2 = M - M % 8;
            if (rest2 < last2) {
                __m256 s_sum2 = _mm256_set1_ps(-0.0f);
                for (int64_t i1 = rest2; i1 < last2; i1 += 8) {  // M : v @i1
                    const __m256 x9 = _mm256_loadu_ps(&x[i0 * M + i1]);
                    const __m256 e4 = exp_f32x8(_mm256_sub_ps(x9, _mm256_set1_ps(m)));
                    _mm256_storeu_ps(&e[i1], e4);
                    s_sum2 = _mm256_add_ps(s_sum2, e4);
                }
                s += reduce_add_f32x8(s_sum2);
            }
            for (int64_t i1 = last2; i1 < M; i1++) {  // M : v @i1
                e[i1] = exp_f32(x[i0 * M + i1] - m);
                s += e[i1];
            }
            const int64_t rest3 = M - M % 8;
            for (int64_t i1 = 0; i1 < rest3; i1 += 8) {  // M : v @i1
                const __m256 e5 = _mm256_loadu_ps(&e[i1]);
                _mm256_storeu_ps(&y[i0 * M + i1], _mm256_div_ps(e5, _mm256_set1_ps(s)));
            }
            for (int64_t i1 = rest3; i1 < M; i1++) {  // M : v @i1
                y[i0 * M + i1] = e[i1] / s;
            }
        }
        free(e);
    }

    return status;
}
