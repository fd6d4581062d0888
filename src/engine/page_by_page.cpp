#include "engine/page_by_page.hpp"

#include <array>
#include <new>
#include <system_error>
#include <utility>

namespace nvm::engines {

page_by_page::page_by_page(std::unique_ptr<paged_pool> pool, platform::user_faults faults, std::byte* data) noexcept
    : pool_{std::move(pool)}, faults_{std::move(faults)}, data_{data} {}

result<std::unique_ptr<page_by_page>> page_by_page::start(std::unique_ptr<paged_pool> pool,
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

void page_by_page::rest() noexcept {
  // relaxed: the thread is joined.
  stopping_.store(true, std::memory_order_relaxed);
  if (going_.joinable()) going_.join();
}

page_by_page::~page_by_page() {
  rest();
  faults_.show_all();
  faults_.stop();
  if (answering_.joinable()) answering_.join();
}

void page_by_page::put_right(std::uint64_t page) noexcept {
  const std::lock_guard guard{one_at_a_time_};
  pool_->put_right(page);
}

void page_by_page::answer() noexcept {
  const platform::in_call here;
  std::array<platform::user_faults::fault, 16> waiting;
  while (const std::size_t n = faults_.wait(waiting)) {
    for (std::size_t i = 0; i < n; ++i) {
      put_right(static_cast<std::uint64_t>(waiting[i].page - data_) / platform::page_bytes());
      (void)faults_.show(waiting[i].page);
    }
  }
}

void page_by_page::go_through() noexcept {
  const platform::in_call here;
  for (std::uint64_t page = 0; page < pool_->pages(); ++page) {
    // relaxed: the next round sees it.
    if (stopping_.load(std::memory_order_relaxed)) return;
    put_right(page);
  }
  faults_.show_all();
  const std::lock_guard guard{one_at_a_time_};
  // A pool that does not take it is one of several bases, which the next open relocates again.
  (void)pool_->finish();
}

void page_by_page::report(object::relocation_report& out, std::uint64_t& pages_left) noexcept {
  const std::lock_guard guard{one_at_a_time_};
  out.add(pool_->report());
  pages_left = pool_->pages_left();
}

}  // namespace nvm::engines
