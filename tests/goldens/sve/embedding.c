// kernel embedding(N, V, D)
// in  ids: i64[N]
// in  w: f32[V, D]
// out y: f32[N, D]
//
// Returns 0 when done, 2 when an index of w[ids[{0}], {1}] was out of bounds.
// Compile with: cc -std=c11 -O3 -march=armv8.2-a+sve -ffp-contract=off -fno-math-errno -fopenmp

#include <arm_sve.h>
#include <stdbool.h>
#include <stdint.h>

int32_t embedding(const int64_t *restrict ids, const float *restrict w, float *restrict y,
                  int64_t N, int64_t V, int64_t D)
{
    int32_t status = 0;

    #pragma omp parallel for schedule(static) reduction(max : status)
    for (int64_t i = 0; i < N; i++) {  // N : p @i
        for (int64_t d = 0; d < D; d += (int64_t)svcntw()) {  // D : v @d
            const svbool_t pg = svwhilelt_b32_s64(d, D);
            const int64_t ids_index = ids[i];
            const bool ids_outside = ids_index < 0 || ids_index >= V;
            if (ids_outside) status = 2;
            svst1_f32(pg, &y[i * D + d], svld1_f32(pg, &w[(ids_outside ? 0 : ids_index) * D + d]));
        }
    }

    return status;
}
