// Runs kernels that simt.h made plain C++: reads commands from its input, runs launches, answers with reports.
#include "fibers.h"
#include "shadow.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

alignas(1024) char simt_dynamic_shared[DYNAMIC_SHARED];
__attribute__((section("dojo_shared"), used)) static char simt_guard_last[256];  // so that there is such a section

static void *scheduler_sp;
static bool failed;
static uint3 grid, block, block_index;
static unsigned long long switches;
static unsigned atomic_line;  // of the atomic access that is checked
static const simt_kernel *kernel;
static void *arguments[256];
static unsigned long long values[256];

// ---- the thread that runs -----------------------------------------------------------------------------------------
extern "C" uint3 simt_thread_index() { return fibers[now.me].index; }
extern "C" uint3 simt_block_index() { return block_index; }
extern "C" uint3 simt_block_size() { return block; }
extern "C" uint3 simt_grid_size() { return grid; }
extern "C" unsigned simt_warp_size() { return warp_size; }
extern "C" unsigned simt_lane() { return now.me % warp_size; }

static bool on_own_stack(const char *p) { return static_cast<size_t>(p - (stacks + now.me * STACK)) < STACK; }

static Report &blank_report(Code code, unsigned thread) {
  report = Report{};
  report.code = code, report.thread = thread, report.other_thread = ~0u;
  report.block = report.other_block = now.block - now.first_block;
  return report;
}

static Report &begin_report(Code code, Access access, unsigned pc) {
  Report &made = blank_report(code, now.me);
  made.access = access, made.pc = pc, made.line = access == ATOMIC ? atomic_line : 0;
  return made;
}

[[noreturn]] static void stop_thread() {
  failed = true;
  void *gone;
  simt_switch(&gone, scheduler_sp);
  __builtin_trap();
}

static void rest(State state, const simt_site *site) {
  Fiber &f = fibers[now.me];
  f.state = state, f.site = site;
  switches++;
  simt_switch(&f.sp, scheduler_sp);
}

static void thread_main() {
  kernel->call(arguments);
  rest(DONE, nullptr);
  __builtin_trap();
}

extern "C" void simt_block_barrier(const simt_site *site) { rest(AT_BLOCK, site); }

extern "C" void simt_group(unsigned threads, const simt_site *site) {
  fibers[now.me].mask = threads;
  rest(AT_GROUP, site);
}

extern "C" unsigned long long simt_warp(simt_exchange what, unsigned long long mask, unsigned long long bits,
                                        unsigned from, const simt_site *site) {
  Fiber &f = fibers[now.me];
  f.what = what, f.mask = mask, f.bits = bits, f.from = from;
  rest(AT_WARP, site);
  return f.bits;
}

// ---- warps --------------------------------------------------------------------------------------------------------
static void say_where(unsigned thread, unsigned &line, char *call) {
  const simt_site *site = fibers[thread].state == DONE ? nullptr : fibers[thread].site;
  line = site ? site->line : 0;
  strncpy(call, site ? site->call : "", sizeof report.call - 1);
}

static void refuse(Code code, unsigned thread, unsigned other) {
  Report &made = blank_report(code, thread);
  say_where(thread, made.line, made.call);
  if (other != ~0u) {
    made.other_thread = other;
    say_where(other, made.other_line, made.other_call);
  }
  failed = true;
}

// All lanes of `group` are at one site: what they exchange, and what they know of each other from then on.
static void exchange(unsigned first, unsigned long long group) {
  const unsigned leader = first + __builtin_ctzll(group);
  const simt_exchange what = fibers[leader].what;
  unsigned long long bits[MOST_LANES], ballot = 0;
  for (unsigned long long left = group; left; left &= left - 1) {
    const unsigned lane = __builtin_ctzll(left);
    bits[lane] = fibers[first + lane].bits;
    if (bits[lane]) ballot |= 1ull << lane;
  }
  if (what == SIMT_SYNC) {
    const unsigned warp = first / warp_size, time = ++now.time[warp];
    unsigned joined[MOST_LANES] = {};
    for (unsigned long long left = group; left; left &= left - 1) {
      const unsigned *known = now.known[first + __builtin_ctzll(left)];
      for (unsigned k = 0; k < warp_size; k++) joined[k] = known[k] > joined[k] ? known[k] : joined[k];
    }
    for (unsigned long long left = group; left; left &= left - 1) joined[__builtin_ctzll(left)] = time;
    for (unsigned long long left = group; left; left &= left - 1)
      memcpy(now.known[first + __builtin_ctzll(left)], joined, warp_size * sizeof *joined);
  }
  for (unsigned long long left = group; left; left &= left - 1) {
    Fiber &f = fibers[first + __builtin_ctzll(left)];
    if (what == SIMT_SHUFFLE) {
      if (f.from >= warp_size || !(group >> f.from & 1)) {
        refuse(ABSENT_LANE, static_cast<unsigned>(&f - fibers), ~0u);
        report.bytes = f.from;
        return;
      }
      f.bits = bits[f.from];
    } else if (what == SIMT_BALLOT) {
      f.bits = ballot;
    }
    f.state = READY;
  }
}

// Lets those lanes of a warp go on that are complete. No lane of it is ready; says whether one is then. Of the sites
// without a mask the first in the text goes first, as lanes that diverged meet again behind it.
static bool release(unsigned first, unsigned count) {
  const unsigned long long there = count == 64 ? ~0ull : (1ull << count) - 1;
  unsigned long long waiting = 0;
  for (unsigned k = 0; k < count; k++)
    if (fibers[first + k].state == AT_WARP) waiting |= 1ull << k;
  unsigned line = ~0u;
  for (unsigned k = 0; k < count; k++) {
    const Fiber &f = fibers[first + k];
    if (f.state == AT_WARP && !f.mask && f.site->line < line) line = f.site->line;
  }
  bool moved = false;
  unsigned stuck = ~0u, missing = ~0u;
  for (unsigned long long left = waiting; left && !failed;) {
    const unsigned lane = __builtin_ctzll(left), me = first + lane;
    const Fiber &f = fibers[me];
    const unsigned long long mask = f.mask & there;
    unsigned long long group = 0;
    for (unsigned long long k = f.mask ? mask : left; k; k &= k - 1) {
      const Fiber &other = fibers[first + __builtin_ctzll(k)];
      if (other.state == AT_WARP && other.site == f.site && other.mask == f.mask) group |= k & -k;
    }
    if (!f.mask && f.site->line != line) {
      left &= ~group;
    } else if (warp_size < 64 && f.mask >> warp_size && ~f.mask) {
      refuse(WIDE_MASK, me, ~0u);
    } else if (f.mask && !(mask >> lane & 1)) {
      refuse(MASK, me, ~0u);
    } else if (f.mask && group != mask) {
      if (stuck == ~0u) stuck = me, missing = first + __builtin_ctzll(mask & ~group);
      left &= left - 1;
    } else {
      exchange(first, group);
      left &= ~group;
      moved = true;
    }
  }
  if (!failed && !moved && stuck != ~0u)
    refuse(fibers[missing].state == AT_WARP ? TWO_PLACES : DIVERGED, stuck, missing);
  return moved && !failed;
}

extern "C" void simt_check_width(int width, const simt_site *site) {
  if (width > 0 && width <= static_cast<int>(warp_size) && !(width & (width - 1))) return;
  fibers[now.me].site = site, fibers[now.me].state = READY;
  refuse(WIDTH, now.me, ~0u);
  report.bytes = static_cast<unsigned>(width);
  stop_thread();
}

// ---- blocks -------------------------------------------------------------------------------------------------------
static void run_warp(unsigned first, unsigned count, bool backwards) {
  now.warp = first / warp_size;
  do {
    for (unsigned k = 0; k < count && !failed; k++) {
      const unsigned t = first + (backwards ? count - 1 - k : k);
      if (fibers[t].state != READY) continue;
      now.me = t;
      simt_switch(&scheduler_sp, fibers[t].sp);
    }
  } while (!failed && release(first, count));
}

// Lets the groups of several warps go on that are complete; says whether there is one.
static bool release_groups() {
  bool moved = false;
  unsigned stuck = ~0u, missing = ~0u;
  for (unsigned t = 0; t < fiber_count; t++) {
    if (fibers[t].state != AT_GROUP) continue;
    const unsigned size = static_cast<unsigned>(fibers[t].mask), first = t - t % size;
    unsigned absent = ~0u;
    for (unsigned k = first; k < first + size; k++)
      if (k >= fiber_count || fibers[k].state != AT_GROUP || fibers[k].site != fibers[t].site) absent = k;
    if (absent != ~0u) {
      if (stuck == ~0u) stuck = t, missing = absent;
      continue;
    }
    for (unsigned k = first; k < first + size; k++) fibers[k].state = READY;
    moved = true;
  }
  if (!moved && stuck != ~0u) {
    const bool there = missing < fiber_count && fibers[missing].state != DONE;
    refuse(there ? TWO_PLACES : DIVERGED, stuck, missing < fiber_count ? missing : ~0u);
  }
  return moved;
}

static bool all_arrived(bool &finished) {
  unsigned at = ~0u, done = ~0u;
  for (unsigned t = 0; t < fiber_count; t++) {
    const Fiber &f = fibers[t];
    if (f.state == DONE) {
      done = t;
    } else if (at == ~0u) {
      at = t;
    } else if (f.site != fibers[at].site) {
      refuse(TWO_PLACES, at, t);
      return false;
    }
  }
  finished = at == ~0u;
  if (!finished && done != ~0u) refuse(DIVERGED, at, done);
  return !failed;
}

static void run_block(bool backwards) {
  now.block++, now.barrier++;
  const unsigned warps = (fiber_count + warp_size - 1) / warp_size;
  for (unsigned w = 0; w < warps; w++) now.time[w]++;
  for (unsigned t = 0; t < fiber_count; t++) {
    Fiber &f = fibers[t];
    f.sp = prepared(stack_top(t), thread_main), f.state = READY;
    copies_of[t].count = copies_of[t].groups = copies_of[t].fences = 0;
    f.index = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
  }
  for (bool finished = false; !finished && !failed;) {
    for (unsigned k = 0; k < warps && !failed; k++) {
      const unsigned first = (backwards ? warps - 1 - k : k) * warp_size;
      run_warp(first, fiber_count - first < warp_size ? fiber_count - first : warp_size, backwards);
    }
    if (failed) return;
    if (release_groups()) continue;
    if (failed || !all_arrived(finished)) return;
    now.barrier++;
    for (unsigned t = 0; t < fiber_count; t++) fibers[t].state = READY;
  }
}

// ---- commands -----------------------------------------------------------------------------------------------------
struct Command {
  unsigned kind, kernel, warp, backwards;  // 0: launch; 1: an array; 2: an array goes; 3: a shared array; 4: kernels
  unsigned grid[3], block[3], shared_bytes, count;
  unsigned long long address, bytes, shift;
};

static bool take(void *into, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    const ssize_t n = read(0, static_cast<char *>(into) + got, bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    got += static_cast<size_t>(n);
  }
  return true;
}

static void launch(const Command &c) {
  blank_report(FINE, 0);
  kernel = &simt_kernels[c.kernel];
  warp_size = c.warp;
  grid = {c.grid[0], c.grid[1], c.grid[2]}, block = {c.block[0], c.block[1], c.block[2]};
  for (Region &r : regions) r.restricted = false;
  // An argument is its bits; an array is its place in the arena (1), by a pointer that is __restrict__ (3).
  for (unsigned k = 0; k < c.count; k++) {
    unsigned long long pair[2];
    if (!take(pair, sizeof pair)) _exit(0);
    values[k] = pair[1] + (pair[0] ? reinterpret_cast<unsigned long long>(arena) : 0);
    arguments[k] = &values[k];
    if (pair[0] & 2) regions[slots[pair[1] / SLOT]].restricted = true;
  }
  fiber_count = block.x * block.y * block.z;
  need_stacks(fiber_count);
  set_region(dynamic_shared, simt_dynamic_shared, c.shared_bytes, 2, true);
  accesses = switches = 0, failed = false;
  now.first_block = now.block + 1;
  const unsigned long long blocks = 1ull * grid.x * grid.y * grid.z;
  for (unsigned long long k = 0; k < blocks && !failed; k++) {
    const unsigned long long b = c.backwards ? blocks - 1 - k : k;
    block_index = {unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)};
    run_block(c.backwards != 0);
  }
  report.accesses = accesses, report.switches = switches;
  now.block++;
  send_report();
}

static unsigned char alternate[64 << 10];

static void on_signal(int number, siginfo_t *info, void *) {
  begin_report(CRASH, READ, 0);
  const char *at = static_cast<const char *>(info->si_addr);
  report.address = reinterpret_cast<unsigned long long>(at);
  report.bytes = static_cast<unsigned>(number);
  const bool stack = number == SIGSEGV && static_cast<size_t>(at - stacks) < stack_count * STACK;
  strcpy(report.text, stack ? "its stack is full: 256 KiB" : number == SIGFPE ? "a division of integers by zero" : "");
  send_report();
  _exit(3);
}

int main(int, char **words) {
  stack_t stack = {};
  stack.ss_sp = alternate, stack.ss_size = sizeof alternate;
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_signal, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
  for (int number : numbers) sigaction(number, &action, nullptr);
  void *whole = mmap(nullptr, SLOT * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, atoi(words[1]), 0);
  if (whole == MAP_FAILED) out_of_memory();
  arena = static_cast<char *>(whole);
  shared_owner = static_cast<unsigned char *>(calloc(1, __stop_dojo_shared - __start_dojo_shared + 1));
  for (Command c; take(&c, sizeof c);) {
    char *at = reinterpret_cast<char *>(c.address);
    if (c.kind == 0) {
      launch(c);
    } else if (c.kind == 1) {
      const size_t slot = c.address / SLOT, used = (c.bytes + SLOT - 1) / SLOT;
      set_region(regions[c.count], arena + c.address, c.bytes, static_cast<unsigned>(c.shift), false);
      for (size_t k = 0; k < (used ? used : 1); k++) slots[slot + k] = static_cast<unsigned short>(c.count);
    } else if (c.kind == 2) {
      for (size_t k = 0; k < SLOTS; k++)
        if (slots[k] == c.count) slots[k] = 0;
    } else if (c.kind == 3 && shared_count < 255) {
      memset(shared_owner + (at - __start_dojo_shared), static_cast<int>(shared_count + 1), c.bytes);
      set_region(shared_arrays[shared_count++], at, c.bytes, 2, true);
    } else if (c.kind == 4) {
      dprintf(1, "%llu %llu %llu\n", reinterpret_cast<unsigned long long>(&simt_kernel_count),
              reinterpret_cast<unsigned long long>(arena), reinterpret_cast<unsigned long long>(simt_dynamic_shared));
      for (unsigned k = 0; k < simt_kernel_count; k++) {
        dprintf(1, "%s %s\n", simt_kernels[k].name, simt_kernels[k].parameters);
      }
      dprintf(1, "\n");
    }
  }
  return 0;
}

#include "instrumented.h"
