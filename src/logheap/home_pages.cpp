#include "logheap/home_pages.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>

namespace nvm::logheap {
namespace {

using outcome = platform::user_faults::outcome;

constexpr std::byte zeros_of_a_page[home_pages::page_bytes]{};

}  // namespace

// ---- life ----

home_pages::home_pages(const home_pages_settings& s) noexcept
    : settings_{s},
      pages_max_{s.bytes_max == 0 ? 0 : std::max(s.bytes_max, bytes_max_least) / page_bytes},
      pages_{s.bytes / page_bytes},
      groups_{ceil_div(s.bytes, blocks_in_group * block_bytes)} {}

result<std::unique_ptr<home_pages>> home_pages::open(const home_pages_settings& settings,
                                                     std::vector<home_read> readers) noexcept {
  NVM_ASSERT(settings.first % page_bytes == 0 && settings.bytes % page_bytes == 0 && !readers.empty());
  if (platform::page_bytes() != page_bytes) {
    return fail(errc::system, "home pages need pages of %lu bytes, this system has %lu", page_bytes,
                platform::page_bytes());
  }
  std::unique_ptr<home_pages> made{new (std::nothrow) home_pages{settings}};
  if (made == nullptr || !made->pages_.exists() || !made->groups_.exists()) {
    return fail(errc::no_memory, "no volatile memory for the books of home pages");
  }
  auto faults = platform::user_faults::open(settings.base, settings.bytes);
  if (!faults) return faults.error();
  made->faults_.emplace(std::move(*faults));
  if (status s = made->start(std::move(readers)); !s) return s.error();
  return made;
}

status home_pages::start(std::vector<home_read> readers) noexcept {
  const platform::signals_blocked quiet;
  try {
    threads_.reserve(readers.size());
    for (home_read& read : readers) {
      threads_.emplace_back([this, mine = std::move(read)]() noexcept { serve(mine); });
    }
  } catch (const std::system_error& e) {
    // The system's limit of threads: those that have started suffice.
    if (!threads_.empty()) return {};
    return fail(errc::system, "threads that build home pages: %s", e.what());
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory for threads that build home pages");
  }
  return {};
}

home_pages::~home_pages() {
  if (platform::process_id() != process_) {
    forget_in_child();
    return;
  }
  if (!faults_) return;
  stopping_.store(true, std::memory_order_relaxed);
  faults_->stop();
  for (std::thread& t : threads_) t.join();
}

void home_pages::forget_in_child() noexcept {
  for (std::thread& t : threads_) t.detach();
  threads_.clear();
  if (faults_) faults_->forget_in_child();
}

// ---- building ----

void home_pages::serve(const home_read& read) noexcept {
  std::array<platform::user_faults::fault, 4> faults;  // few: other fault threads take the rest
  std::array<std::uint64_t, faults.size()> built;
  while (const std::size_t count = faults_->wait(faults)) {
    served_.fetch_add(count, std::memory_order_relaxed);
    const platform::in_call here;
    std::size_t n = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto page = static_cast<std::uint64_t>(faults[i].page - settings_.base) / page_bytes;
      // The page was there already if two threads touched it, or a caller has built it; waiting threads look again.
      if (make_present(page, read, faults[i].to_store)) {
        built[n++] = page;
      } else {
        faults_->wake(faults[i].page);
      }
    }
    // After all that threads wait for.
    for (std::size_t i = 0; i < n; ++i) build_ahead(built[i], read);
  }
}

// Returns whether this call has built it.
bool home_pages::make_present(std::uint64_t page, const home_read& read, bool to_store) noexcept {
  constexpr std::chrono::milliseconds pause_max{100};
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, pause_max)) {
    make_room();
    switch (build(page, read, to_store)) {
      case outcome::installed:
        return true;
      case outcome::present:
      case outcome::gone:
        return false;
      case outcome::no_memory:
        break;
    }
    // Not under the page's lock, which a page to be dropped may share.
    waited_.fetch_add(1, std::memory_order_relaxed);
    if (stopping_.load(std::memory_order_relaxed)) return false;
    (void)shrink(present_.load(std::memory_order_relaxed) / 8 * 7 * page_bytes);
    const platform::uncancelled until_awake;
    std::this_thread::sleep_for(pause);
  }
}

void home_pages::build_ahead(std::uint64_t touched, const home_read& read) noexcept {
  const std::uint64_t most = std::max(settings_.fault_around, 1U) - 1;
  std::uint64_t before = 0;
  while (before < std::min(most, touched) && is_present(touched - 1 - before)) ++before;
  const std::uint64_t end = std::min(touched + 1 + before, settings_.bytes / page_bytes);
  for (std::uint64_t page = touched + 1; page < end; ++page) {
    if (pages_max_ != 0 && present_.load(std::memory_order_relaxed) >= pages_max_) return;
    if (is_present(page)) continue;
    const outcome done = build(page, read, false);
    if (done == outcome::present) continue;
    if (done != outcome::installed) return;
    ahead_.fetch_add(1, std::memory_order_relaxed);
  }
}

outcome home_pages::build(std::uint64_t page, const home_read& read, bool to_store) noexcept {
  alignas(line_bytes) std::byte contents[page_bytes];
  if (planted(plant::page_built_unlocked)) read(settings_.first + page * page_bytes, contents, page_bytes);
  const std::lock_guard guard{lock_of(page)};
  const std::uint32_t state = pages_[page].load(std::memory_order_relaxed);
  if ((state & present) != 0) return outcome::present;
  // Counted first: a page that a thread has seen is counted.  Marked last: a page with the mark is present.
  std::atomic_ref<std::uint32_t> in_group = groups_[page / (pages_in_block * blocks_in_group)];
  in_group.fetch_add(1, std::memory_order_relaxed);
  present_.fetch_add(1, std::memory_order_relaxed);
  const outcome done = install(page, read, contents, to_store);
  NVM_ASSERT(done != outcome::present);  // only this object installs pages here: commits would miss any others
  if (done == outcome::installed) {
    pages_[page].store(state | present | used, std::memory_order_relaxed);
  } else {
    in_group.fetch_sub(1, std::memory_order_relaxed);
    present_.fetch_sub(1, std::memory_order_relaxed);
  }
  return done;
}

outcome home_pages::install(std::uint64_t page, const home_read& read, std::byte* contents, bool to_store) noexcept {
  const home_t home = settings_.first + page * page_bytes;
  if (planted(plant::page_shown_unfinished)) {
    const outcome done = faults_->install_zeros(address(page));
    read(home, contents, page_bytes);
    std::memcpy(address(page), contents, page_bytes);
    return done;
  }
  if (!planted(plant::page_built_unlocked)) read(home, contents, page_bytes);
  if (settings_.lost != nullptr && settings_.lost(settings_.context)) return faults_->refuse(address(page));
  // A page of zeros that is only read takes no memory.
  const bool zeros = !to_store && std::memcmp(contents, zeros_of_a_page, page_bytes) == 0;
  built_.fetch_add(1, std::memory_order_relaxed);
  zeros_.fetch_add(zeros ? 1 : 0, std::memory_order_relaxed);
  return zeros ? faults_->install_zeros(address(page)) : faults_->install(address(page), contents);
}

// ---- commits ----

// Calls visit(first byte, bytes from the range's first, how many bytes) for each present page, under its lock.
template <class Visit>
void home_pages::each_present(home_t home, std::uint64_t size, Visit&& visit) noexcept {
  NVM_ASSERT(home >= settings_.first && range_inside(home - settings_.first, size, settings_.bytes));
  const std::uint64_t first = home - settings_.first;
  for (std::uint64_t from = first; from < first + size;) {
    const std::uint64_t block_end = std::min(first + size, round_down(from, block_bytes) + block_bytes);
    const std::lock_guard guard{lock_of(from / page_bytes)};
    while (from < block_end) {
      const std::uint64_t page = from / page_bytes;
      const std::uint64_t end = std::min(block_end, (page + 1) * page_bytes);
      const std::uint32_t state = pages_[page].load(std::memory_order_relaxed);
      if ((state & present) != 0) {
        visit(settings_.base + from, from - first, end - from);
        if ((state & used) == 0) pages_[page].store(state | used, std::memory_order_relaxed);
      }
      from = end;
    }
  }
}

void home_pages::store(home_t home, const void* from, std::uint64_t size) noexcept {
  each_present(home, size, [&](std::byte* to, std::uint64_t done, std::uint64_t bytes) {
    isolation::copy_in(to, static_cast<const std::byte*>(from) + done, bytes);
  });
}

void home_pages::clear(home_t home, std::uint64_t size) noexcept {
  each_present(home, size, [&](std::byte* to, std::uint64_t, std::uint64_t bytes) {
    isolation::copy_in(to, zeros_of_a_page, bytes);
  });
}

void home_pages::pin(home_t home, std::uint64_t size, const home_read* own) noexcept {
  if (size == 0) return;
  NVM_ASSERT(home >= settings_.first && range_inside(home - settings_.first, size, settings_.bytes));
  const std::uint64_t end = page_of(home + size - 1) + 1;
  // Pinned first: pages that are present stay, and pages that are built below cannot be dropped meanwhile.
  bool all_present = true;
  for (std::uint64_t page = page_of(home); page < end;) {
    const std::uint64_t block_end = std::min(end, round_down(page, pages_in_block) + pages_in_block);
    const std::lock_guard guard{lock_of(page)};
    for (; page < block_end; ++page) {
      const std::uint32_t state = pages_[page].load(std::memory_order_relaxed);
      NVM_ASSERT(state + pin_unit > state);
      pages_[page].store((state + pin_unit) | used, std::memory_order_relaxed);
      all_present = all_present && (state & present) != 0;
    }
  }
  if (!all_present) build_absent(home, size, own, true);
}

void home_pages::unpin(home_t home, std::uint64_t size) noexcept {
  if (size == 0) return;
  const std::uint64_t end = page_of(home + size - 1) + 1;
  for (std::uint64_t page = page_of(home); page < end;) {
    const std::uint64_t block_end = std::min(end, round_down(page, pages_in_block) + pages_in_block);
    const std::lock_guard guard{lock_of(page)};
    for (; page < block_end; ++page) {
      const std::uint32_t state = pages_[page].load(std::memory_order_relaxed);
      NVM_ASSERT(state >= pin_unit);
      pages_[page].store((state - pin_unit) | used, std::memory_order_relaxed);
    }
  }
}

// ---- memory ----

void home_pages::touch(home_t home, std::uint64_t size, const home_read* own) noexcept {
  if (size == 0) return;
  NVM_ASSERT(home >= settings_.first && range_inside(home - settings_.first, size, settings_.bytes));
  build_absent(home, size, own, false);
}

void home_pages::build_absent(home_t home, std::uint64_t size, const home_read* own, bool to_store) noexcept {
  const std::uint64_t end = page_of(home + size - 1) + 1;
  for (std::uint64_t page = page_of(home); page < end; ++page) {
    if (own == nullptr) {
      // The fault makes a fault thread build it; if the page is present already, this costs a load.
      (void)std::atomic_ref<std::byte>{*address(page)}.load(std::memory_order_relaxed);
    } else if (!is_present(page)) {
      make_present(page, *own, to_store);
    }
  }
}

// Drops those of the block's present and unpinned pages that wanted(page, state) names; it may change the state.
template <class Wanted>
void home_pages::drop_in_block(std::uint64_t block, Wanted&& wanted) noexcept {
  const std::uint64_t first = block * pages_in_block;
  const std::uint64_t count = std::min(pages_in_block, settings_.bytes / page_bytes - first);
  const std::lock_guard guard{lock_of(first)};
  std::uint32_t chosen = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t state = pages_[first + i].load(std::memory_order_relaxed);
    if ((state & present) == 0) continue;
    if (state >= pin_unit && !planted(plant::pinned_page_dropped)) continue;
    if (wanted(first + i, state)) chosen |= 1U << i;
  }
  while (chosen != 0) {
    const auto from = static_cast<unsigned>(std::countr_zero(chosen));
    const auto n = static_cast<unsigned>(std::countr_one(chosen >> from));
    chosen &= ~(((1U << n) - 1) << from);
    // An error (the program has locked them in memory): they stay.
    if (!platform::drop_private_pages(address(first + from), n * page_bytes)) continue;
    for (std::uint64_t page = first + from; page < first + from + n; ++page) {
      pages_[page].fetch_and(~(present | used), std::memory_order_relaxed);
    }
    groups_[block / blocks_in_group].fetch_sub(n, std::memory_order_relaxed);
    present_.fetch_sub(n, std::memory_order_relaxed);
    dropped_.fetch_add(n, std::memory_order_relaxed);
  }
}

void home_pages::drop(home_t home, std::uint64_t size) noexcept {
  NVM_ASSERT(home >= settings_.first && range_inside(home - settings_.first, size, settings_.bytes));
  const std::uint64_t first = ceil_div(home - settings_.first, page_bytes);
  const std::uint64_t end = (home - settings_.first + size) / page_bytes;
  for (std::uint64_t page = first; page < end;) {
    const std::uint64_t block = page / pages_in_block;
    const std::uint64_t group = block / blocks_in_group;
    if (groups_[group].load(std::memory_order_relaxed) == 0) {
      page = (group + 1) * blocks_in_group * pages_in_block;
      continue;
    }
    drop_in_block(block, [&](std::uint64_t p, std::uint32_t) { return p >= first && p < end; });
    page = (block + 1) * pages_in_block;
  }
}

std::uint64_t home_pages::shrink(std::uint64_t bytes_max) noexcept {
  const std::lock_guard guard{shrinking_};
  sweep(bytes_max / page_bytes);
  return present_.load(std::memory_order_relaxed) * page_bytes;
}

// Called before a page is built.
void home_pages::make_room() noexcept {
  if (pages_max_ == 0) return;
  const auto is_full = [this] {
    return present_.load(std::memory_order_relaxed) >=
           std::max(pages_max_, patient_until_.load(std::memory_order_relaxed));
  };
  if (!is_full()) return;
  const std::lock_guard guard{shrinking_};
  if (!is_full()) return;
  // Some at a time.  If pins keep the limit from being met, not for each page anew.
  const std::uint64_t some = pages_max_ / 64 + 1;
  sweep(pages_max_ - some);
  const std::uint64_t left = present_.load(std::memory_order_relaxed);
  patient_until_.store(left >= pages_max_ ? left + some : 0, std::memory_order_relaxed);
}

// Two rounds: each page gets its second chance in the first at the latest.  shrinking_ is held.
void home_pages::sweep(std::uint64_t pages_max) noexcept {
  const std::uint64_t blocks = ceil_div(settings_.bytes, block_bytes);
  const auto excess = [&] {
    const std::uint64_t now = present_.load(std::memory_order_relaxed);
    return now - std::min(now, pages_max);
  };
  std::uint64_t passed = 0;
  while (passed < 2 * blocks && excess() != 0) {
    std::uint64_t n = 1;
    if (hand_ % blocks_in_group == 0 && groups_[hand_ / blocks_in_group].load(std::memory_order_relaxed) == 0) {
      n = std::min(blocks_in_group, blocks - hand_);
    } else {
      std::uint64_t wanted = excess();
      drop_in_block(hand_, [&](std::uint64_t page, std::uint32_t state) {
        if (wanted == 0) return false;
        if ((state & used) != 0 && pages_max != 0) {
          pages_[page].store(state & ~used, std::memory_order_relaxed);
          return false;
        }
        --wanted;
        return true;
      });
    }
    passed += n;
    hand_ = hand_ + n == blocks ? 0 : hand_ + n;
  }
}

// ---- looking ----

home_pages_statistics home_pages::statistics() const noexcept {
  home_pages_statistics s;
  s.pages = present_.load(std::memory_order_relaxed);
  s.bytes = s.pages * page_bytes;
  s.built = built_.load(std::memory_order_relaxed);
  s.zeros = zeros_.load(std::memory_order_relaxed);
  s.faults = served_.load(std::memory_order_relaxed);
  s.ahead = ahead_.load(std::memory_order_relaxed);
  s.dropped = dropped_.load(std::memory_order_relaxed);
  s.waited = waited_.load(std::memory_order_relaxed);
  return s;
}

std::string home_pages::check() {
  constexpr std::uint64_t pages_in_group = pages_in_block * blocks_in_group;
  const std::uint64_t pages = settings_.bytes / page_bytes;
  std::uint64_t all = 0;
  for (std::uint64_t first = 0; first < pages; first += pages_in_group) {
    const std::uint64_t counted = groups_[first / pages_in_group].load(std::memory_order_relaxed);
    // Looking at the books of groups that were never used would bring these into being.
    if (counted == 0) continue;
    std::uint64_t there = 0;
    for (std::uint64_t page = first; page < std::min(pages, first + pages_in_group); ++page) {
      const std::lock_guard guard{lock_of(page)};  // a fault thread may be about to mark what it has installed
      there += is_present(page) ? 1 : 0;
    }
    if (there != counted) {
      return "home pages from page " + std::to_string(first) + ": " + std::to_string(there) + " present, counted " +
             std::to_string(counted);
    }
    all += there;
  }
  const std::uint64_t counted = present_.load(std::memory_order_relaxed);
  if (all != counted) return std::to_string(all) + " home pages present, counted " + std::to_string(counted);
  return {};
}

}  // namespace nvm::logheap
