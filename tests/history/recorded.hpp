// What threads of processes that may be killed asked for and got, in memory that outlives them: anonymous and shared
// with the parent, which made it.
//
// A record is begun before its call and ended after it; one that has no end was cut off.  Each thread writes its own
// log.
#pragma once

#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "explore/kv_history.hpp"
#include "explore/list_history.hpp"

namespace nvm::tests {

inline constexpr unsigned threads_of_history = 4;

// Set, one transaction of some lets other threads run between what it reads and what it writes.
inline bool give_way = false;
inline void let_others_run() noexcept {
  constexpr unsigned some = 4;
  thread_local unsigned calls = 0;
  if (give_way && ++calls % some == 0) std::this_thread::yield();
}

// Nanoseconds since the machine was started: the same for all processes.
inline std::uint64_t now() noexcept {
  timespec t{};
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

struct recorded_access {
  std::uint32_t key;
  std::uint32_t append;   // the element; 0: a read
  std::uint32_t list_at;  // in thread_log::lists
  std::uint32_t length;
};

struct recorded_transaction {
  static constexpr unsigned accesses_max = 4;
  std::uint64_t begun;
  std::atomic<std::uint64_t> ended;  // 0: not yet
  std::uint32_t count;
  bool rolled_back;
  recorded_access accesses[accesses_max];
};

struct recorded_call {
  std::uint64_t begun;
  std::atomic<std::uint64_t> ended;
  std::uint32_t key, value;
  explore::kv_call call;
  bool found;
};

struct thread_log {
  static constexpr std::size_t records_max = 20'000, lists_max = 6'000'000;
  // release by the thread; the parent reads when the process is gone
  std::atomic<std::uint32_t> transactions, calls;
  std::uint32_t lists_used;
  recorded_transaction transaction[records_max];
  recorded_call call[records_max];
  std::uint32_t lists[lists_max];
};

struct history_log {
  std::atomic<std::uint32_t> running;  // threads of the process that have begun to work
  std::atomic<std::uint32_t> failures;
  char failure[256];
  thread_log threads[threads_of_history];
};

class shared_history {
 public:
  shared_history() {
    // Pages that nobody touches cost nothing.
    void* p =
        ::mmap(nullptr, sizeof(history_log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    log_ = static_cast<history_log*>(p);
  }
  ~shared_history() { (void)::munmap(log_, sizeof(history_log)); }
  shared_history(const shared_history&) = delete;
  shared_history& operator=(const shared_history&) = delete;

  history_log* operator->() const noexcept { return log_; }
  history_log& operator*() const noexcept { return *log_; }

  // For the checkers.  Records without an end were cut off by the first crash after their begin.
  [[nodiscard]] std::vector<explore::list_transaction> transactions(const std::vector<std::uint64_t>& crashes) const {
    std::vector<explore::list_transaction> all;
    for (const thread_log& t : log_->threads) {
      for (std::uint32_t i = 0; i < t.transactions.load(); ++i) {
        const recorded_transaction& r = t.transaction[i];
        explore::list_transaction out;
        out.number = all.size();
        out.begun = r.begun;
        out.ended = r.ended.load();
        out.fate = r.rolled_back ? explore::fate::rolled_back : explore::fate::committed;
        if (out.ended == 0) {
          out.fate = explore::fate::cut_off;
          out.ended = first_after(crashes, r.begun);
        }
        for (std::uint32_t k = 0; k < r.count; ++k) {
          const recorded_access& a = r.accesses[k];
          out.accesses.push_back({a.key, a.append != 0, a.append, {}});
          if (a.append == 0 && r.ended.load() != 0)
            out.accesses.back().list.assign(t.lists + a.list_at, t.lists + a.list_at + a.length);
        }
        all.push_back(std::move(out));
      }
    }
    return all;
  }

  [[nodiscard]] std::vector<explore::kv_event> calls() const {
    std::vector<explore::kv_event> all;
    for (const thread_log& t : log_->threads) {
      for (std::uint32_t i = 0; i < t.calls.load(); ++i) {
        const recorded_call& c = t.call[i];
        const std::uint64_t ended = c.ended.load();
        all.push_back({c.key, c.call, c.value, c.found, ended != 0, c.begun, ended});
      }
    }
    return all;
  }

 private:
  static std::uint64_t first_after(const std::vector<std::uint64_t>& crashes, std::uint64_t time) {
    for (const std::uint64_t c : crashes) {
      if (c >= time) return c;
    }
    return UINT64_MAX;
  }
  history_log* log_;
};

}  // namespace nvm::tests
