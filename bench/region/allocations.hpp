// Allocations of one size, by several threads, each of which keeps some: what is timed of every allocator alike.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "harness/clock.hpp"

namespace nvm::bench {

struct allocation_load {
  std::uint64_t size;
  unsigned threads;
  std::uint64_t pairs;  // of each thread
  // That a thread keeps: it frees the oldest before it allocates another.
  [[nodiscard]] std::uint64_t kept() const noexcept {
    return std::clamp<std::uint64_t>((std::uint64_t{64} << 20) / size, 1, 256);
  }
};

// `of(thread)` makes what has allocate(i) and release(i), for i < kept().  Nanoseconds of a pair, processor time.
template <class Of>
double time_allocations(const allocation_load& l, Of&& of) {
  std::atomic<unsigned> ready{0};
  std::vector<std::uint64_t> took(l.threads);
  const auto work = [&](unsigned thread) {
    auto heap = of(thread);
    const std::uint64_t kept = l.kept();
    for (std::uint64_t i = 0; i < kept; ++i) heap.allocate(i);
    ++ready;
    while (ready.load() != l.threads) std::this_thread::yield();
    // Processor time: waiting for another thread is in it, and what else runs on the machine is not.
    const std::uint64_t begin = read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (std::uint64_t i = 0; i < l.pairs; ++i) {
      heap.release(i % kept);
      heap.allocate(i % kept);
    }
    took[thread] = read_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    for (std::uint64_t i = 0; i < kept; ++i) heap.release(i);
  };
  std::vector<std::thread> others;
  others.reserve(l.threads);
  for (unsigned t = 1; t < l.threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  std::uint64_t sum = 0;
  for (const std::uint64_t ns : took) sum += ns;
  return static_cast<double>(sum) / static_cast<double>(l.threads) / static_cast<double>(l.pairs);
}

}  // namespace nvm::bench
