// kernel embedding(N, V, D)
// in  ids: i64[N]
// in  w: f32[V, D]
// out y: f32[N, D]
//
// Returns 0 when done, 2 when an index of w[ids[{0}], {1}] was out of bounds.
// Compile with: cc -std=c11 -O3 -march=rv64gcv -ffp-contract=off -fno-math-errno -fopenmp

#include <riscv_vector.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int32_t embedding(const int64_t *restrict ids, const float *restrict w, float *restrict y,
                  int64_t N, int64_t V, int64_t D)
{
    int32_t status = 0;

    #pragma omp parallel for schedule(static) reduction(max : status)
    for (int64_t i = 0; i < N; i++) {  // N : p @i
        for (int64_t d = 0, vl; d < D; d += vl) {  // D : v @d
            vl = (int64_t)__riscv_vsetvl_e32m2((size_t)(D - d));
            const int64_t ids_index = ids[i];
            const bool ids_outside = ids_index < 0 || ids_index >= V;
            if (ids_outside) status = 2;
            __riscv_vse32_v_f32m2(&y[i * D + d],
                                  __riscv_vle32_v_f32m2(&w[(ids_outside ? 0 : ids_index) * D + d],
                                                        vl), vl);
        }
    }

    return status;
}
