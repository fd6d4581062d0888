#include "harness/step_counter.hpp"

#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>

namespace nvm::bench {
namespace {

step_counts counted;
std::array<watched_function, 8> watched{};
struct sigaction previous;

bool outstanding = false;           // written back something since the last fence
bool outstanding_for_lock = false;  // or since the last locked instruction

// What the instruction at `p` does for durability is added to `counts`; true if it is a locked one. Decodes only as far
// as the opcodes that matter: legacy prefixes, REX, and the VEX and EVEX forms of non-temporal stores.
bool classify(const unsigned char* p, step_counts& counts) noexcept {
  bool operand16 = false;  // the prefix 66, part of the opcode of clwb and clflushopt
  bool repeat = false;
  bool locked = false;
  for (;; ++p) {
    if (*p == 0x66) {
      operand16 = true;
    } else if (*p == 0xf2 || *p == 0xf3) {
      repeat = true;
    } else if (*p == 0xf0) {
      locked = true;
    } else if (*p != 0x2e && *p != 0x36 && *p != 0x3e && *p != 0x26 && *p != 0x64 && *p != 0x65 && *p != 0x67) {
      break;
    }
  }
  const bool wide = (*p & 0xf8) == 0x48;  // REX.W
  if ((*p & 0xf0) == 0x40) ++p;

  if (p[0] == 0x0f && p[1] == 0xae && !repeat) {
    const unsigned reg = (p[2] >> 3) & 7;
    const bool memory = p[2] < 0xc0;
    if (memory && operand16 && reg == 6) ++counts.clwb;
    if (memory && operand16 && reg == 7) ++counts.clflushopt;
    if (memory && !operand16 && reg == 7) ++counts.clflush;
    if (!memory && !operand16 && reg == 7) ++counts.sfence;
    if (!memory && !operand16 && reg == 6) ++counts.mfence;
  } else if (p[0] == 0x0f && p[1] == 0xc3) {
    counts.streamed_bytes += wide ? 8 : 4;  // movnti
  } else if (p[0] == 0x0f && (p[1] == 0xe7 || p[1] == 0x2b)) {
    counts.streamed_bytes += p[1] == 0xe7 && !operand16 ? 8 : 16;  // movntq; movntdq, movntps, movntpd
  } else if (p[0] == 0x0f && p[1] == 0x38 && p[2] == 0xf8 && operand16) {
    counts.streamed_bytes += 64;  // movdir64b
  } else if (p[0] == 0x0f && p[1] == 0x38 && p[2] == 0xf9) {
    counts.streamed_bytes += wide ? 8 : 4;  // movdiri
  } else if (p[0] == 0xc5 && (p[2] == 0xe7 || p[2] == 0x2b)) {
    counts.streamed_bytes += (p[1] & 4) != 0 ? 32 : 16;  // two-byte VEX; bit L
  } else if (p[0] == 0xc4 && (p[1] & 0x1f) == 1 && (p[3] == 0xe7 || p[3] == 0x2b)) {
    counts.streamed_bytes += (p[2] & 4) != 0 ? 32 : 16;  // three-byte VEX, map 0F
  } else if (p[0] == 0x62 && (p[1] & 7) == 1 && (p[4] == 0xe7 || p[4] == 0x2b)) {
    counts.streamed_bytes += 16U << ((p[3] >> 5) & 3);  // EVEX, map 0F; bits L'L
  }
  return locked || ((p[0] == 0x86 || p[0] == 0x87) && p[1] < 0xc0);  // xchg with memory locks by itself
}

// Integer arguments as the System V ABI passes them.
std::uint64_t argument_of(const mcontext_t& machine, unsigned number) noexcept {
  constexpr int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_RCX, REG_R8, REG_R9};
  return static_cast<std::uint64_t>(machine.gregs[registers[number - 1]]);
}

void add_length(const watched_function& w, const mcontext_t& machine) noexcept {
  const std::uint64_t bytes = argument_of(machine, w.argument);
  if (w.logs) counted.logged_bytes += bytes;
  if (w.dirties && (w.flags_argument == 0 || (argument_of(machine, w.flags_argument) & w.unless) == 0))
    counted.dirty_bytes += bytes;
}

void on_trap(int, siginfo_t*, void* context) noexcept {
  const mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  const auto* next = reinterpret_cast<const unsigned char*>(machine.gregs[REG_RIP]);
  ++counted.instructions;
  for (const watched_function& w : watched)
    if (next == w.function) add_length(w, machine);
  const step_counts before = counted;
  const bool locked = classify(next, counted);
  if (counted.fences() != before.fences()) {
    counted.waiting_fences += outstanding ? 1 : 0;
    outstanding = outstanding_for_lock = false;
  } else if (locked) {
    counted.waiting_locks += outstanding_for_lock ? 1 : 0;
    outstanding_for_lock = false;
  } else if (counted.lines() != before.lines()) {
    outstanding = outstanding_for_lock = true;
  }
}

constexpr std::uint64_t trap_flag = 0x100;

}  // namespace

void watch_lengths(std::initializer_list<watched_function> functions) noexcept {
  watched.fill({});
  std::copy_n(functions.begin(), std::min(functions.size(), watched.size()), watched.begin());
}

step_counts step_counts::operator-(const step_counts& before) const noexcept {
  step_counts d = *this;
  d.instructions -= before.instructions;
  d.clwb -= before.clwb;
  d.clflushopt -= before.clflushopt;
  d.clflush -= before.clflush;
  d.streamed_bytes -= before.streamed_bytes;
  d.sfence -= before.sfence;
  d.mfence -= before.mfence;
  d.waiting_fences -= before.waiting_fences;
  d.waiting_locks -= before.waiting_locks;
  d.logged_bytes -= before.logged_bytes;
  d.dirty_bytes -= before.dirty_bytes;
  return d;
}

step_counts step_counter::counts() noexcept { return counted; }

step_counter::step_counter() {
  outstanding = outstanding_for_lock = false;  // what the thread did unseen is not known
  struct sigaction action{};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGTRAP, &action, &previous) != 0) throw std::runtime_error("cannot install a handler for SIGTRAP");
  // The red zone below the stack pointer may hold live values of the inlined caller: step over it before pushing.
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::"i"(trap_flag)
      : "memory", "cc");
}

step_counter::~step_counter() {
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq %0, (%%rsp)\n\tpopfq\n\tleaq 128(%%rsp), %%rsp" ::"i"(~trap_flag)
      : "memory", "cc");
  sigaction(SIGTRAP, &previous, nullptr);
}

bool can_step() noexcept {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return false;
#endif
#endif
  return true;
}

}  // namespace nvm::bench
