// What the runtime tells the process that asked for a launch, as bytes.
#pragma once
#include "interface.h"
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum Access : unsigned { READ, WRITE, ATOMIC };
enum Code : unsigned {
  FINE, RACE, OUT_OF_BOUNDS, UNINITIALISED, DIVERGED, TWO_PLACES, MASK, ABSENT_LANE, CRASH, CHECK, NO_MEMORY,
  RESTRICTED, WIDE_MASK, WIDTH, NOT_LANDED, NOT_FENCED
};

struct Report {
  Code code;
  Access access, other_access;
  unsigned bytes, thread, other_thread;      // other_thread ~0: none
  unsigned long long block, other_block, address, pc, other_pc, accesses, switches;
  unsigned line, other_line;                 // of a barrier or shuffle; 0: unknown
  char call[40], other_call[40], text[120];  // of the same; text: what else there is to say
};
static Report report;
static unsigned warp_size = 32;
static const size_t DYNAMIC_SHARED = 256 << 10;

static void send_report() {
  for (size_t sent = 0; sent < sizeof report;) {
    const ssize_t n = write(1, reinterpret_cast<char *>(&report) + sent, sizeof report - sent);
    if (n <= 0) _exit(4);
    sent += static_cast<size_t>(n);
  }
}

[[noreturn]] static void out_of_memory() {
  report.code = NO_MEMORY;
  send_report();
  _exit(5);
}

static Report &begin_report(Code code, Access access, unsigned pc);  // of the thread that runs
[[noreturn]] static void stop_thread();                              // ends the launch with the report
static bool on_own_stack(const char *p);
