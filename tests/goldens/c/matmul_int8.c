// kernel matmul_int8(N, M, K)
// in  a: i8[N, K]
// in  b: i8[K, M]
// in  sa: f32[N]
// in  sb: f32[M]
// out y: f32[N, M]
// tmp acc: i32[N, M]
//
// Returns 0 when done, 1 when memory ran out.
// Compile with: cc -std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -fopenmp

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

// a * b for numbers of elements, and more than any memory holds where that does not fit
static inline int64_t product(int64_t a, int64_t b)
{
    const int64_t many = INT64_MAX / 2;
    return a > 0 && b > many / a ? many : a * b;
}

// a + b, wrapping around
static inline int32_t add_i32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

int32_t matmul_int8(const int8_t *restrict a, const int8_t *restrict b, const float *restrict sa,
                    const float *restrict sb, float *restrict y, int64_t N, int64_t M, int64_t K)
{
    int32_t *restrict acc = allocate(product(N, M), sizeof(int32_t), 64);
    if (acc == NULL) {
        return 1;
    }

    for (int64_t i = 0; i < N; i++) {  // N @i
        for (int64_t j = 0; j < M; j++) {  // M @j
            acc[i * M + j] = 0;
            for (int64_t k = 0; k < K; k++) {  // K @k
                acc[i * M + j] =
                        add_i32(acc[i * M + j], (int32_t)a[i * K + k] * (int32_t)b[k * M + j]);
            }
            y[i * M + j] = sa[i] * sb[j] * (float)acc[i * M + j];
        }
    }

    free(acc);
    return 0;
}
