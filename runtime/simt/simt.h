// CUDA and HIP C++ as plain C++: included before the text of a kernel, which is compiled with -fsanitize=thread and
// linked with runtime.cpp in the place of that sanitizer's library. Includes nothing, as the text may not either.
#pragma once
#include "interface.h"

#define DOJOIR_HARNESS 1
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__
#define __restrict

// Shared memory is a section of its own. Before each array lie bytes that belong to none.
#define SIMT_JOINED_(a, b) a##b
#define SIMT_JOINED(a, b) SIMT_JOINED_(a, b)
#define SIMT_SHARED __attribute__((section("dojo_shared"), used))
#define __shared__ \
  static SIMT_SHARED char SIMT_JOINED(simt_guard_, __COUNTER__)[256]; \
  static SIMT_SHARED

// ---- where a thread is ------------------------------------------------------------------------------------------
struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
#define threadIdx (simt_thread_index())
#define blockIdx (simt_block_index())
#define blockDim (simt_block_size())
#define gridDim (simt_grid_size())
#define warpSize (static_cast<int>(simt_warp_size()))
#define __lane_id() (simt_lane())

// ---- vectors ----------------------------------------------------------------------------------------------------
#define SIMT_VECTORS(name, type, align2, align4) \
  struct name##1 { type x; }; \
  struct alignas(align2) name##2 { type x, y; }; \
  struct name##3 { type x, y, z; }; \
  struct alignas(align4) name##4 { type x, y, z, w; }; \
  inline name##1 make_##name##1(type x) { return {x}; } \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
SIMT_VECTORS(char, signed char, 2, 4)
SIMT_VECTORS(uchar, unsigned char, 2, 4)
SIMT_VECTORS(short, short, 4, 8)
SIMT_VECTORS(ushort, unsigned short, 4, 8)
SIMT_VECTORS(int, int, 8, 16)
SIMT_VECTORS(longlong, long long, 16, 16)
SIMT_VECTORS(ulonglong, unsigned long long, 16, 16)
SIMT_VECTORS(float, float, 8, 16)
SIMT_VECTORS(double, double, 16, 16)
struct uint1 { unsigned x; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- barriers, shuffles, ballots --------------------------------------------------------------------------------
#define SIMT_SITE(call) (__extension__({ static const simt_site at = {call, __LINE__}; &at; }))
#define __syncthreads() simt_block_barrier(SIMT_SITE("__syncthreads"))
#define __syncwarp(...) simt_sync_warp(SIMT_SITE("__syncwarp"), ##__VA_ARGS__)
#define __threadfence() ((void)0)
#define __threadfence_block() ((void)0)
#define __threadfence_system() ((void)0)
#define __builtin_amdgcn_s_barrier() simt_block_barrier(SIMT_SITE("s_barrier"))
#define __builtin_amdgcn_wave_barrier() simt_warp(SIMT_SYNC, 0, 0, 0, SIMT_SITE("wave_barrier"))
#define __builtin_amdgcn_fence(...) ((void)0)

inline void simt_sync_warp(const simt_site *site, unsigned long long mask = ~0ull) {
  simt_warp(SIMT_SYNC, mask, 0, 0, site);
}

template <class T> inline unsigned long long simt_bits(T v) {
  static_assert(sizeof(T) == 8 || sizeof(T) == 4 || sizeof(T) == 2 || sizeof(T) == 1, "1, 2, 4 or 8 bytes");
  if constexpr (sizeof(T) == 8) return __builtin_bit_cast(unsigned long long, v);
  else if constexpr (sizeof(T) == 4) return __builtin_bit_cast(unsigned, v);
  else if constexpr (sizeof(T) == 2) return __builtin_bit_cast(unsigned short, v);
  else return __builtin_bit_cast(unsigned char, v);
}
template <class T> inline T simt_value(unsigned long long bits) {
  if constexpr (sizeof(T) == 8) return __builtin_bit_cast(T, bits);
  else if constexpr (sizeof(T) == 4) return __builtin_bit_cast(T, static_cast<unsigned>(bits));
  else if constexpr (sizeof(T) == 2) return __builtin_bit_cast(T, static_cast<unsigned short>(bits));
  else return __builtin_bit_cast(T, static_cast<unsigned char>(bits));
}

// What the threads of a group have between them, `bytes` each: a warp or several. Every thread waits until all have
// come, and again until all are through: registers of another are read, which nothing checks.
static const void *simt_given[2048];
inline unsigned simt_me() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
template <unsigned G> inline bool simt_is_first() { return simt_me() % G == 0; }
template <unsigned G> inline void simt_meet(const simt_site *site) {
  if (G > simt_warp_size()) simt_group(G, site);
  else simt_warp(SIMT_SYNC, ~0ull >> (64 - simt_warp_size()), 0, 0, site);
}
template <unsigned G>
__attribute__((noinline, no_sanitize("thread"))) inline unsigned simt_give(const simt_site *site, const void *mine) {
  const unsigned me = simt_me();
  simt_given[me] = mine;
  simt_meet<G>(site);
  return me - me % G;
}
// The element that lies where an address is if chunks of 16 bytes are exchanged by a mask of their numbers.
template <class T> inline T &simt_swizzled(T *at, unsigned mask) {
  const unsigned long bits = reinterpret_cast<unsigned long>(at);
  return *reinterpret_cast<T *>(bits ^ (bits >> 7 & mask) << 4);
}
// What the asynchronous proxy reads of shared memory.
#define SIMT_PROXIED(place) (simt_proxied(&(place), sizeof(place)), (place))
__attribute__((noinline, no_sanitize("thread"))) inline void simt_take(char *to, const char *from, unsigned bytes) {
  for (unsigned n = 0; n < bytes; n++) to[n] = from[n];
}
template <unsigned G> __attribute__((noinline, no_sanitize("thread")))
inline void simt_gather(const simt_site *site, void *all, const void *mine, unsigned bytes) {
  const unsigned first = simt_give<G>(site, mine);
  for (unsigned lane = 0; lane < G; lane++)
    simt_take(static_cast<char *>(all) + lane * bytes, static_cast<const char *>(simt_given[first + lane]), bytes);
  simt_meet<G>(site);
}
// Each thread takes its part of what the first has of all.
template <unsigned G> __attribute__((noinline, no_sanitize("thread")))
inline void simt_scatter(const simt_site *site, void *mine, const void *all, unsigned bytes) {
  const unsigned first = simt_give<G>(site, all);
  simt_take(static_cast<char *>(mine), static_cast<const char *>(simt_given[first]) + simt_me() % G * bytes, bytes);
  simt_meet<G>(site);
}

template <class T, class... Among> constexpr bool simt_is_one = (__is_same(T, Among) || ...);

// The lane that each kind of shuffle reads; lanes are in groups of `width`, a lane outside of its group is itself.
inline unsigned simt_from_any(int from, int width) {
  return (simt_lane() & ~static_cast<unsigned>(width - 1)) + (static_cast<unsigned>(from) & (width - 1));
}
inline unsigned simt_from_up(int by, int width) {
  const unsigned lane = simt_lane(), first = lane & ~static_cast<unsigned>(width - 1);
  return lane >= first + by ? lane - by : lane;
}
inline unsigned simt_from_down(int by, int width) {
  const unsigned lane = simt_lane(), first = lane & ~static_cast<unsigned>(width - 1);
  return lane + by < first + width ? lane + by : lane;
}
inline unsigned simt_from_xor(int with, int width) {
  const unsigned lane = simt_lane(), first = lane & ~static_cast<unsigned>(width - 1), from = lane ^ with;
  return from < first + width ? from : lane;
}
#define SIMT_SHUFFLE_OF(name, source) \
  template <class T> \
  inline T name(const simt_site *site, unsigned long long mask, T v, int at, int width = warpSize) { \
    static_assert(simt_is_shuffled<T>, "CUDA does not shuffle this type"); \
    simt_check_width(width, site); \
    return simt_value<T>(simt_warp(SIMT_SHUFFLE, mask, simt_bits(v), source(at, width), site)); \
  }
// What CUDA shuffles, narrower integers and bool as an int; an enumeration, a pointer or a struct it does not take.
template <class T> constexpr bool simt_is_shuffled =
    simt_is_one<T, bool, char, signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long,
                long long, unsigned long long, float, double>;
SIMT_SHUFFLE_OF(simt_shuffle, simt_from_any)
SIMT_SHUFFLE_OF(simt_shuffle_up, simt_from_up)
SIMT_SHUFFLE_OF(simt_shuffle_down, simt_from_down)
SIMT_SHUFFLE_OF(simt_shuffle_xor, simt_from_xor)
#define __shfl_sync(...) simt_shuffle(SIMT_SITE("__shfl_sync"), __VA_ARGS__)
#define __shfl_up_sync(...) simt_shuffle_up(SIMT_SITE("__shfl_up_sync"), __VA_ARGS__)
#define __shfl_down_sync(...) simt_shuffle_down(SIMT_SITE("__shfl_down_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...) simt_shuffle_xor(SIMT_SITE("__shfl_xor_sync"), __VA_ARGS__)
#define __shfl(...) simt_shuffle(SIMT_SITE("__shfl"), 0, __VA_ARGS__)
#define __shfl_up(...) simt_shuffle_up(SIMT_SITE("__shfl_up"), 0, __VA_ARGS__)
#define __shfl_down(...) simt_shuffle_down(SIMT_SITE("__shfl_down"), 0, __VA_ARGS__)
#define __shfl_xor(...) simt_shuffle_xor(SIMT_SITE("__shfl_xor"), 0, __VA_ARGS__)

inline unsigned long long simt_ballot(const simt_site *site, unsigned long long mask, bool bit) {
  return simt_warp(SIMT_BALLOT, mask, bit, 0, site);
}
#define __ballot_sync(mask, bit) simt_ballot(SIMT_SITE("__ballot_sync"), mask, bit)
#define __any_sync(mask, bit) (simt_ballot(SIMT_SITE("__any_sync"), mask, bit) != 0)
#define __all_sync(mask, bit) (simt_ballot(SIMT_SITE("__all_sync"), mask, !(bit)) == 0)
#define __ballot(bit) simt_ballot(SIMT_SITE("__ballot"), 0, bit)
#define __any(bit) (simt_ballot(SIMT_SITE("__any"), 0, bit) != 0)
#define __all(bit) (simt_ballot(SIMT_SITE("__all"), 0, !(bit)) == 0)

// ---- atomics: threads run one at a time, so the operation itself is plain -----------------------------------------
// Of the types that CUDA has each of them for, without an include; of another the compiler refuses the text.
#define SIMT_WORDS int, unsigned, unsigned long long
template <class T> constexpr bool simt_has_add = simt_is_one<T, SIMT_WORDS, float, double>;
template <class T> constexpr bool simt_has_sub = simt_is_one<T, int, unsigned>;
template <class T> constexpr bool simt_has_max = simt_is_one<T, SIMT_WORDS, long long>;
template <class T> constexpr bool simt_has_min = simt_has_max<T>;
template <class T> constexpr bool simt_has_and = simt_is_one<T, SIMT_WORDS>;
template <class T> constexpr bool simt_has_or = simt_has_and<T>;
template <class T> constexpr bool simt_has_xor = simt_has_and<T>;
template <class T> constexpr bool simt_has_exch = simt_is_one<T, SIMT_WORDS, float>;
template <class T> constexpr bool simt_has_cas = simt_is_one<T, SIMT_WORDS, unsigned short>;
// Integers wrap in memory, as the hardware adds them; what a thread computes by itself is checked.
template <class T> __attribute__((always_inline)) inline T simt_wrapped_sum(T a, T b) {
  if constexpr (static_cast<T>(0.5) != 0) return static_cast<T>(a + b);
  else { T sum; __builtin_add_overflow(a, b, &sum); return sum; }
}
template <class T> __attribute__((always_inline)) inline T simt_wrapped_difference(T a, T b) {
  if constexpr (static_cast<T>(0.5) != 0) return static_cast<T>(a - b);
  else { T difference; __builtin_sub_overflow(a, b, &difference); return difference; }
}
#define SIMT_ATOMIC(kind, result) SIMT_ATOMIC_OF(simt_atomic_##kind, simt_has_##kind, result)
#define SIMT_ATOMIC_OF(name, has, result) \
  template <class T> struct name##_of { \
    static_assert(has<T>, "CUDA has no such atomic of this type"); \
    __attribute__((noinline, no_sanitize("thread"))) static T apply(const simt_site *site, T *p, T v) { \
      simt_atomic(p, sizeof(T), site); \
      const T old = *p; \
      *p = result; \
      return old; \
    } \
  }; \
  template <class T, class V> inline T name(const simt_site *site, T *p, V v) { \
    return name##_of<T>::apply(site, p, static_cast<T>(v)); \
  }
SIMT_ATOMIC(add, simt_wrapped_sum(old, v))
SIMT_ATOMIC(sub, simt_wrapped_difference(old, v))
SIMT_ATOMIC(max, old < v ? v : old)
SIMT_ATOMIC(min, v < old ? v : old)
SIMT_ATOMIC(and, static_cast<T>(old & v))
SIMT_ATOMIC(or, static_cast<T>(old | v))
SIMT_ATOMIC(xor, static_cast<T>(old ^ v))
SIMT_ATOMIC(exch, v)
template <class T>
__attribute__((noinline, no_sanitize("thread"))) inline T simt_swap(const simt_site *site, T *p, T expected, T v) {
  static_assert(simt_has_cas<T>, "CUDA has no such atomic of this type");
  simt_atomic(p, sizeof(T), site);
  const T old = *p;
  if (simt_bits(old) == simt_bits(expected)) *p = v;
  return old;
}
template <class T, class E, class V> inline T simt_atomic_cas(const simt_site *site, T *p, E expected, V v) {
  return simt_swap<T>(site, p, static_cast<T>(expected), static_cast<T>(v));
}
#define atomicAdd(...) simt_atomic_add(SIMT_SITE("atomicAdd"), __VA_ARGS__)
#define atomicSub(...) simt_atomic_sub(SIMT_SITE("atomicSub"), __VA_ARGS__)
#define atomicMax(...) simt_atomic_max(SIMT_SITE("atomicMax"), __VA_ARGS__)
#define atomicMin(...) simt_atomic_min(SIMT_SITE("atomicMin"), __VA_ARGS__)
#define atomicAnd(...) simt_atomic_and(SIMT_SITE("atomicAnd"), __VA_ARGS__)
#define atomicOr(...) simt_atomic_or(SIMT_SITE("atomicOr"), __VA_ARGS__)
#define atomicXor(...) simt_atomic_xor(SIMT_SITE("atomicXor"), __VA_ARGS__)
#define atomicExch(...) simt_atomic_exch(SIMT_SITE("atomicExch"), __VA_ARGS__)
#define atomicCAS(...) simt_atomic_cas(SIMT_SITE("atomicCAS"), __VA_ARGS__)
#define unsafeAtomicAdd atomicAdd

// ---- memory with hints --------------------------------------------------------------------------------------------
#define __ldg(p) (*(p))
#define __ldca(p) (*(p))
#define __ldcg(p) (*(p))
#define __ldcs(p) (*(p))
#define __stcg(p, v) ((void)(*(p) = (v)))
#define __stcs(p, v) ((void)(*(p) = (v)))
#define __stwt(p, v) ((void)(*(p) = (v)))
#define __builtin_nontemporal_load(p) (*(p))
#define __builtin_nontemporal_store(v, p) ((void)(*(p) = (v)))
#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif

#include "arithmetic.h"

// ---- kernels for the runtime --------------------------------------------------------------------------------------
template <class T> constexpr bool simt_is_pointer = false;
template <class T> constexpr bool simt_is_pointer<T *> = true;
template <class T> constexpr bool simt_is_float = false;
template <> constexpr bool simt_is_float<float> = true;
template <> constexpr bool simt_is_float<double> = true;
template <class T> constexpr bool simt_is_class = !simt_is_pointer<T> && !__is_enum(T) && __is_class(T);
template <class T> constexpr char simt_kind() {
  if constexpr (simt_is_pointer<T>) return 'p';
  else if constexpr (simt_is_float<T>) return 'f';
  else if constexpr (simt_is_class<T> || sizeof(T) > 8) return '?';
  else return static_cast<T>(-1) < static_cast<T>(0) ? 'i' : 'u';
}
template <auto F> struct simt_caller;
template <class... A, void (*F)(A...)> struct simt_caller<F> {
  template <int... I> struct numbers {};
  template <int N, int... I> struct counted : counted<N - 1, N - 1, I...> {};
  template <int... I> struct counted<0, I...> { using type = numbers<I...>; };
  struct Letters { char at[2 * sizeof...(A) + 1]; };
  static constexpr Letters letters() {
    Letters found = {};
    int n = 0;
    ((found.at[n++] = simt_kind<A>(), found.at[n++] = static_cast<char>('0' + (sizeof(A) < 9 ? sizeof(A) : 9))), ...);
    return found;
  }
  static constexpr Letters kept = letters();
  template <int... I> __attribute__((no_sanitize("thread"))) static void with(void **values, numbers<I...>) {
    F(*static_cast<A *>(values[I])...);
  }
  __attribute__((no_sanitize("thread"))) static void call(void **values) {
    with(values, typename counted<sizeof...(A)>::type{});
  }
};
#define SIMT_KERNEL(name) {#name, simt_caller<&name>::kept.at, &simt_caller<&name>::call}
