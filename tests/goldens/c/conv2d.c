// kernel conv2d(N, C, O, H, W, KH, KW, stride = 1, pad = 0, dilation = 1)
// where H >= KH, W >= KW
// in  x: f32[N, C, H, W]
// in  f: f32[O, C, KH, KW]
// out y: f32[N, O, H - KH + 1, W - KW + 1]
//
// Returns 0 when done.
// Compile with: cc -std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -fopenmp

#include <stdint.h>

#if !defined(__GNUC__) || defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

int32_t conv2d(const float *restrict x, const float *restrict f, float *restrict y, int64_t N,
               int64_t C, int64_t O, int64_t H, int64_t W, int64_t KH, int64_t KW)
{
    for (int64_t n = 0; n < N; n++) {  // N @n
        for (int64_t o = 0; o < O; o++) {  // O @o
            for (int64_t h = 0; h < H - KH + 1; h++) {  // H - KH + 1 @h
                for (int64_t w = 0; w < W - KW + 1; w++) {  // W - KW + 1 @w
                    y[((n * O + o) * (H - KH + 1) + h) * (W - KW + 1) + w] = 0.0f;
                    double y_sum = -0.0;
                    for (int64_t c = 0; c < C; c++) {  // C @c
                        for (int64_t p = 0; p < KH; p++) {  // KH @p
                            if (h + p >= 0 && h + p < H) {  // if {h} + {p} >= 0 and {h} + {p} < H
                                for (int64_t q = 0; q < KW; q++) {  // KW @q
                                    // if {w} + {q} >= 0 and {w} + {q} < W
                                    if (w + q >= 0 && w + q < W) {
                                        y_sum += (double)(x[((n * C + c) * H + h + p) * W + w + q]
                                                          * f[((o * C + c) * KH + p) * KW + q]);
                                    }
                                }
                            }
                        }
                    }
                    y[((n * O + o) * (H - KH + 1) + h) * (W - KW + 1) + w] =
                            (float)((double)y[((n * O + o) * (H - KH + 1) + h) * (W - KW + 1) + w]
                                    + y_sum);
                }
            }
        }
    }

    return 0;
}
