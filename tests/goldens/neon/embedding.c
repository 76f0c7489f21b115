// kernel embedding(N, V, D)
// in  ids: i64[N]
// in  w: f32[V, D]
// out y: f32[N, D]
//
// Returns 0 when done, 2 when an index of w[ids[{0}], {1}] was out of bounds.
// Compile with: cc -std=c11 -O3 -ffp-contract=off -fno-math-errno -fopenmp

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>

int32_t embedding(const int64_t *restrict ids, const float *restrict w, float *restrict y,
                  int64_t N, int64_t V, int64_t D)
{
    int32_t status = 0;

    #pragma omp parallel for schedule(static) reduction(max : status)
    for (int64_t i = 0; i < N; i++) {  // N : p @i
        const int64_t rest = D - D % 8;
        for (int64_t d = 0; d < rest; d += 8) {  // D : v @d
            const int64_t ids_index = ids[i];
            const bool ids_outside = ids_index < 0 || ids_index >= V;
            if (ids_outside) status = 2;
            vst1q_f32(&y[i * D + d], vld1q_f32(&w[(ids_outside ? 0 : ids_index) * D + d]));
            vst1q_f32(&y[i * D + d + 4], vld1q_f32(&w[(ids_outside ? 0 : ids_index) * D + d + 4]));
        }
        const int64_t last = D - D % 4;
        for (int64_t d = rest; d < last; d += 4) {  // D : v @d
            const int64_t ids_index2 = ids[i];
            const bool ids_outside2 = ids_index2 < 0 || ids_index2 >= V;
            if (ids_outside2) status = 2;
            vst1q_f32(&y[i * D + d], vld1q_f32(&w[(ids_outside2 ? 0 : ids_index2) * D + d]));
        }
        for (int64_t d = last; d < D; d++) {  // D : v @d
            const int64_t ids_index3 = ids[i];
            const bool ids_outside3 = ids_index3 < 0 || ids_index3 >= V;
            if (ids_outside3) status = 2;
            y[i * D + d] = w[(ids_outside3 ? 0 : ids_index3) * D + d];
        }
    }

    return status;
}
