// What the text of a kernel, made plain C++ by simt.h, asks of the runtime.
#pragma once

// A place in the text where threads wait for each other or touch memory as one: which call, in which line.
struct simt_site {
  const char *call;
  unsigned line;
};

struct uint3 {
  unsigned x, y, z;
};

enum simt_exchange { SIMT_SYNC, SIMT_SHUFFLE, SIMT_BALLOT };

extern "C" {
// Constant for as long as a thread runs, so the compiler may ask once.
uint3 simt_thread_index() __attribute__((const));
uint3 simt_block_index() __attribute__((const));
uint3 simt_block_size() __attribute__((const));
uint3 simt_grid_size() __attribute__((const));
unsigned simt_warp_size() __attribute__((const));
unsigned simt_lane() __attribute__((const));

void simt_block_barrier(const simt_site *site);

// Waits until every lane of `mask` is at this site. A mask of 0 stands for the lanes that come here together, as
// on hardware that runs a warp in lockstep. A shuffle gives the bits of lane `from`, a ballot the lanes with bits.
unsigned long long simt_warp(simt_exchange what, unsigned long long mask, unsigned long long bits, unsigned from,
                             const simt_site *site);

// Ends the launch where lanes are not shuffled in groups of a power of two, at most a warp.
void simt_check_width(int width, const simt_site *site);

// Says that an atomic access to `bytes` bytes follows.
void simt_atomic(void *at, unsigned bytes, const simt_site *site);

// Waits until all threads of its group of so many, several warps, are at this site. That orders no memory.
void simt_group(unsigned threads, const simt_site *site);

// What this thread wrote to shared memory so far, the asynchronous proxy sees; and a read by that proxy.
void simt_fence_proxy();
void simt_proxied(const void *at, unsigned bytes);

// A copy to shared memory that a thread starts, the end of a group of them, and the wait until only so many groups
// are on their way. What is on its way nobody may touch.
void simt_start_copy(void *to, const void *from, unsigned bytes);
void simt_commit_copies();
void simt_land_copies(unsigned left);

extern char simt_dynamic_shared[];
}

// A kernel as the runtime starts it: `parameters` has two letters for each, a kind (p pointer, f float, i signed,
// u unsigned, ? anything else) and its size in bytes as a digit.
struct simt_kernel {
  const char *name;
  const char *parameters;
  void (*call)(void **arguments);
};
extern "C" const simt_kernel simt_kernels[];
extern "C" const unsigned simt_kernel_count;
