#include "tier/swapper.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

namespace nvm::tier {
namespace {

using outcome = platform::user_faults::outcome;

constexpr std::uint64_t refused_rounds_max = 64;
constexpr std::chrono::milliseconds pause_for_room{1};
constexpr unsigned pauses_max = 20;
constexpr std::chrono::milliseconds pause_max{100};  // until memory is asked for again

// Calls f(first, count) for each run of neighbours among these pages, which are in order.
template <class Pages, class F>
void each_run(const Pages& pages, F&& f) noexcept {
  for (std::size_t i = 0; i < pages.size();) {
    std::size_t n = 1;
    while (i + n < pages.size() && pages[i + n] == pages[i] + n) ++n;
    f(pages[i], n);
    i += n;
  }
}

}  // namespace

// ---- life ----

// Pages that leave at a time.
struct swapper::batch {
  std::vector<page_t> dropped;  // clean
  std::vector<page_t> chosen;   // to be written, in order
  std::vector<page_t> zeros;    // of these: nothing to write
  std::vector<page_t> aside;    // cannot leave
  std::vector<page_t> given_back;
  std::vector<leaving_page> written;
  unsigned unprotected = 0;  // could not be chosen
  platform::zeroed_memory bytes{batch_max * page_bytes};
  [[nodiscard]] std::byte* at(std::size_t i) const noexcept {
    return static_cast<std::byte*>(bytes.data()) + i * page_bytes;
  }
};

swapper::swapper(const swapper_settings& settings, std::unique_ptr<slow_pages> slow) noexcept
    : settings_{settings},
      slow_{std::move(slow)},
      states_{settings.pages},
      library_pins_{settings.pages},
      program_pins_{settings.pages},
      incoming_{ahead_max * page_bytes} {}

result<std::unique_ptr<swapper>> swapper::open(const swapper_settings& settings,
                                               std::unique_ptr<slow_pages> slow) noexcept try {
  if (platform::page_bytes() != page_bytes) {
    return fail(errc::system, "pages leave in sizes of %" PRIu64 ", this system has %" PRIu64, page_bytes,
                platform::page_bytes());
  }
  if (settings.pages >= no_page) return fail(errc::too_large, "%" PRIu64 " pages are too many", settings.pages);
  std::unique_ptr<swapper> made{new swapper{settings, std::move(slow)}};
  auto policy = make_policy(settings.policy, settings.pages);
  if (!policy) return policy.error();
  made->policy_ = std::move(*policy);
  made->batch_ = std::make_unique<batch>();
  for (auto* list : {&made->batch_->dropped, &made->batch_->chosen, &made->batch_->zeros, &made->batch_->aside,
                     &made->batch_->given_back}) {
    list->reserve(batch_max);
  }
  made->batch_->written.reserve(batch_max);
  if (made->states_.data() == nullptr || made->library_pins_.data() == nullptr ||
      made->program_pins_.data() == nullptr || made->incoming_.data() == nullptr ||
      made->batch_->bytes.data() == nullptr) {
    return fail(errc::no_memory, "no volatile memory for the books of a tier");
  }
  if (status s = made->look_at_file(); !s) return s.error();
  if (settings.found != nullptr) *settings.found = {made->slow_pages_, made->present_};
  auto faults = platform::user_faults::open_swapped(settings.base, settings.pages * page_bytes, settings.shared);
  if (!faults) return faults.error();
  made->faults_.emplace(std::move(*faults));
  if (status s = made->start(); !s) return s.error();
  return made;
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for the books of a tier");
}

// Finds out which pages are holes. Called before any page is installed and before the mapping is watched. Blocks
// without contents are holes, too, and are given back: the first touch of such a page would be no fault that we are
// told of.
status swapper::look_at_file() noexcept {
  const auto bytes = (settings_.grows != nullptr ? settings_.grows : settings_.fast)->size();
  if (!bytes) return bytes.error();
  const std::uint64_t end = std::min(*bytes, settings_.offset + settings_.pages * page_bytes);
  const auto page_at = [this](std::uint64_t offset) { return (offset - settings_.offset) / page_bytes; };
  for (std::uint64_t at = settings_.offset; at < end;) {
    const auto data = settings_.fast->next_data(at);
    if (!data) return data.error();
    const std::uint64_t hole_end = std::min(std::max(round_down(*data, page_bytes), at), end);
    if (hole_end > at) {
      if (settings_.shared) {
        if (status s = settings_.fast->punch(at, hole_end - at); !s) return s;
      }
      if (status s = slow_->take_words(page_at(at), page_at(hole_end) - page_at(at)); !s) return s;
      for (std::uint64_t page = page_at(at); page < page_at(hole_end); ++page) {
        slow_pages_ += slow_->is_zeros(static_cast<page_t>(page)) ? 0 : 1;
      }
    }
    if (hole_end == end) break;
    const auto hole = settings_.fast->next_hole(hole_end);
    if (!hole) return hole.error();
    at = std::max(std::min(round_up(*hole, page_bytes), end), hole_end + page_bytes);
    slow_->take_present(page_at(hole_end), page_at(at) - page_at(hole_end));
    for (std::uint64_t page = page_at(hole_end); page < page_at(at); ++page) found(static_cast<page_t>(page));
  }
  pages_known_ = page_at(end);
  return {};
}

// A page that the file has at the open.
void swapper::found(page_t page) noexcept {
  if (!settings_.shared || !settings_.keep_found) return came(page, stored_to);
  set_state(page, stored_to);
  ++present_;
  pins(pinned_by::library)[page] = 1;
  states()[page] |= held_bit;
  ++held_;
  ++kept_found_;
}

status swapper::start() noexcept {
  const platform::signals_blocked quiet;
  try {
    serving_ = std::thread{[this]() noexcept { serve(); }};
  } catch (const std::system_error& e) {
    return fail(errc::system, "threads that bring pages: %s", e.what());
  }
  // Without it pages come and go, but policies know only when.
  if (settings_.shared) pagemap_ = platform::open_descriptor("/proc/self/pagemap", O_RDONLY);
  return {};
}

status swapper::start_leaving() noexcept {
  if (!settings_.shared) return {};
  const platform::signals_blocked quiet;
  const std::lock_guard guard{lock_};
  leaving_stopped_ = false;
  wants_room_ = true;  // there may be too many already
  try {
    letting_go_ = std::thread{[this]() noexcept { let_go(); }};
  } catch (const std::system_error& e) {
    leaving_stopped_ = true;
    return fail(errc::system, "a thread that lets pages go: %s", e.what());
  }
  return {};
}

void swapper::forget_in_child() noexcept {
  if (faults_) faults_->forget_in_child();
  if (pagemap_ >= 0) ::close(pagemap_);
  pagemap_ = -1;
}

swapper::~swapper() {
  if (platform::process_id() != process_) {
    if (serving_.joinable()) serving_.detach();
    if (letting_go_.joinable()) letting_go_.detach();
    forget_in_child();
  } else {
    stop_leaving();
    if (faults_) faults_->stop();
    if (serving_.joinable()) serving_.join();
  }
  if (pagemap_ >= 0) ::close(pagemap_);
}

void swapper::stop_leaving() noexcept {
  {
    const std::lock_guard guard{lock_};
    leaving_stopped_ = true;
  }
  changed_.notify_all();
  if (letting_go_.joinable()) letting_go_.join();
  // Under this lock no batch is under way.
  const std::lock_guard last{evicting_};
}

// ---- faults ----

void swapper::serve() noexcept {
  const platform::in_call here;
  std::array<platform::user_faults::fault, 16> waiting;
  while (const std::size_t n = faults_->wait(waiting)) {
    for (std::size_t i = 0; i < n; ++i) handle(waiting[i]);
  }
}

void swapper::handle(const platform::user_faults::fault& f) noexcept {
  const std::uint64_t since = platform::monotonic_ns();
  const auto page = static_cast<page_t>(static_cast<std::uint64_t>(f.page - settings_.base) / page_bytes);
  {
    const std::lock_guard guard{lock_};
    const state now = state_of(page);
    if (now == absent) {
      ++counts_.faults;
    } else {
      if (f.is_there) return store_to_protected(page);
      // The page came with a neighbour, or for another thread, after this thread had asked.
      return faults_->wake(f.page);
    }
  }
  bring(page, f.to_store, since);
}

// lock_ is held.
void swapper::store_to_protected(page_t page) noexcept {
  ++counts_.store_faults;
  const state now = state_of(page);
  if (now == clean) slow_->forget(page);
  if (now == clean || now == leaving) set_state(page, stored_to);
  faults_->unprotect(address(page), 1);
}

// How many pages are brought: more and more while faults go on where the last one ended.  lock_ is held.
unsigned swapper::wish_ahead(page_t page) noexcept {
  // Pages in between may have been present.
  ahead_ = page - ahead_next_ < ahead_near ? std::min(2 * ahead_, ahead_max) : 1;
  return ahead_;
}

// Marks the page as coming, and neighbours of its kind that may come with it.  lock_ is held.
unsigned swapper::mark_coming(page_t page, unsigned wished) noexcept {
  const bool zeros = slow_->is_zeros(page);
  const std::uint64_t end = std::min(pages_known_, std::uint64_t{page} + wished);
  unsigned n = 0;
  do {
    set_state(page + n, coming);
    ++n;
  } while (page + n < end && state_of(page + n) == absent && slow_->is_zeros(page + n) == zeros);
  return n;
}

void swapper::bring(page_t page, bool to_store, std::uint64_t since_ns) noexcept {
  unsigned count = 0;
  bool zeros = false;
  {
    const std::lock_guard guard{lock_};
    // The file may have grown: pages beyond were never written.
    if (page >= pages_known_) {
      const auto bytes = (settings_.grows != nullptr ? settings_.grows : settings_.fast)->size();
      const std::uint64_t pages = bytes && *bytes > settings_.offset ? (*bytes - settings_.offset) / page_bytes : 0;
      const std::uint64_t before = pages_known_;
      pages_known_ = std::min(std::max(pages, std::uint64_t{page} + 1), settings_.pages);
      for (std::uint64_t p = before; p < pages_known_; ++p)
        slow_pages_ += slow_->is_zeros(static_cast<page_t>(p)) ? 0 : 1;
    }
    zeros = slow_->is_zeros(page);
    count = mark_coming(page, wish_ahead(page));
    bringing_ = true;
  }
  if (settings_.shared) make_room(count);
  std::uint32_t others = 0;  // a bit for each page
  const unsigned got = zeros ? bring_zeros(page, count) : bring_contents(page, count, to_store, others);
  const std::lock_guard guard{lock_};
  for (unsigned i = 0; i < count; ++i) {
    if (state_of(page + i) == coming) set_state(page + i, absent);
    if (i >= got) continue;
    const bool stored = zeros || (i == 0 && to_store) || (others >> i & 1) != 0 || !settings_.shared;
    slow_pages_ -= zeros ? 0 : 1;
    if (stored && settings_.shared) slow_->forget(page + i);
    came(page + i, stored ? stored_to : clean);
    states()[page + i] |= fresh_bit;
  }
  (zeros ? counts_.zeros_in : counts_.in) += got;
  counts_.ahead += zeros || got == 0 ? 0 : got - 1;
  ahead_next_ = page + std::max(got, 1U);
  bringing_ = false;
  if (settling_ != 0) settled_.notify_all();
  fault_ns_.add(platform::monotonic_ns() - since_ns);
}

unsigned swapper::bring_zeros(page_t page, unsigned count) noexcept {
  if (count > 1 && faults_->install_zeros(address(page), count) == outcome::installed) return count;
  // Some may be there: another program has made them past the mapping. Or there is no memory, or the file system has
  // none; or the pages are not all in one mapping, since parts of it have another access. Waits for the one that is
  // needed, and takes those after it that come at once.
  for (std::chrono::milliseconds pause{1};;) {
    const outcome done = faults_->install_zeros(address(page), 1);
    if (done == outcome::gone) return 0;
    if (done == outcome::present) faults_->wake(address(page));
    if (done != outcome::no_memory) break;
    if (settings_.shared) (void)evict(batch_max);
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, pause_max);
  }
  unsigned got = 1;
  for (; got < count; ++got) {
    const outcome done = faults_->install_zeros(address(page + got), 1);
    if (done != outcome::installed && done != outcome::present) break;
  }
  return got;
}

// `others` gets a bit for each page that was there already: another program has made it past the mapping, and its bytes
// count.
unsigned swapper::bring_contents(page_t page, unsigned count, bool to_store, std::uint32_t& others) noexcept {
  static_assert(ahead_max <= 32);
  auto* const contents = static_cast<std::byte*>(incoming_.data());
  errno = 0;
  auto read = slow_->read_ahead(page, count, contents);
  // The system has no memory at the moment: the page is not lost. Tries fewer, makes room, and waits.
  for (std::chrono::milliseconds pause{1}; !read && errno == ENOMEM; pause = std::min(2 * pause, pause_max)) {
    count = 1;
    if (settings_.shared) (void)evict(batch_max);
    std::this_thread::sleep_for(pause);
    errno = 0;
    read = slow_->read_ahead(page, count, contents);
  }
  if (!read) {
    give_up(page, last_message());
    return 0;
  }
  const bool guarded = settings_.shared;
  const outcome first = install(page, contents, guarded && !to_store);
  if (first == outcome::gone) return 0;
  if (first == outcome::present) others = 1;
  const unsigned more = *read - 1;
  if (more == 0) return 1;
  if (faults_->install(address(page + 1), contents + page_bytes, more, guarded) == outcome::installed) return *read;
  // Some may be there: takes those that come without waiting. Of those that are there now some came a moment ago.
  unsigned got = 1;
  for (; got < *read; ++got) {
    const outcome done = faults_->install(address(page + got), contents + got * page_bytes, 1, guarded);
    if (done == outcome::present) {
      others |= std::uint32_t{1} << got;
    } else if (done != outcome::installed) {
      break;
    }
  }
  return got;
}

// Installs the page, and waits for memory if need be.  present: it was there; gone: it cannot be there.
outcome swapper::install(page_t page, const std::byte* contents, bool guarded) noexcept {
  for (std::chrono::milliseconds pause{1};;) {
    const outcome done = faults_->install(address(page), contents, 1, guarded);
    if (done == outcome::installed || done == outcome::gone) return done;
    if (done == outcome::present) {
      faults_->wake(address(page));
      return done;
    }
    if (settings_.shared) (void)evict(batch_max);
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, pause_max);
  }
}

void swapper::give_up(page_t page, const char* why) noexcept {
  if (settings_.lost != nullptr) settings_.lost(settings_.context, page, why);
  {
    const std::lock_guard guard{lock_};
    set_state(page, lost);
  }
  (void)faults_->refuse(address(page));
  faults_->wake(address(page));
}

// lock_ is held, or there is no other thread yet.
void swapper::came(page_t page, state as) noexcept {
  set_state(page, as);
  ++present_;
  if (settings_.shared) policy_->came(page);
}

// ---- leaving ----

// The thread that lets pages leave before a fault would have to.
void swapper::let_go() noexcept {
  const platform::in_call here;
  const std::uint64_t margin = std::clamp<std::uint64_t>(limit() / 32, 8, 1024);
  std::unique_lock held{lock_};
  for (;;) {
    changed_.wait(held, [this] { return wants_room_ || leaving_stopped_; });
    if (leaving_stopped_) return;
    wants_room_ = false;
    while (!leaving_stopped_ && present_ + margin > limit()) {
      held.unlock();
      const unsigned gone = evict(batch_max);
      held.lock();
      if (gone != 0) continue;
      if (!slow_->waits()) break;
      changed_.wait_for(held, pause_for_room, [this] { return leaving_stopped_; });
    }
  }
}

// Called by the fault thread before `count` pages come.
void swapper::make_room(unsigned count) noexcept {
  const std::uint64_t half = std::clamp<std::uint64_t>(limit() / 64, 4, 512);
  for (unsigned pauses = 0;;) {
    {
      const std::lock_guard guard{lock_};
      const std::uint64_t then = present_ + count;
      if (then + half > limit() && !wants_room_) {
        wants_room_ = true;
        changed_.notify_one();
      }
      if (then <= limit() || leaving_stopped_) return;
    }
    if (evict(std::clamp(count, 8U, batch_max)) != 0) continue;
    if (pauses++ == pauses_max || !waits_for_room(count)) return;
    std::this_thread::sleep_for(pause_for_room);
  }
}

// Whether waiting is worth it: far above the limit, if pages that stayed can leave soon. The wait is bounded: the
// thread that holds the lock which they wait for may itself be touching a page.
bool swapper::waits_for_room(unsigned count) noexcept {
  if (!slow_->waits()) return false;
  const std::lock_guard guard{lock_};
  return present_ + count > limit() + limit() / 8 && !leaving_stopped_;
}

void swapper::shrink(std::uint64_t pages) noexcept {
  {
    // Pages that the calling thread has touched can leave.
    std::unique_lock held{lock_};
    settle(held);
  }
  // Past pages that cannot leave, as far as once round.
  for (std::uint64_t passed = 0;;) {
    std::uint64_t excess = 0;
    {
      const std::lock_guard guard{lock_};
      if (present_ <= pages || leaving_stopped_ || passed > present_) return;
      excess = present_ - pages;
    }
    const evicted e = try_to_evict(static_cast<unsigned>(std::min<std::uint64_t>(excess, batch_max)));
    if (e.left == 0 && e.stayed == 0) return;
    passed = e.left != 0 ? 0 : passed + e.stayed;
  }
}

// Returns how many pages have left.
unsigned swapper::evict(unsigned wanted) noexcept { return try_to_evict(wanted).left; }

swapper::evicted swapper::try_to_evict(unsigned wanted) noexcept {
  const std::lock_guard one{evicting_};
  batch& b = *batch_;
  move_hand(wanted);
  choose(b, std::min(wanted, batch_max));
  evicted done{static_cast<unsigned>(b.dropped.size()), static_cast<unsigned>(b.aside.size()) + b.unprotected};
  if (!b.chosen.empty()) {
    read_leaving(b);
    write_leaving(b);
    done.left += static_cast<unsigned>(b.given_back.size());
    done.stayed += static_cast<unsigned>(b.chosen.size() - b.given_back.size());
  }
  return done;
}

// Chooses victims: those that the second file has leave at once, the others are to be written.  evicting_ is held.
void swapper::choose(batch& b, unsigned wanted) noexcept {
  b.dropped.clear();
  b.chosen.clear();
  b.aside.clear();
  b.given_back.clear();
  b.unprotected = 0;
  const std::lock_guard guard{lock_};
  if (leaving_stopped_) return;
  if (refused_rounds_ != 0) --refused_rounds_;
  const bool writes = !slow_->failed() && refused_rounds_ == 0;
  while (b.dropped.size() + b.chosen.size() < wanted && b.aside.size() < batch_max) {
    const page_t page = policy_->victim(*this);
    if (page == no_page) break;
    const bool is_clean = state_of(page) == clean;
    if (is_pinned(page)) {
      states()[page] |= held_bit;
      ++held_;
    } else if (!is_clean && !writes) {
      b.aside.push_back(page);
    } else if (is_clean) {
      b.dropped.push_back(page);
    } else {
      set_state(page, leaving);
      b.chosen.push_back(page);
    }
  }
  for (const page_t page : b.aside) policy_->came(page);
  std::sort(b.dropped.begin(), b.dropped.end());
  std::sort(b.chosen.begin(), b.chosen.end());
  give_back(b.dropped);
  counts_.dropped += b.dropped.size();
  std::array<page_t, batch_max> stays;
  each_run(b.chosen, [&](page_t first, std::size_t count) noexcept {
    if (faults_->protect(address(first), count)) return;
    // The pages are not all in one mapping, since parts of it have another access, and this kernel takes one mapping at
    // a time.
    for (page_t page = first; page < first + count; ++page) {
      if (!faults_->protect(address(page), 1)) stays[b.unprotected++] = page;
    }
  });
  // A page that cannot be protected, since the mapping is gone, could be stored to.
  for (unsigned i = 0; i < b.unprotected; ++i) {
    stay(stays[i]);
    std::erase(b.chosen, stays[i]);
  }
}

void swapper::discard(std::uint64_t first, std::uint64_t count) noexcept {
  {
    // Pages that are coming may have what the file had.  Before evicting_, which the thread that brings them takes.
    std::unique_lock held{lock_};
    settle(held);
  }
  // No page is leaving meanwhile.
  const std::lock_guard one{evicting_};
  std::vector<page_t>& pages = batch_->dropped;  // has room for a batch
  for (const std::uint64_t end = std::min(first + count, settings_.pages); first < end;) {
    pages.clear();
    const std::lock_guard guard{lock_};
    for (; first < end && pages.size() < batch_max; ++first) {
      const auto page = static_cast<page_t>(first);
      if ((state_of(page) != clean && state_of(page) != stored_to) || is_pinned(page)) continue;
      policy_->gone(page);
      pages.push_back(page);
    }
    give_back(pages);
    // Those after the file's end, too: once it has grown again they are like all that the file alone has.
    for (const page_t page : pages) slow_pages_ += slow_->is_zeros(page) ? 1 : 0;
  }
}

// Makes these pages absent; those that the system does not give back stay as they are.  lock_ is held.
void swapper::give_back(std::vector<page_t>& pages) noexcept {
  std::erase_if(pages, [this](page_t page) { return state_of(page) == absent; });
  bool refused = false;
  each_run(pages, [&](page_t first, std::size_t count) noexcept {
    if (const status s = settings_.fast->punch(settings_.offset + first * page_bytes, count * page_bytes); !s) {
      note_why();
      refused = true;
      for (std::size_t i = 0; i < count; ++i) policy_->came(first + static_cast<page_t>(i));
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const page_t page = first + static_cast<page_t>(i);
      set_state(page, absent);
      states()[page] &= static_cast<std::uint8_t>(referenced_bit);
      slow_pages_ += slow_->is_zeros(page) ? 0 : 1;
    }
    present_ -= count;
  });
  if (refused) std::erase_if(pages, [this](page_t page) { return state_of(page) != absent; });
}

// No thread can store to these pages, so they hold what is read here until they are given back.
void swapper::read_leaving(batch& b) noexcept {
  b.written.clear();
  b.zeros.clear();
  std::size_t i = 0;
  each_run(b.chosen, [&](page_t first, std::size_t count) noexcept {
    const status s = settings_.fast->read(settings_.offset + first * page_bytes, b.at(i), count * page_bytes);
    for (std::size_t k = 0; k < count; ++k, ++i) {
      const page_t page = first + static_cast<page_t>(k);
      const std::byte* const bytes = b.at(i);
      const bool zeros = s && bytes[0] == std::byte{0} && std::memcmp(bytes, bytes + 1, page_bytes - 1) == 0;
      if (!s) {
        const std::lock_guard guard{lock_};
        stay(page);
      } else if (zeros && slow_->is_zeros(page)) {
        b.zeros.push_back(page);
      } else {
        b.written.push_back({page, bytes, {}, leaving_page::outcome::written});
      }
    }
  });
}

void swapper::write_leaving(batch& b) noexcept {
  bool written = false;
  if (!b.written.empty()) {
    const auto sequence = slow_->write_out(b.written, lock_);
    if (sequence) {
      written = true;
      // release: before pages are given back. For a process that opens the pool after a kill, the kernel keeps stores
      // in order.
      if (settings_.sequence != nullptr) {
        std::atomic_ref<std::uint64_t>{*settings_.sequence}.store(*sequence, std::memory_order_release);
      }
    } else {
      note_refusal(sequence.error());
    }
  }
  end_leaving(b, written);
}

void swapper::end_leaving(batch& b, bool written) noexcept {
  const std::lock_guard guard{lock_};
  for (const page_t page : b.zeros) {
    if (state_of(page) == leaving && !is_pinned(page)) {
      b.given_back.push_back(page);
      ++counts_.dropped;
    } else {
      stay(page);
    }
  }
  for (const leaving_page& p : b.written) {
    const bool may = written && p.became != leaving_page::outcome::stays;
    if (may && state_of(p.page) == leaving && !is_pinned(p.page)) {
      slow_->keep(p);
      b.given_back.push_back(p.page);
      ++(p.became == leaving_page::outcome::there ? counts_.dropped : counts_.out);
      continue;
    }
    if (may) {
      slow_->drop(p);
      ++counts_.kept;
    }
    stay(p.page);
  }
  if (written) why_[0] = 0;
  std::sort(b.given_back.begin(), b.given_back.end());
  give_back(b.given_back);
}

// A page that was chosen and does not leave.  lock_ is held.
void swapper::stay(page_t page) noexcept {
  if (state_of(page) == leaving) {
    set_state(page, stored_to);
    faults_->unprotect(address(page), 1);
  }
  policy_->came(page);
}

// A page that was held is not pinned any more.  lock_ is held.
void swapper::list_again(page_t page) noexcept {
  states()[page] &= static_cast<std::uint8_t>(~held_bit);
  --held_;
  policy_->came(page);
}

void swapper::note_refusal(errc why) noexcept {
  const std::lock_guard guard{lock_};
  if (why == errc::no_space) refused_rounds_ = refused_rounds_max;
  note_why();
}

// lock_ is held.
void swapper::note_why() noexcept { std::snprintf(why_, sizeof why_, "%s", last_message()); }

}  // namespace nvm::tier
