// Threads as fibers: a stack each, and a switch that saves what a callee must keep.
#pragma once
#include "report.h"

extern "C" void simt_switch(void **from, void *to);
#if defined(__x86_64__)
asm(R"(.text
.globl simt_switch
.type simt_switch, @function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch, .-simt_switch
)");
static void *prepared(char *top, void (*entry)()) {
  void **sp = reinterpret_cast<void **>(top);
  *--sp = nullptr;  // the stack is off by 8 at the entry of a function
  *--sp = reinterpret_cast<void *>(entry);
  for (int k = 0; k < 6; k++) *--sp = nullptr;
  return sp;
}
#elif defined(__aarch64__)
asm(R"(.text
.globl simt_switch
.type simt_switch, @function
simt_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size simt_switch, .-simt_switch
)");
static void *prepared(char *top, void (*entry)()) {
  void **sp = reinterpret_cast<void **>(top) - 20;
  memset(sp, 0, 160);
  sp[11] = reinterpret_cast<void *>(entry);
  return sp;
}
#else
#error "threads are switched on x86-64 and aarch64 only"
#endif

enum State : unsigned char { READY, AT_BLOCK, AT_WARP, AT_GROUP, DONE };
struct Fiber {
  void *sp;
  const simt_site *site;
  unsigned long long mask, bits;
  uint3 index;
  unsigned from;
  State state;
  simt_exchange what;
};

static const size_t STACK = 256 << 10;  // of address space; what is not used takes no memory
static char *stacks;
static size_t stack_count;
static Fiber fibers[1024];
static unsigned fiber_count;

static void need_stacks(unsigned count) {
  if (count <= stack_count) return;
  if (stacks) munmap(stacks, stack_count * STACK);
  void *made = mmap(nullptr, count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) out_of_memory();
  stacks = static_cast<char *>(made);
  for (unsigned k = 0; k < count; k++) mprotect(stacks + k * STACK, 4096, PROT_NONE);
  stack_count = count;
}

// Stacks start at different lines of the cache, which are few for addresses so regular.
static char *stack_top(unsigned thread) { return stacks + (thread + 1) * STACK - 64 - thread % 61 * 64; }
