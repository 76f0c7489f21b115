// What is known of every element of shared and global memory: who touched it, and what was ordered since.
//
// A clock that needs no vectors between warps: a block counts its barriers, and an access before the last one is
// ordered before all that runs now. Inside a warp, `known[t][u]` says up to which moment of the warp's clock thread t
// knows what lane u did; only __syncwarp moves it (a shuffle passes values and orders no memory).
#pragma once
#include "report.h"
#include <stdlib.h>

static const unsigned MOST_THREADS = 1024, MOST_LANES = 64;
static const unsigned short NOBODY = 0xffff;
static const unsigned char PLAIN_READ = 1, PLAIN_WRITE = 2, ATOMIC_WRITE = 4, LAST_ATOMIC = 8, READ_BY_SEVERAL = 16;

struct Clock {
  unsigned me, warp, block, first_block, barrier;
  unsigned time[MOST_THREADS];
  unsigned known[MOST_THREADS][MOST_LANES];
};
static Clock now;

// Copies to shared memory that a thread has started, and where it stands with the asynchronous proxy.
struct Copy {
  void *to;
  const void *from;
  unsigned bytes, group;
};
struct Copies {
  Copy *at;
  size_t count, room;
  unsigned groups;  // that have ended
  unsigned fences;  // for the asynchronous proxy
  void add(Copy copy) {
    if (count == room) {
      room = 2 * room + 16;
      at = static_cast<Copy *>(realloc(at, room * sizeof *at));
      if (!at) out_of_memory();
    }
    at[count++] = copy;
  }
};
static Copies copies_of[MOST_THREADS];

// One cell an element (of at most 4 bytes). Who is in `writer` wrote last, who is in `writer2` is another thread that
// added atomically since the same barrier. `reader` read last, `reader2` is of another warp; `lanes` are all of the
// warp of `reader` that read. Times are moments of the clock of their warp.
struct Cell {
  unsigned block, write_barrier, write_time, read_barrier, read_time, write_pc, read_pc;
  unsigned short writer, writer2, reader, reader2;
  unsigned char done;
  bool flying;  // the copy by `writer` is on its way
  unsigned fences;  // that `writer` had passed
  unsigned long long lanes;
};

struct Region {
  char *at;
  size_t bytes;
  unsigned shift;  // an element has 1 << shift bytes
  bool shared;
  bool restricted;  // the launch has a pointer to it that is __restrict__
  Cell *cells;
  size_t room;     // cells allocated
};

static Cell *new_cells(size_t count) {
  void *made = mmap(nullptr, count * sizeof(Cell) + 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) out_of_memory();
  return static_cast<Cell *>(made);
}

static void set_region(Region &r, char *at, size_t bytes, unsigned shift, bool shared) {
  const size_t wanted = (bytes >> shift) + 1;
  if (wanted > r.room || (r.cells && r.room > 4 * wanted + 4096)) {
    if (r.cells) munmap(r.cells, r.room * sizeof(Cell) + 4096);
    r.cells = new_cells(wanted);
    r.room = wanted;
  } else {
    memset(r.cells, 0, wanted * sizeof(Cell));
  }
  r.at = at, r.bytes = bytes, r.shift = shift, r.shared = shared;
}

// An access is narrower than the elements: each becomes several, with the same past.
static void narrow(Region &r, unsigned shift) {
  const size_t old_count = (r.bytes >> r.shift) + 1, parts = size_t(1) << (r.shift - shift);
  Cell *cells = new_cells(old_count * parts);
  for (size_t c = 0; c < old_count; c++)
    for (size_t k = 0; k < parts; k++) cells[c * parts + k] = r.cells[c];
  munmap(r.cells, r.room * sizeof(Cell) + 4096);
  r.cells = cells, r.room = old_count * parts, r.shift = shift;
}

static inline bool ordered(unsigned other, unsigned barrier, unsigned time) {
  if (other == now.me || barrier != now.barrier) return true;
  if (other / warp_size != now.warp) return false;
  return now.known[now.me][other % warp_size] > time;
}

[[noreturn]] static void race(const Region &r, const Cell &c, size_t cell, Access is, unsigned pc, Access was,
                              unsigned other, unsigned other_pc) {
  Report &report = begin_report(RACE, is, pc);
  report.address = reinterpret_cast<unsigned long long>(r.at + (cell << r.shift));
  report.bytes = 1u << r.shift;
  report.other_thread = other, report.other_block = c.block - now.first_block;
  report.other_access = was, report.other_pc = other_pc;
  stop_thread();
}

// The kernel says of its pointer that nobody else changes what it reads: a compiler may use what it read before a
// barrier behind it, and put a store off past it. So no thread may write what another one uses, in all of a launch.
static void untrue(const Region &r, const Cell &c, size_t cell, Access is, unsigned pc, Access was, unsigned other,
                   unsigned other_pc) {
  Report &report = begin_report(RESTRICTED, is, pc);
  report.address = reinterpret_cast<unsigned long long>(r.at + (cell << r.shift));
  report.bytes = 1u << r.shift;
  report.other_thread = other, report.other_block = c.block - now.first_block;
  report.other_access = was, report.other_pc = other_pc;
  stop_thread();
}

template <Access is> static inline void hold_restricted(Region &r, Cell &c, size_t cell, unsigned pc) {
  if (c.writer != NOBODY && c.writer != now.me)
    untrue(r, c, cell, is, pc, c.done & LAST_ATOMIC ? ATOMIC : WRITE, c.writer, c.write_pc);
  if (is == READ) {
    if (c.reader != NOBODY && c.reader != now.me) c.done |= READ_BY_SEVERAL;
  } else if (c.reader != NOBODY && (c.reader != now.me || c.done & READ_BY_SEVERAL)) {
    untrue(r, c, cell, is, pc, READ, c.reader != now.me ? c.reader : ~0u, c.read_pc);
  }
}

static void enter_block(Region &r, Cell &c, size_t cell, Access is, unsigned pc) {
  const bool seen = c.block >= now.first_block && !r.shared;
  if (seen) {
    const unsigned char bad = is == READ    ? PLAIN_WRITE | ATOMIC_WRITE
                              : is == WRITE ? PLAIN_READ | PLAIN_WRITE | ATOMIC_WRITE
                                            : PLAIN_READ | PLAIN_WRITE;
    if (c.done & bad) {
      const bool wrote = c.done & bad & (PLAIN_WRITE | ATOMIC_WRITE) && c.writer != NOBODY;
      if (wrote) race(r, c, cell, is, pc, c.done & LAST_ATOMIC ? ATOMIC : WRITE, c.writer, c.write_pc);
      race(r, c, cell, is, pc, c.done & PLAIN_READ ? READ : WRITE, c.reader, c.read_pc);
    }
    if (r.restricted && c.done & ATOMIC_WRITE && c.writer != NOBODY)
      untrue(r, c, cell, is, pc, ATOMIC, c.writer, c.write_pc);
  }
  const unsigned char kept = seen ? c.done & (PLAIN_READ | PLAIN_WRITE | ATOMIC_WRITE) : 0;
  c = Cell{};
  c.block = now.block, c.done = kept;
  c.writer = c.writer2 = c.reader = c.reader2 = NOBODY;
}

template <Access is> static inline void touch_cell(Region &r, size_t cell, unsigned pc) {
  Cell &c = r.cells[cell];
  if (__builtin_expect(c.block != now.block, 0)) enter_block(r, c, cell, is, pc);
  if (__builtin_expect(c.flying, 0)) {
    Report &report = begin_report(NOT_LANDED, is, pc);
    report.address = reinterpret_cast<unsigned long long>(r.at + (cell << r.shift));
    report.bytes = 1u << r.shift;
    report.other_thread = c.writer, report.other_block = report.block;
    stop_thread();
  }
  if (is != WRITE && r.shared && c.writer == NOBODY) {
    Report &report = begin_report(UNINITIALISED, is, pc);
    report.address = reinterpret_cast<unsigned long long>(r.at + (cell << r.shift));
    report.bytes = 1u << r.shift;
    stop_thread();
  }
  const bool same = is == ATOMIC && c.done & LAST_ATOMIC;  // atomic accesses do not race with each other
  if (c.writer != NOBODY && !same) {
    const Access was = c.done & LAST_ATOMIC ? ATOMIC : WRITE;
    if (!ordered(c.writer, c.write_barrier, c.write_time)) race(r, c, cell, is, pc, was, c.writer, c.write_pc);
    if (c.writer2 != NOBODY && !ordered(c.writer2, c.write_barrier, c.write_time))
      race(r, c, cell, is, pc, was, c.writer2, c.write_pc);
  }
  const unsigned time = now.time[now.warp];
  if (is != READ) {
    if (c.reader != NOBODY && c.read_barrier == now.barrier) {
      if (c.reader / warp_size != now.warp) race(r, c, cell, is, pc, READ, c.reader, c.read_pc);
      if (c.reader2 != NOBODY) race(r, c, cell, is, pc, READ, c.reader2, c.read_pc);
      for (unsigned long long left = c.lanes; left; left &= left - 1) {
        const unsigned other = now.warp * warp_size + __builtin_ctzll(left);
        if (!ordered(other, c.read_barrier, c.read_time)) race(r, c, cell, is, pc, READ, other, c.read_pc);
      }
    }
    if (__builtin_expect(r.restricted, 0)) hold_restricted<is>(r, c, cell, pc);
    const bool more = same && c.write_barrier == now.barrier && c.writer != now.me;
    c.writer2 = more ? c.writer : same && c.write_barrier == now.barrier ? c.writer2 : NOBODY;
    c.writer = now.me, c.write_barrier = now.barrier, c.write_time = time, c.write_pc = pc;
    c.fences = copies_of[now.me].fences;
    c.done = (c.done & ~LAST_ATOMIC) | (is == ATOMIC ? ATOMIC_WRITE | LAST_ATOMIC : PLAIN_WRITE);
  } else {
    if (__builtin_expect(r.restricted, 0)) hold_restricted<is>(r, c, cell, pc);
    const unsigned long long lane = 1ull << now.me % warp_size;
    if (c.reader == NOBODY || c.read_barrier != now.barrier) {
      c.reader2 = NOBODY, c.lanes = lane;
    } else if (c.reader / warp_size == now.warp) {
      c.lanes |= lane;
    } else {
      c.reader2 = c.reader, c.lanes = lane;
    }
    c.reader = now.me, c.read_barrier = now.barrier, c.read_time = time, c.read_pc = pc;
    c.done |= PLAIN_READ;
  }
}

// ---- where an address lies ----------------------------------------------------------------------------------------
static const size_t SLOT = size_t(1) << 21, SLOTS = size_t(1) << 17;
static const unsigned MOST_REGIONS = 4096;
static char *arena;                      // global memory: arrays start at slots, with an empty slot behind each
static unsigned short slots[SLOTS];      // the region of each slot, 0 for none
static Region regions[MOST_REGIONS];
static Region shared_arrays[256];
static unsigned shared_count;
static unsigned char *shared_owner;      // of each byte of the section, 1 more than the number of its array
static Region dynamic_shared;
extern "C" char __start_dojo_shared[], __stop_dojo_shared[], __executable_start[], _end[];

[[noreturn]] static void outside(const char *p, size_t n, Access is, unsigned pc) {
  Report &report = begin_report(OUT_OF_BOUNDS, is, pc);
  report.address = reinterpret_cast<unsigned long long>(p), report.bytes = static_cast<unsigned>(n);
  stop_thread();
}

static inline Region *region_of(const char *p, size_t n, Access is, unsigned pc) {
  const size_t offset = p - arena;
  if (offset < SLOT * SLOTS) {
    Region &r = regions[slots[offset / SLOT]];
    if (!r.at || static_cast<size_t>(p - r.at) + n > r.bytes) outside(p, n, is, pc);
    return &r;
  }
  const size_t inside = p - __start_dojo_shared;
  if (inside < static_cast<size_t>(__stop_dojo_shared - __start_dojo_shared)) {
    if (!shared_owner[inside]) outside(p, n, is, pc);
    Region &r = shared_arrays[shared_owner[inside] - 1];
    if (static_cast<size_t>(p - r.at) + n > r.bytes) outside(p, n, is, pc);
    return &r;
  }
  if (static_cast<size_t>(p - simt_dynamic_shared) < DYNAMIC_SHARED) {
    if (static_cast<size_t>(p - dynamic_shared.at) + n > dynamic_shared.bytes) outside(p, n, is, pc);
    return &dynamic_shared;
  }
  if (on_own_stack(p)) return nullptr;
  if (is == READ && p >= __executable_start && p + n <= _end) return nullptr;  // a table of constants
  outside(p, n, is, pc);
}

static unsigned long long accesses;

static void fly(const void *at, size_t n, bool flying) {
  const char *p = static_cast<const char *>(at);
  Region *r = region_of(p, n, WRITE, 0);
  if (!r) return;
  for (size_t c = (p - r->at) >> r->shift, last = (p - r->at + n - 1) >> r->shift; c <= last; c++)
    r->cells[c].flying = flying;
}

template <Access is> static inline void touch(const void *at, size_t n, unsigned pc) {
  const char *p = static_cast<const char *>(at);
  if (n == 0) return;
  Region *r = region_of(p, n, is, pc);
  if (!r) return;
  accesses++;
  const size_t first = p - r->at;
  const unsigned align = static_cast<unsigned>(__builtin_ctzll(first | n | 4));
  if (__builtin_expect(align < r->shift, 0)) narrow(*r, align);
  for (size_t c = first >> r->shift, last = (first + n - 1) >> r->shift; c <= last; c++) touch_cell<is>(*r, c, pc);
}
