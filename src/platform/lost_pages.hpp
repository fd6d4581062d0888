// Pages of mapped files that the system cannot give (SIGBUS): cut off with the end of the file, lost by the device or
// by memory, or a hole for which the file system has no room.
//
// A process has one handler for SIGBUS, installed with the first memory that is watched.  A fault elsewhere is not ours
// and goes to the signal's earlier handler.  A fault in watched memory fails that memory for good, in this order:
//   1. lost() is true from now on, and why() says why
//   2. a shared mapping becomes private: later stores do not reach the file
//   3. inside a call of the library (in_call): zeros take the place of the page, and the thread goes on; before the
//      call returns it asks lost(), and its result is an error. Elsewhere: a message on stderr, and SIGBUS.
// A thread that has read a zero of step 3 finds lost() true: 1 comes before 3.  The zeros go when the outermost call of
// the thread that met them ends; a load or store of the program there is SIGBUS again, and another running call gets
// zeros anew.
//
// Signals.  The handler uses no lock that other code holds with signals unblocked, no allocation and no function that
// is unsafe there. A thread that blocks SIGBUS is ended by the kernel: so signals_blocked leaves that signal out. A
// handler that a program installs later must pass on signals that it does not know, as ours does; an earlier handler is
// called for signals that are not ours, with the signals blocked that it asked for.
//
// Fork: a child watches nothing (forget_in_child()).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/base.hpp"
#include "base/inlining.hpp"
#include "platform/isa.hpp"

// Attribute of a function that loads like a call of the library, but without an in_call: the handler knows it by the
// place of its code, which costs the load nothing. The function asks any_lost() afterwards, and then repeats the load
// inside a call. If the load may not be inlined into the function, quick_access is an in_call instead.
#if defined(__OPTIMIZE__) && !defined(NVM_INLINES_LITTLE)
#define NVM_ACCESSES_QUICKLY 1
#define NVM_QUICK_ACCESS     gnu::section("nvm_quick_access")
#else
#define NVM_ACCESSES_QUICKLY 0
#define NVM_QUICK_ACCESS
#endif

namespace nvm::platform {

namespace calls {
inline constexpr unsigned char inside = 1;
inline constexpr unsigned char struck = 2;       // zeros took the place of a page in this call
inline constexpr unsigned char called_back = 4;  // a function of the program runs inside a call
// State of this thread; the handler writes it, too.
[[gnu::tls_model("initial-exec")]] extern __thread unsigned char of_thread;
// Memory that has failed and is still watched.
extern constinit std::atomic<unsigned> failures;
// Called when the outermost call of a struck thread ends, or lets the program run in between.
[[gnu::cold]] void hide_zeros() noexcept;
[[gnu::cold, gnu::noinline]] void end_struck(unsigned char before) noexcept;
}  // namespace calls

// While one exists this thread is inside a call of the library. They nest.
class in_call {
 public:
  in_call() noexcept : before_{calls::of_thread} {
    calls::of_thread = before_ | calls::inside;
    isa::compiler_fence();
  }
  ~in_call() {
    isa::compiler_fence();
    if ((calls::of_thread & calls::struck) == 0) [[likely]] {
      calls::of_thread = before_;
    } else {
      calls::end_struck(before_);
    }
  }
  in_call(const in_call&) = delete;
  in_call& operator=(const in_call&) = delete;

 private:
  unsigned char before_;
};

#if NVM_ACCESSES_QUICKLY
struct quick_access {
  quick_access() noexcept {}
  ~quick_access() { isa::compiler_fence(); }
};
#else
using quick_access = in_call;
#endif

// While one exists, a function of the program runs inside the call.
class out_of_call {
 public:
  out_of_call() noexcept : before_{calls::of_thread} {
    if ((before_ & calls::struck) != 0) [[unlikely]]
      calls::hide_zeros();
    calls::of_thread = calls::called_back;
  }
  ~out_of_call() { calls::of_thread = before_; }
  out_of_call(const out_of_call&) = delete;
  out_of_call& operator=(const out_of_call&) = delete;

 private:
  unsigned char before_;
};

// While one exists, what runs is as it is outside of any call.
class not_called_back {
 public:
  not_called_back() noexcept : before_{static_cast<unsigned char>(calls::of_thread & calls::called_back)} {
    calls::of_thread &= static_cast<unsigned char>(~calls::called_back);
  }
  ~not_called_back() { calls::of_thread |= before_; }
  not_called_back(const not_called_back&) = delete;
  not_called_back& operator=(const not_called_back&) = delete;

 private:
  unsigned char before_;
};
// Whether a call of the library waits for what runs, begun since the last not_called_back.
[[nodiscard]] inline bool is_called_back() noexcept { return (calls::of_thread & calls::called_back) != 0; }

// Depth of this thread's calls, for frames that a jump leaves: go_back_to() this depth before the jump.
[[nodiscard]] inline unsigned char call_depth() noexcept { return calls::of_thread & calls::inside; }
inline void go_back_to(unsigned char depth) noexcept {
  if ((calls::of_thread & calls::struck) == 0) [[likely]] {
    calls::of_thread = depth;
  } else {
    calls::end_struck(depth);
  }
}

// Whether zeros took the place of a page in this call, in any watched memory.
[[nodiscard]] inline bool call_was_struck() noexcept { return (calls::of_thread & calls::struck) != 0; }
// Whether some watched memory has failed. relaxed: a load that read a zero comes after the failure, as loads are
// ordered.
[[nodiscard]] inline bool any_lost() noexcept {
  isa::compiler_fence();
  return calls::failures.load(std::memory_order_relaxed) != 0;
}

// A mapping of a file, from start() to stop().  Threads: any may ask; start() and stop() by one.
class watched_memory {
 public:
  struct place {
    std::byte* base = nullptr;
    std::uint64_t bytes = 0;       // of addresses
    std::uint64_t file_bytes = 0;  // so many of them map the file from its start
    int descriptor = -1;           // of the file, as long as it is watched
    const char* name = "";         // likewise
    bool shared = false;           // stores reach the file
  };

  watched_memory() noexcept = default;
  ~watched_memory() { stop(); }
  watched_memory(const watched_memory&) = delete;
  watched_memory& operator=(const watched_memory&) = delete;

  // errc::no_memory, errc::system.
  [[nodiscard]] status start(const place& where) noexcept;
  // No thread uses the memory any more. Facts of a failure stay.
  void stop() noexcept;
  void forget_in_child() noexcept;

  // Pages of the mapping are in a second file, and a private mapping would show zeros for them: from now on a loss ends
  // the process instead of steps 2 and 3, also inside a call.
  void keep_mapping() noexcept { keeps_mapping_.store(true, std::memory_order_relaxed); }
  // Step 1 for a page that its keeper cannot bring, before it lets an access fail. Not called in a handler.
  void lose(std::uint64_t offset, const char* why) noexcept;

  // acquire: pairs with the release in the handler: the reason is there.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  // "the page at offset 8192 is lost: the file was cut off to 4096 bytes"
  [[nodiscard]] const char* why() const noexcept { return why_; }

 private:
  friend struct lost_page_handler;

  struct range {
    std::uint64_t from = 0, to = 0;  // from the base
    bool zeros = false;              // in memory at the moment
  };
  static constexpr unsigned ranges_max = 32;

  // The following members are called with held_ set and all signals blocked.
  void note_loss(std::uint64_t offset, int code, std::uint64_t file_length) noexcept;
  void set_lost() noexcept;
  [[nodiscard]] bool leave_file() noexcept;
  [[nodiscard]] bool put_zeros(std::uint64_t offset, std::uint64_t granule, std::uint64_t file_length) noexcept;
  void hide() noexcept;

  place where_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> held_{false};
  std::atomic<bool> keeps_mapping_{false};  // relaxed: set before a page can be lost that way
  bool left_file_ = false;
  unsigned count_ = 0;
  range ranges_[ranges_max];
  char why_[320] = "";
};

// The failure of a call that has read failed memory, whichever it was.
[[nodiscard]] errc fail_struck() noexcept;

}  // namespace nvm::platform
