// The arithmetic that CUDA and HIP have without an include.
#pragma once

#define SIMT_ONE(name) \
  inline float name##f(float x) { return __builtin_##name##f(x); } \
  inline double name(double x) { return __builtin_##name(x); } \
  inline float name(float x) { return __builtin_##name##f(x); }
#define SIMT_TWO(name) \
  inline float name##f(float x, float y) { return __builtin_##name##f(x, y); } \
  inline double name(double x, double y) { return __builtin_##name(x, y); } \
  inline float name(float x, float y) { return __builtin_##name##f(x, y); }
SIMT_ONE(sqrt) SIMT_ONE(exp) SIMT_ONE(exp2) SIMT_ONE(expm1) SIMT_ONE(log) SIMT_ONE(log2) SIMT_ONE(log10)
SIMT_ONE(log1p) SIMT_ONE(sin) SIMT_ONE(cos) SIMT_ONE(tan) SIMT_ONE(asin) SIMT_ONE(acos) SIMT_ONE(atan)
SIMT_ONE(sinh) SIMT_ONE(cosh) SIMT_ONE(tanh) SIMT_ONE(erf) SIMT_ONE(erfc) SIMT_ONE(cbrt) SIMT_ONE(floor)
SIMT_ONE(ceil) SIMT_ONE(trunc) SIMT_ONE(round) SIMT_ONE(rint) SIMT_ONE(nearbyint) SIMT_ONE(fabs)
SIMT_TWO(pow) SIMT_TWO(fmod) SIMT_TWO(fmax) SIMT_TWO(fmin) SIMT_TWO(copysign) SIMT_TWO(atan2) SIMT_TWO(hypot)
inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
inline double ldexp(double x, int n) { return __builtin_ldexp(x, n); }
inline float rsqrtf(float x) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x))); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline int abs(int x) { return x < 0 ? -x : x; }
inline long long llabs(long long x) { return x < 0 ? -x : x; }
inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }

#define SIMT_ORDER(type) \
  inline type min(type x, type y) { return y < x ? y : x; } \
  inline type max(type x, type y) { return x < y ? y : x; }
SIMT_ORDER(int) SIMT_ORDER(unsigned) SIMT_ORDER(long) SIMT_ORDER(unsigned long) SIMT_ORDER(long long)
SIMT_ORDER(unsigned long long)
inline float min(float x, float y) { return __builtin_fminf(x, y); }
inline float max(float x, float y) { return __builtin_fmaxf(x, y); }
inline double min(double x, double y) { return __builtin_fmin(x, y); }
inline double max(double x, double y) { return __builtin_fmax(x, y); }

// The fast functions of the hardware, here at full precision: within any bound that is stated for them.
inline float __expf(float x) { return __builtin_expf(x); }
inline float __exp10f(float x) { return __builtin_powf(10.0f, x); }
inline float __logf(float x) { return __builtin_logf(x); }
inline float __log2f(float x) { return __builtin_log2f(x); }
inline float __sinf(float x) { return __builtin_sinf(x); }
inline float __cosf(float x) { return __builtin_cosf(x); }
inline float __powf(float x, float y) { return __builtin_powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }

inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(__builtin_rintf(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }

inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(static_cast<unsigned long long>(x) * y >> 32);
}
inline int __mulhi(int x, int y) { return static_cast<int>(static_cast<long long>(x) * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(x) * y >> 64);
}
