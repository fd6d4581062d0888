// A pool in memory whose pages are relocated before a thread sees them (object/page_relocation.hpp), the rest in the
// background.
//
// At first all pages of the pool's data are hidden from threads (platform/user_faults.hpp). A thread that touches one
// waits microseconds until it has been put right through another mapping. A second thread puts the others right; when
// all are right, the pool forgets its other bases, and all pages are ordinary ones.
//
// Threads: report() by any.  The two threads take no lock of the library but those of finish().
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "object/object.hpp"
#include "platform/platform.hpp"

namespace nvm::engines {

// The pool that is relocated.
class paged_pool {
 public:
  paged_pool() = default;
  paged_pool(const paged_pool&) = delete;
  paged_pool& operator=(const paged_pool&) = delete;
  virtual ~paged_pool() = default;
  [[nodiscard]] virtual std::uint64_t pages() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t pages_left() const noexcept = 0;
  [[nodiscard]] virtual const object::relocation_report& report() const noexcept = 0;
  virtual void put_right(std::uint64_t page) noexcept = 0;
  // Makes durable what this thread has put right; no other thread is in put_right(), or finishes, in between.
  virtual void settle() noexcept = 0;
  // Called when all pages are right and settled, and none will be asked for any more.
  [[nodiscard]] virtual status finish() noexcept = 0;
};

class page_by_page {
 public:
  // Starts the relocation of the pages at `data`, the first of which is page 0 of `pool`. `faults` has hidden them.
  // errc::system: no thread.
  [[nodiscard]] static result<std::unique_ptr<page_by_page>> start(std::unique_ptr<paged_pool> pool,
                                                                   platform::user_faults faults, std::byte* data);
  // Pages that are not right yet stay as they are, and the next open continues.  No thread uses the pool's objects.
  ~page_by_page();
  page_by_page(const page_by_page&) = delete;
  page_by_page& operator=(const page_by_page&) = delete;

  // Puts all pages right, and the pool forgets its other bases: for a file that is given up while threads go on
  // reading, after which it must not be stored to. Costs as much as an eager relocation of the rest.
  void complete() noexcept;
  // Adds the work done so far.
  void report(object::relocation_report& out, std::uint64_t& pages_left) noexcept;

 private:
  page_by_page(std::unique_ptr<paged_pool> pool, platform::user_faults faults, std::byte* data) noexcept;
  static constexpr std::uint64_t together = 8;
  void answer() noexcept;
  void answer_for(std::uint64_t page) noexcept;
  void go_through() noexcept;
  void put_right(std::uint64_t page, std::uint64_t count) noexcept;

  std::unique_ptr<paged_pool> pool_;
  platform::user_faults faults_;
  std::byte* data_;
  std::mutex one_at_a_time_;  // guards *pool_
  std::atomic<bool> stopping_{false};
  std::thread answering_;
  std::thread going_;
};

inline page_by_page::page_by_page(std::unique_ptr<paged_pool> pool, platform::user_faults faults,
                                  std::byte* data) noexcept
    : pool_{std::move(pool)}, faults_{std::move(faults)}, data_{data} {}

inline result<std::unique_ptr<page_by_page>> page_by_page::start(std::unique_ptr<paged_pool> pool,
                                                                 platform::user_faults faults, std::byte* data) {
  std::unique_ptr<page_by_page> made{new page_by_page{std::move(pool), std::move(faults), data}};
  // A handler of the program that ran here could wait for a page that this thread is to bring.
  const platform::signals_blocked none;
  try {
    made->answering_ = std::thread{[p = made.get()] { p->answer(); }};
    made->going_ = std::thread{[p = made.get()] { p->go_through(); }};
  } catch (const std::system_error& e) {
    return fail(errc::system, "no thread to relocate pages: %s", e.what());
  }
  return made;
}

inline void page_by_page::complete() noexcept {
  if (going_.joinable()) going_.join();
}

inline page_by_page::~page_by_page() {
  // relaxed: the thread is joined.
  stopping_.store(true, std::memory_order_relaxed);
  if (going_.joinable()) going_.join();
  faults_.show_all();
  faults_.stop();
  if (answering_.joinable()) answering_.join();
}

// Settled at once: the other thread finishes when it finds all pages right.
inline void page_by_page::put_right(std::uint64_t page, std::uint64_t count) noexcept {
  const std::lock_guard guard{one_at_a_time_};
  for (std::uint64_t i = 0; i < count; ++i) pool_->put_right(page + i);
  pool_->settle();
}

inline void page_by_page::answer() noexcept {
  const platform::in_call here;
  std::array<platform::user_faults::fault, 16> waiting;
  while (const std::size_t n = faults_.wait(waiting)) {
    for (std::size_t i = 0; i < n; ++i) {
      answer_for(static_cast<std::uint64_t>(waiting[i].page - data_) / platform::page_bytes());
    }
  }
}

// Together with its neighbours: a thread that touches one page often touches the next.
inline void page_by_page::answer_for(std::uint64_t page) noexcept {
  const std::uint64_t first = round_down(page, together);
  const bool alone = first + together > pool_->pages();
  const std::uint64_t from = alone ? page : first, count = alone ? 1 : together;
  put_right(from, count);
  faults_.show(data_ + from * platform::page_bytes(), count);
}

inline void page_by_page::go_through() noexcept {
  const platform::in_call here;
  for (std::uint64_t page = 0; page < pool_->pages(); ++page) {
    // relaxed: the next round sees it.
    if (stopping_.load(std::memory_order_relaxed)) return;
    const std::lock_guard guard{one_at_a_time_};
    pool_->put_right(page);
  }
  faults_.show_all();
  const std::lock_guard guard{one_at_a_time_};
  pool_->settle();
  // If that fails, the pool keeps several bases, and the next open relocates it again.
  (void)pool_->finish();
}

inline void page_by_page::report(object::relocation_report& out, std::uint64_t& pages_left) noexcept {
  const std::lock_guard guard{one_at_a_time_};
  out.add(pool_->report());
  pages_left = pool_->pages_left();
}

}  // namespace nvm::engines
