"""CUDA text for the harness: kernels by hand that are right, and the same mistakes that a lowering could make."""

from __future__ import annotations

HELPERS = """
#define FULL (~0ull)
static __device__ __forceinline__ float warp_sum(float v) {
  for (int d = warpSize / 2; d > 0; d /= 2) v += __shfl_xor_sync(FULL, v, d);
  return v;
}
static __device__ __forceinline__ float warp_max(float v) {
  for (int d = warpSize / 2; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(FULL, v, d));
  return v;
}
"""

KERNELS = (
    HELPERS
    + r"""
// A row a block, four elements an access, kept in registers; a maximum and a sum over the block.
extern "C" __global__ __launch_bounds__(128) void softmax(const float *__restrict__ x, float *__restrict__ y,
                                                          int M) {
  __shared__ float highest[4];
  __shared__ float total[4];
  const int t = threadIdx.x, lane = t % warpSize, w = t / warpSize, warps = blockDim.x / warpSize;
  const float4 *from = (const float4 *)(x + (long long)blockIdx.x * M);
  float4 *to = (float4 *)(y + (long long)blockIdx.x * M);
  float4 e[2];
  float m = __int_as_float(0xff800000), s = 0;
#pragma unroll
  for (int k = 0; k < 2; k++) {
    e[k] = from[k * 128 + t];
    m = fmaxf(fmaxf(fmaxf(e[k].x, e[k].y), fmaxf(e[k].z, e[k].w)), m);
  }
  m = warp_max(m);
  if (lane == 0) highest[w] = m;
  __syncthreads();
  for (int k = 0; k < warps; k++) m = fmaxf(m, highest[k]);
#pragma unroll
  for (int k = 0; k < 2; k++) {
    e[k] = make_float4(__expf(e[k].x - m), __expf(e[k].y - m), __expf(e[k].z - m), __expf(e[k].w - m));
    s += e[k].x + e[k].y + e[k].z + e[k].w;
  }
  s = warp_sum(s);
  if (lane == 0) total[w] = s;
  __syncthreads();
  s = 0;
  for (int k = 0; k < warps; k++) s += total[k];
  const float r = __fdividef(1.0f, s);
#pragma unroll
  for (int k = 0; k < 2; k++) to[k * 128 + t] = make_float4(e[k].x * r, e[k].y * r, e[k].z * r, e[k].w * r);
}

// A row a block of any length; one array in shared memory serves both collectives, so a barrier stands between.
extern "C" __global__ void layernorm(const float *__restrict__ x, const float *__restrict__ g,
                                     const float *__restrict__ b, float *__restrict__ y, int M) {
  __shared__ float part[8];
  const int t = threadIdx.x, lane = t % warpSize, w = t / warpSize, warps = blockDim.x / warpSize;
  const float *row = x + (long long)blockIdx.x * M;
  float s = 0, q = 0;
  for (int j = t; j < M; j += blockDim.x) s += row[j];
  s = warp_sum(s);
  if (lane == 0) part[w] = s;
  __syncthreads();
  s = 0;
  for (int k = 0; k < warps; k++) s += part[k];
  const float mean = s / M;
  for (int j = t; j < M; j += blockDim.x) q = fmaf(row[j] - mean, row[j] - mean, q);
  q = warp_sum(q);
  __syncthreads();
  if (lane == 0) part[w] = q;
  __syncthreads();
  q = 0;
  for (int k = 0; k < warps; k++) q += part[k];
  const float r = rsqrtf(q / M + 1e-5f);
  for (int j = t; j < M; j += blockDim.x) y[(long long)blockIdx.x * M + j] = (row[j] - mean) * r * g[j] + b[j];
}

// Scans of a warp by shuffles, of the block over its warps, block after block of the row.
extern "C" __global__ void cumsum(const float *__restrict__ x, float *__restrict__ y, int M) {
  __shared__ float sums[8];
  const int t = threadIdx.x, lane = t % warpSize, w = t / warpSize, warps = blockDim.x / warpSize;
  float before = 0;
  for (int first = 0; first < M; first += blockDim.x) {
    const int j = first + t;
    float v = j < M ? x[(long long)blockIdx.x * M + j] : 0.0f;
    for (int d = 1; d < warpSize; d *= 2) {
      const float left = __shfl_up_sync(FULL, v, d);
      if (lane >= d) v += left;
    }
    if (lane == warpSize - 1) sums[w] = v;
    __syncthreads();
    float all = 0;
    for (int k = 0; k < warps; k++) {
      if (k < w) v += sums[k];
      all += sums[k];
    }
    if (j < M) y[(long long)blockIdx.x * M + j] = before + v;
    before += all;
    __syncthreads();
  }
}

extern "C" __global__ void transpose(const float *__restrict__ x, float *__restrict__ y, int N, int M) {
  __shared__ float tile[32][33];
  const int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 32 + threadIdx.x;
  for (int r = threadIdx.y; r < 32; r += blockDim.y) {
    const int row = blockIdx.y * 32 + r;
    if (row < N && j < M) tile[r][threadIdx.x] = x[row * M + j];
  }
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += blockDim.y) {
    const int column = blockIdx.x * 32 + r;
    if (column < M && i < N) y[column * N + i] = tile[threadIdx.x][r];
  }
}

// 32×32 of C a block, tiles in dynamic shared memory, 4 elements a thread.
extern "C" __global__ void matmul(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                                  int K, int M) {
  extern __shared__ __align__(16) float tiles[];
  float *sa = tiles, *sb = tiles + 16 * 33;
  const int t = threadIdx.x, tx = t % 32, ty = t / 32;
  float acc[4] = {};
  for (int k0 = 0; k0 < K; k0 += 16) {
    for (int f = t; f < 512; f += 256) {
      sa[f % 16 * 33 + f / 16] = a[(blockIdx.y * 32 + f / 16) * K + k0 + f % 16];
      sb[f] = b[(k0 + f / 32) * M + blockIdx.x * 32 + f % 32];
    }
    __syncthreads();
    for (int k = 0; k < 16; k++)
#pragma unroll
      for (int r = 0; r < 4; r++) acc[r] = fmaf(sa[k * 33 + ty + 8 * r], sb[k * 32 + tx], acc[r]);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; r++) c[(blockIdx.y * 32 + ty + 8 * r) * M + blockIdx.x * 32 + tx] = acc[r];
}
"""
)

PLANTED = (
    HELPERS
    + r"""
// The sum comes out right: warps run one after the other here.
extern "C" __global__ void no_barrier(const float *x, float *y) {
  __shared__ float part[8];
  const int t = threadIdx.x;
  const float s = warp_sum(x[t]);
  if (t % warpSize == 0) part[t / warpSize] = s;
  if (t == blockDim.x - 1) {
    float all = 0;
    for (int k = 0; k < blockDim.x / warpSize; k++) all += part[k];
    y[0] = all;
  }
}
extern "C" __global__ void tree(const float *x, float *y) {
  __shared__ float part[128];
  const int t = threadIdx.x;
  part[t] = x[t];
  __syncthreads();
  for (int d = 64; d > 0; d /= 2)
    if (t < d) part[t] += part[t + d];
  if (t == 0) y[0] = part[0];
}
// Shuffles pass values and order no memory.
extern "C" __global__ void shuffle_as_barrier(const float *x, float *y) {
  __shared__ float part[32];
  const int t = threadIdx.x;
  part[t] = x[t];
  const float other = __shfl_xor_sync(0xffffffffull, x[t], 1);
  y[t] = part[t ^ 1] + other;
}
extern "C" __global__ void barrier_in_branch(float *y) {
  if (threadIdx.x < 16) __syncthreads();
  y[threadIdx.x] = 1;
}
extern "C" __global__ void two_barriers(float *y) {
  if (threadIdx.x < 64) {
    y[threadIdx.x] = 1;
    __syncthreads();
  } else {
    y[threadIdx.x] = 2;
    __syncthreads();
  }
}
extern "C" __global__ void half_warp(float *y) {
  float v = 1;
  if (threadIdx.x < 16) v += __shfl_xor_sync(FULL, v, 1);
  y[threadIdx.x] = v;
}
extern "C" __global__ void two_shuffles(float *y) {
  float v = 1;
  if (threadIdx.x % 2)
    v += __shfl_xor_sync(FULL, v, 1);
  else
    v -= __shfl_xor_sync(FULL, v, 1);
  y[threadIdx.x] = v;
}
extern "C" __global__ void other_mask(float *y) {
  float v = 1;
  v += __shfl_sync(0xffffull, v, 0);
  y[threadIdx.x] = v;
}
extern "C" __global__ void absent_lane(float *y) {
  float v = 1;
  if (threadIdx.x < 16) v += __shfl_sync(0xffffull, v, 20);
  y[threadIdx.x] = v;
}
extern "C" __global__ void hip_absent_lane(float *y) {
  float v = 1;
  if (threadIdx.x < 16) v += __shfl_xor(v, 16);
  y[threadIdx.x] = v;
}
extern "C" __global__ void never_written(float *y) {
  __shared__ float part[32];
  if (threadIdx.x < 8) part[threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = part[threadIdx.x];
}
extern "C" __global__ void added_to_nothing(float *y) {
  __shared__ float part[32];
  part[threadIdx.x] += 1;
  y[threadIdx.x] = part[threadIdx.x];
}
extern "C" __global__ void from_last_block(float *y) {
  __shared__ float part[32];
  if (blockIdx.x == 0) part[threadIdx.x] = 1;
  __syncthreads();
  y[blockIdx.x * 32 + threadIdx.x] = part[threadIdx.x];
}
extern "C" __global__ void two_blocks(float *y) { y[threadIdx.x] = blockIdx.x; }
extern "C" __global__ void read_other_block(float *y) {
  const float v = y[(blockIdx.x * 32 + threadIdx.x + 32) % 64];
  y[blockIdx.x * 32 + threadIdx.x] = v + 1;
}
extern "C" __global__ void atomic_and_plain(float *y) {
  if (threadIdx.x == 0)
    y[0] = 1;
  else
    atomicAdd(&y[0], 1.0f);
}
extern "C" __global__ void restricted_before(float *__restrict__ y) {
  if (threadIdx.x == 0) y[0] = 1;
  __syncthreads();
  y[threadIdx.x + 1] = y[0];
}
extern "C" __global__ void restricted_behind(float *__restrict__ y) {
  y[threadIdx.x + 1] = y[0];
  __syncthreads();
  if (threadIdx.x == 5) y[0] = 1;
}
extern "C" __global__ void restricted_read_by_both(float *__restrict__ y) {
  y[threadIdx.x + 2] = y[0];
  __syncthreads();
  if (threadIdx.x == 31) y[1] = y[0] + 1;
  __syncthreads();
  if (threadIdx.x == 31) y[0] = 2;
}
extern "C" __global__ void restricted_written_twice(float *__restrict__ y) {
  if (threadIdx.x == 0) y[0] = 1;
  __syncthreads();
  if (threadIdx.x == 1) y[0] = 2;
}
extern "C" __global__ void restricted_atomic(float *__restrict__ y) {
  if (threadIdx.x == 0) atomicAdd(y, 1.0f);
}
extern "C" __global__ void beyond(float *y, int n) {
  if (threadIdx.x == 0) ((float4 *)(y + n))[0] = make_float4(0, 0, 0, 0);
}
extern "C" __global__ void across_the_end(float *y, int n) {
  struct __align__(4) four { float at[4]; };
  if (threadIdx.x == 0) *(four *)(y + n - 2) = four{{1, 2, 3, 4}};
}
extern "C" __global__ void before(const float *x, float *y) { y[threadIdx.x] = x[(int)threadIdx.x - 1]; }
extern "C" __global__ void far_out(const float *x, float *y) { y[threadIdx.x] = x[3000000000ll + threadIdx.x]; }
extern "C" __global__ void null_pointer(const float *x, float *y) {
  y[threadIdx.x] = ((const float *)0)[threadIdx.x];
}
extern "C" __global__ void beyond_shared(float *y, int n) {
  __shared__ float part[32];
  __shared__ float next[32];
  float *p = &part[0];
  p[threadIdx.x + n] = 1;
  next[threadIdx.x] = 1;
  y[threadIdx.x] = p[threadIdx.x + n] + next[threadIdx.x];
}
extern "C" __global__ void beyond_dynamic(float *y) {
  extern __shared__ float part[];
  part[threadIdx.x + 1] = 1;
  y[threadIdx.x] = part[threadIdx.x + 1];
}
extern "C" __global__ void beyond_register(float *y, int n) {
  float r[4] = {};
  for (int k = 0; k < n; k++) r[k] += y[k];
  y[threadIdx.x] = r[0] + r[threadIdx.x % 4];
}
extern "C" __global__ void misaligned(float *y) {
  float4 *wide = (float4 *)(y + 1);
  if (threadIdx.x == 0) wide->x = wide->y + 1;
}
extern "C" __global__ void offset_overflow(float *y, int n) { y[threadIdx.x] = (n + (int)threadIdx.x) > 0; }
extern "C" __global__ void stack_overflow(float *y, int n) {
  volatile float big[100000];
  for (int k = 0; k < 100000; k += 100) big[k] = n;
  y[threadIdx.x] = big[n];
}
extern "C" __global__ void hang(volatile float *y) {
  while (y[0] == 0) {}
}
"""
)

FINE = (
    HELPERS
    + r"""
extern "C" __global__ void add_all(float *y, unsigned *most, unsigned long long *count) {
  atomicAdd(&y[0], 1.0f);
  atomicMax(most, blockIdx.x * blockDim.x + threadIdx.x);
  atomicAdd(count, 2ull);
}
// Two groups of lanes, each at its own pace, with masks of their own; __syncwarp orders the shared memory.
extern "C" __global__ void groups(const float *x, float *y) {
  __shared__ float part[64];
  const int t = threadIdx.x, g = t / 16;
  const unsigned long long mask = 0xffffull << (g * 16) % warpSize;
  float s = x[t];
  for (int d = 8; d > 0; d /= 2) s += __shfl_xor_sync(mask, s, d, 16);
  for (int k = 0; k <= g; k++) {
    part[t] = s + k;
    __syncwarp(mask);
    s = part[g * 16 + (t + 1) % 16] - k;
    __syncwarp(mask);
  }
  y[t] = s;
}
// Bytes that lie side by side belong to different threads.
extern "C" __global__ void bytes(const unsigned char *x, unsigned char *y) {
  __shared__ unsigned char part[64];
  part[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = part[63 - threadIdx.x];
}
extern "C" __global__ void votes(const int *x, unsigned long long *y) {
  const unsigned long long b = __ballot_sync(FULL, x[threadIdx.x] > 0);
  const bool any = __any_sync(FULL, x[threadIdx.x] > 5), all = __all_sync(FULL, x[threadIdx.x] >= 0);
  if (threadIdx.x == 0) y[0] = b, y[1] = any, y[2] = all;
}
// As AMD's hardware runs it: lanes that diverged meet again.
extern "C" __global__ void lockstep(const float *x, float *y) {
  float v = x[threadIdx.x];
  if (threadIdx.x < 16) v += __shfl_xor(v, 1);
  v += __shfl_xor(v, 16);
  y[threadIdx.x] = v;
}
extern "C" __global__ void indices(int *y) {
  const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  y[b * blockDim.x * blockDim.y * blockDim.z + t] = b * 1000 + t;
}
extern "C" __global__ void scale(double *y, double by, signed char from, unsigned short count) {
  const int t = threadIdx.x;
  if (t >= from && t < count) y[t] *= by;
}
"""
)
