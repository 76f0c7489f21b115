// kernel relu(N)
// in  x: f32[N]
// out y: f32[N]
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -march=armv8.2-a+sve -ffp-contract=off -fno-math-errno -fopenmp

#include <arm_sve.h>
#include <stdint.h>

int32_t relu(const float *restrict x, float *restrict y, int64_t N)
{
    for (int64_t i = 0; i < N; i += (int64_t)svcntw()) {  // N : v @i
        const svbool_t pg = svwhilelt_b32_s64(i, N);
        const svfloat32_t x0 = svld1_f32(pg, &x[i]);
        svst1_f32(pg, &y[i], svabs_f32_x(pg, svmax_f32_x(pg, svdup_n_f32(0.0f), x0)));
    }

    return 0;
}
