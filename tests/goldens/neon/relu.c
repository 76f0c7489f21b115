// kernel relu(N)
// in  x: f32[N]
// out y: f32[N]
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -ffp-contract=off -fno-math-errno -fopenmp

#include <arm_neon.h>
#include <math.h>
#include <stdint.h>

// the larger one, b where either is NaN
static inline float larger_f32(float a, float b)
{
    return a > b ? a : b;
}

int32_t relu(const float *restrict x, float *restrict y, int64_t N)
{
    const int64_t rest = N - N % 8;

    for (int64_t i = 0; i < rest; i += 8) {  // N : v @i
        const float32x4_t x0 = vld1q_f32(&x[i]);
        vst1q_f32(&y[i], vabsq_f32(vmaxq_f32(vdupq_n_f32(0.0f), x0)));
        const float32x4_t x1 = vld1q_f32(&x[i + 4]);
        vst1q_f32(&y[i + 4], vabsq_f32(vmaxq_f32(vdupq_n_f32(0.0f), x1)));
    }

    const int64_t last = N - N % 4;

    for (int64_t i = rest; i < last; i += 4) {  // N : v @i
        const float32x4_t x2 = vld1q_f32(&x[i]);
        vst1q_f32(&y[i], vabsq_f32(vmaxq_f32(vdupq_n_f32(0.0f), x2)));
    }

    for (int64_t i = last; i < N; i++) {  // N : v @i
        y[i] = fabsf(larger_f32(0.0f, x[i]));
    }

    return 0;
}
