// kernel softmax(N, M)
// in  x: f32[N, M]
// out y: f32[N, M]
// tmp m: f32[N~]
// tmp e: f32[N~, M]
// tmp s: f32[N~]
//
// Returns 0 when done, 1 when memory ran out.
// Compile with: cc -std=c11 -O3 -mavx2 -mavx512bw -mavx512dq -mavx512f -mavx512vl -mbmi2 -mf16c -mfma -ffp-contract=off -fno-math-errno -fopenmp

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

// the larger one, NaN if either is; -0 is below +0
static inline float max_f32(float a, float b)
{
    return a > b ? a : b > a ? b : a == b && a != 0 ? a : a + b;
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

// the larger one, NaN if either is; -0 is below +0
static inline __m512 max_f32x16(__m512 a, __m512 b)
{
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(_mm512_max_ps(a, b)),
                                                         _mm512_castps_si512(_mm512_max_ps(b, a)),
                                                         _mm512_set1_epi32(0x7fffffff), 0xe8));
}

// the larger one, NaN if either is; -0 is below +0
static inline __m128 max_f32x4(__m128 a, __m128 b)
{
    return _mm_castsi128_ps(_mm_ternarylogic_epi32(_mm_castps_si128(_mm_max_ps(a, b)),
                                                   _mm_castps_si128(_mm_max_ps(b, a)),
                                                   _mm_set1_epi32(0x7fffffff), 0xe8));
}

// all lanes of a: max
static inline float reduce_max_f32x8(__m256 a)
{
    const __m128 low = _mm256_castps256_ps128(a);
    const __m128 high = _mm256_extractf128_ps(a, 1);
    return reduce_max_f32x4(max_f32x4(low, high));
}

// the larger one, NaN if either is; -0 is below +0
static inline __m256 max_f32x8(__m256 a, __m256 b)
{
    return _mm256_castsi256_ps(_mm256_ternarylogic_epi32(_mm256_castps_si256(_mm256_max_ps(a, b)),
                                                         _mm256_castps_si256(_mm256_max_ps(b, a)),
                                                         _mm256_set1_epi32(0x7fffffff), 0xe8));
}

// all lanes of a: max
static inline float reduce_max_f32x16(__m512 a)
{
    const __m256 low = _mm512_castps512_ps256(a);
    const __m256 high = _mm512_extractf32x8_ps(a, 1);
    return reduce_max_f32x8(max_f32x8(low, high));
}

// exp x, within 0.9 ulp
static inline __m512 exp_f32x16(__m512 x)
{
    const __m512 clamped =
            _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-104.0f), x));
    const __m512 t =
            _mm512_fmadd_ps(clamped, _mm512_set1_ps(1.442695f), _mm512_set1_ps(12583166.0f));
    const __m512 n = _mm512_sub_ps(t, _mm512_set1_ps(12583166.0f));
    const __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-1.4286068e-6f),
                                     _mm512_fmadd_ps(n, _mm512_set1_ps(-0.69314575f), clamped));
    const __m512i k = _mm512_castps_si512(t);
    __m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(0.0013814569f), _mm512_set1_ps(0.0083687445f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.04166839f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.16666521f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.49999994f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    const __m512 power = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(power,
                            _mm512_sub_ps(_mm512_castsi512_ps(k), _mm512_set1_ps(12583166.0f)));
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
            const int64_t rest = M - M % 64;
            if (0 < rest) {
                __m512 m_max0 = _mm512_set1_ps(-INFINITY);
                __m512 m_max1 = _mm512_set1_ps(-INFINITY);
                __m512 m_max2_ = _mm512_set1_ps(-INFINITY);
                __m512 m_max3 = _mm512_set1_ps(-INFINITY);
                for (int64_t i1 = 0; i1 < rest; i1 += 64) {  // M : v @i1
                    const __m512 x0 = _mm512_loadu_ps(&x[i0 * M + i1]);
                    m_max0 = max_f32x16(x0, m_max0);
                    const __m512 x1 = _mm512_loadu_ps(&x[i0 * M + i1 + 16]);
                    m_max1 = max_f32x16(x1, m_max1);
                    const __m512 x2 = _mm512_loadu_ps(&x[i0 * M + i1 + 32]);
                    m_max2_ = max_f32x16(x2, m_max2_);
                    const __m512 x3 = _mm512_loadu_ps(&x[i0 * M + i1 + 48]);
                    m_max3 = max_f32x16(x3, m_max3);
                }
                m = max_f32(m,
                            reduce_max_f32x16(max_f32x16(max_f32x16(m_max0, m_max2_),
                                                         max_f32x16(m_max1, m_max3))));
            }
            if (rest < M) {
                const int64_t last = M - M % 16;
                __m512 m_max2 = _mm512_set1_ps(-INFINITY);
                for (int64_t i1 = rest; i1 < last; i1 += 16) {  // M : v @i1
                    const __m512 x4 = _mm512_loadu_ps(&x[i0 * M + i1]);
                    m_max2 = max_f32x16(x4, m_max2);
                }
                if (last < M) {
                    const __mmask16 active = (__mmask16)_bzhi_u32(0xffff, M - last);
                    const __m512 x5 = _mm512_maskz_loadu_ps(active, &x[i0 * M + last]);
                    m_max2 = _mm512_mask_blend_ps(active, m_max2, max_f32x16(x5, m_max2));
                }
                m = max_f32(m, reduce_max_f32x16(m_max2));
            }
            float s = 0.0f;
            const int64_t rest2 = M - M % 64;
            if (0 < rest2) {
                __m512 s_sum0 = _mm512_set1_ps(-0.0f);
                __m512 s_sum1 = _mm512_set1_ps(-0.0f);
                __m512 s_sum2_ = _mm512_set1_ps(-0.0f);
                __m512 s_sum3 = _mm512_set1_ps(-0.0f);
                for (int64_t i1 = 0; i1 < rest2; i1 += 64) {  // M : v @i1
                    const __m512 x6 = _mm512_loadu_ps(&x[i0 * M + i1]);
                    const __m512 e0 = exp_f32x16(_mm512_sub_ps(x6, _mm512_set1_ps(m)));
                    _mm512_storeu_ps(&e[i1], e0);
                    const __m512 x7 = _mm512_loadu_ps(&x[i0 * M + i1 + 16]);
                    const __m512 e1 = exp_f32x16(_mm512_sub_ps(x7, _mm512_set1_ps(m)));
                    _mm512_storeu_ps(&e[i1 + 16], e1);
                    const __m512 x8 = _mm512_loadu_ps(&x[i0 * M + i1 + 32]);
                    const __m512 e2 = exp_f32x16(_mm512_sub_ps(x8, _mm512_set1_ps(m)));
                    _mm512_storeu_ps(&e[i1 + 32], e2);
                    const __m512 x9 = _mm512_loadu_ps(&x[i0 * M + i1 + 48]);
                    const __m512 e3 = exp_f32x16(_mm512_sub_ps(x9, _mm512_set1_ps(m)));
                    _mm512_storeu_ps(&e[i1 + 48], e3);
                    s_sum0 = _mm512_add_ps(s_sum0, e0);
                    s_sum1 = _mm512_add_ps(s_sum1, e1);
                    s_sum2_ = _mm512_add_ps(s_sum2_, e2);
                    s_sum3 = _mm512_add_ps(s_sum3, e3);
                }
                s += _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s_sum0, s_sum2_),
                                                        _mm512_add_ps(s_sum1, s_sum3)));
            }
            if (rest2 < M) {
                const int64_t last2 = M - M % 16;
                __m512 s_sum2 = _mm512_set1_ps(-0.0f);
                for (int64_t i1 = rest2; i1 < last2; i1 += 16) {  // M : v @i1
                    const __m512 x10 = _mm512_loadu_ps(&x[i0 * M + i1]);
                    const __m512 e4 = exp_f32x16(_mm512_sub_ps(x10, _mm512_set1_ps(m)));
                    _mm512_storeu_ps(&e[i1], e4);
                    s_sum2 = _mm512_add_ps(s_sum2, e4);
                }
                if (last2 < M) {
                    const __mmask16 active2 = (__mmask16)_bzhi_u32(0xffff, M - last2);
                    const __m512 x11 = _mm512_maskz_loadu_ps(active2, &x[i0 * M + last2]);
                    _mm512_mask_storeu_ps(&e[last2], active2,
                                          exp_f32x16(_mm512_sub_ps(x11, _mm512_set1_ps(m))));
                    const __m512 e5 = _mm512_maskz_loadu_ps(active2, &e[last2]);
                    s_sum2 = _mm512_mask_blend_ps(active2, s_sum2, _mm512_add_ps(s_sum2, e5));
                }
                s += _mm512_reduce_add_ps(s_sum2);
            }
            const int64_t rest3 = M - M % 32;
            for (int64_t i1 = 0; i1 < rest3; i1 += 32) {  // M : v @i1
                const __m512 e6 = _mm512_loadu_ps(&e[i1]);
                _mm512_storeu_ps(&y[i0 * M + i1], _mm512_div_ps(e6, _mm512_set1_ps(s)));
                const __m512 e7 = _mm512_loadu_ps(&e[i1 + 16]);
                _mm512_storeu_ps(&y[i0 * M + i1 + 16], _mm512_div_ps(e7, _mm512_set1_ps(s)));
            }
            if (rest3 < M) {
                const int64_t last3 = M - M % 16;
                for (int64_t i1 = rest3; i1 < last3; i1 += 16) {  // M : v @i1
                    const __m512 e8 = _mm512_loadu_ps(&e[i1]);
                    _mm512_storeu_ps(&y[i0 * M + i1], _mm512_div_ps(e8, _mm512_set1_ps(s)));
                }
                if (last3 < M) {
                    const __mmask16 active3 = (__mmask16)_bzhi_u32(0xffff, M - last3);
                    const __m512 e9 = _mm512_maskz_loadu_ps(active3, &e[last3]);
                    _mm512_mask_storeu_ps(&y[i0 * M + last3], active3,
                                          _mm512_div_ps(e9, _mm512_set1_ps(s)));
                }
            }
        }
        free(e);
    }

    return status;
}
