// Threads that live as long as a benchmark and start each piece of work together.
//
// One worker is the calling thread itself: while a process has never had a second thread, the C library takes cheaper
// locks, and a system may be up to a sixth faster for it (libpmemobj is). A program with one thread has that, too.
//
// Workers are shared by all systems of a benchmark, so that what a library keeps per thread (lanes, arenas) is warm in
// every repetition, as it is in a program that runs for longer than a benchmark does.
#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "harness/clock.hpp"

namespace nvm::bench {

class workers {
 public:
  struct timing {
    std::uint64_t wall_ns;  // first start to last end
    std::uint64_t cpu_ns;   // of the process meanwhile: these threads and those of libraries
  };

  explicit workers(unsigned threads) : gate_(static_cast<std::ptrdiff_t>(threads) + 1), slots_(threads) {
    if (threads == 1) return;
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this, i] { serve(i); });
  }
  ~workers() {
    if (threads_.empty()) return;
    stop_ = true;
    gate_.arrive_and_wait();
    for (std::thread& t : threads_) t.join();
  }
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;

  // Runs job(thread) on each thread at once, and rethrows what the first of them threw.
  timing run(const std::function<void(unsigned)>& job) {
    job_ = &job;
    const std::uint64_t cpu_start = process_cpu_ns();
    if (threads_.empty()) {
      work(0);
    } else {
      gate_.arrive_and_wait();
      gate_.arrive_and_wait();
    }
    timing sum{0, process_cpu_ns() - cpu_start};
    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;
    for (slot& s : slots_) {
      if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
      if (s.start_ns < first) first = s.start_ns;
      if (s.end_ns > last) last = s.end_ns;
    }
    sum.wall_ns = last - first;
    return sum;
  }

 private:
  struct alignas(64) slot {
    std::uint64_t start_ns = 0;
    std::uint64_t end_ns = 0;
    std::exception_ptr failure;
  };

  void serve(unsigned thread) {
    for (;;) {
      gate_.arrive_and_wait();
      if (stop_) return;
      work(thread);
      gate_.arrive_and_wait();
    }
  }

  void work(unsigned thread) {
    slot& s = slots_[thread];
    s.start_ns = wall_ns();
    try {
      (*job_)(thread);
    } catch (...) {
      s.failure = std::current_exception();
    }
    s.end_ns = wall_ns();
  }

  std::barrier<> gate_;  // orders job_, stop_ and slots_ between run() and the threads
  std::vector<slot> slots_;
  std::vector<std::thread> threads_;
  const std::function<void(unsigned)>* job_ = nullptr;
  bool stop_ = false;
};

}  // namespace nvm::bench
