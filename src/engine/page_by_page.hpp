// A pool in memory of which each page is relocated before a thread sees it (object/page_relocation.hpp), and what is left
// in the background.
//
// No page of the pool's data is shown to threads at first (platform/user_faults.hpp).  The thread that touches one
// waits until this has put it right through another mapping: microseconds.  A second thread puts right the others; when
// all are, the pool forgets its other bases, and all pages are ordinary ones.
//
// Threads: report() by any.  The two threads take no lock of the library but those of finish().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "object/object.hpp"
#include "platform/platform.hpp"

namespace nvm::engines {

// What is relocated.
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
  // All pages are right, and nobody asks for one any more.
  [[nodiscard]] virtual status finish() noexcept = 0;
};

class page_by_page {
 public:
  // Of the pages at `data`, the first of which is page 0 of `pool`.  `faults` has hidden them.  errc::system: no thread.
  [[nodiscard]] static result<std::unique_ptr<page_by_page>> start(std::unique_ptr<paged_pool> pool,
                                                                   platform::user_faults faults, std::byte* data);
  // All pages that are not right yet stay as they are: the next open goes on.  No thread uses the pool's objects.
  ~page_by_page();
  page_by_page(const page_by_page&) = delete;
  page_by_page& operator=(const page_by_page&) = delete;

  // No page is put right but those that threads touch; the pool's bases stay as they are.
  void rest() noexcept;
  // Adds what was done so far.
  void report(object::relocation_report& out, std::uint64_t& pages_left) noexcept;

 private:
  page_by_page(std::unique_ptr<paged_pool> pool, platform::user_faults faults, std::byte* data) noexcept;
  void answer() noexcept;
  void go_through() noexcept;
  void put_right(std::uint64_t page) noexcept;

  std::unique_ptr<paged_pool> pool_;
  platform::user_faults faults_;
  std::byte* data_;
  std::mutex one_at_a_time_;  // guards *pool_
  std::atomic<bool> stopping_{false};
  std::thread answering_;
  std::thread going_;
};

}  // namespace nvm::engines
