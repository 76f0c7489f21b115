// What the compiler makes a kernel call: before each access to memory (-fsanitize=thread), and where an index leaves
// its array, an access is not aligned as its type says, or an int overflows (-fsanitize=bounds,alignment,…).
#pragma once

#define SIMT_PC (static_cast<unsigned>(reinterpret_cast<unsigned long long>(__builtin_return_address(0)) - 1))

[[noreturn]] static void misaligned(const void *at, unsigned align, unsigned pc) {
  Report &made = begin_report(CHECK, READ, pc);
  made.address = reinterpret_cast<unsigned long long>(at), made.bytes = align;
  strcpy(made.text, "misaligned");
  stop_thread();
}

extern "C" {
#define SIMT_SIZE(n) \
  void __tsan_read##n(void *p) { \
    if (reinterpret_cast<size_t>(p) % n) misaligned(p, n, SIMT_PC); \
    touch<READ>(p, n, SIMT_PC); \
  } \
  void __tsan_write##n(void *p) { \
    if (reinterpret_cast<size_t>(p) % n) misaligned(p, n, SIMT_PC); \
    touch<WRITE>(p, n, SIMT_PC); \
  } \
  void __tsan_unaligned_read##n(void *p) { touch<READ>(p, n, SIMT_PC); } \
  void __tsan_unaligned_write##n(void *p) { touch<WRITE>(p, n, SIMT_PC); } \
  void __tsan_volatile_read##n(void *p) { touch<READ>(p, n, SIMT_PC); } \
  void __tsan_volatile_write##n(void *p) { touch<WRITE>(p, n, SIMT_PC); } \
  void __tsan_read_write##n(void *p) { \
    touch<READ>(p, n, SIMT_PC); \
    touch<WRITE>(p, n, SIMT_PC); \
  } \
  void __tsan_unaligned_read_write##n(void *p) { \
    touch<READ>(p, n, SIMT_PC); \
    touch<WRITE>(p, n, SIMT_PC); \
  }
SIMT_SIZE(1) SIMT_SIZE(2) SIMT_SIZE(4) SIMT_SIZE(8) SIMT_SIZE(16)
void __tsan_read_range(void *p, size_t n) { touch<READ>(p, n, SIMT_PC); }
void __tsan_write_range(void *p, size_t n) { touch<WRITE>(p, n, SIMT_PC); }
void *__tsan_memcpy(void *to, const void *from, size_t n) {
  touch<READ>(from, n, SIMT_PC);
  touch<WRITE>(to, n, SIMT_PC);
  return memcpy(to, from, n);
}
void *__tsan_memmove(void *to, const void *from, size_t n) {
  touch<READ>(from, n, SIMT_PC);
  touch<WRITE>(to, n, SIMT_PC);
  return memmove(to, from, n);
}
void *__tsan_memset(void *to, int value, size_t n) {
  touch<WRITE>(to, n, SIMT_PC);
  return memset(to, value, n);
}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}

void simt_start_copy(void *to, const void *from, unsigned bytes) {
  if (reinterpret_cast<size_t>(to) % bytes) misaligned(to, bytes, SIMT_PC);
  if (reinterpret_cast<size_t>(from) % bytes) misaligned(from, bytes, SIMT_PC);
  touch<READ>(from, bytes, SIMT_PC);
  touch<WRITE>(to, bytes, SIMT_PC);
  fly(to, bytes, true);
  copies_of[now.me].add({to, from, bytes, copies_of[now.me].groups});
  memset(to, 0xa5, bytes);
}
void simt_fence_proxy() { copies_of[now.me].fences++; }
void simt_proxied(const void *at, unsigned bytes) {
  const char *p = static_cast<const char *>(at);
  Region *r = region_of(p, bytes, READ, SIMT_PC);
  if (!r) return;
  for (size_t c = (p - r->at) >> r->shift, last = (p - r->at + bytes - 1) >> r->shift; c <= last; c++) {
    const Cell &cell = r->cells[c];
    if (cell.block != now.block || cell.writer == NOBODY || cell.fences < copies_of[cell.writer].fences) continue;
    Report &made = begin_report(NOT_FENCED, READ, SIMT_PC);
    made.address = reinterpret_cast<unsigned long long>(r->at + (c << r->shift));
    made.bytes = 1u << r->shift, made.other_thread = cell.writer, made.other_block = made.block;
    stop_thread();
  }
}
void simt_commit_copies() { copies_of[now.me].groups++; }
void simt_land_copies(unsigned left) {
  Copies &mine = copies_of[now.me];
  size_t kept = 0;
  for (size_t k = 0; k < mine.count; k++) {
    const Copy &copy = mine.at[k];
    if (copy.group + left >= mine.groups) {
      mine.at[kept++] = copy;
      continue;
    }
    fly(copy.to, copy.bytes, false);
    touch<WRITE>(copy.to, copy.bytes, SIMT_PC);
    memcpy(copy.to, copy.from, copy.bytes);
  }
  mine.count = kept;
}

void simt_atomic(void *at, unsigned bytes, const simt_site *site) {
  atomic_line = site->line;
  touch<ATOMIC>(at, bytes, SIMT_PC);
}
}

// The place that the compiler passes to a check, first in its data.
struct Place {
  const char *file;
  unsigned line, column;
};

[[noreturn]] static void broken(const void *data, const char *text) {
  begin_report(CHECK, READ, SIMT_PC);
  report.line = static_cast<const Place *>(data)->line;
  strncpy(report.text, text, sizeof report.text - 1);
  stop_thread();
}

extern "C" {
struct Misaligned {
  Place place;
  const void *type;
  unsigned char log_alignment, kind;
};
void __ubsan_handle_type_mismatch_v1(const Misaligned *data, unsigned long long at) {
  begin_report(CHECK, READ, SIMT_PC);
  report.line = data->place.line, report.address = at, report.bytes = 1u << data->log_alignment;
  strcpy(report.text, "misaligned");
  stop_thread();
}
void __ubsan_handle_out_of_bounds(const void *data, unsigned long long index) {
  begin_report(CHECK, READ, SIMT_PC);
  report.line = static_cast<const Place *>(data)->line, report.address = index;
  strcpy(report.text, "bounds");
  stop_thread();
}
void __ubsan_handle_add_overflow(const void *data, void *, void *) { broken(data, "overflow of a sum"); }
void __ubsan_handle_sub_overflow(const void *data, void *, void *) { broken(data, "overflow of a difference"); }
void __ubsan_handle_mul_overflow(const void *data, void *, void *) { broken(data, "overflow of a product"); }
void __ubsan_handle_negate_overflow(const void *data, void *) { broken(data, "overflow of a negation"); }
void __ubsan_handle_divrem_overflow(const void *data, void *, void *) { broken(data, "a division by zero or overflow"); }
void __ubsan_handle_shift_out_of_bounds(const void *data, void *, void *) { broken(data, "a shift too far"); }
}
