// Pages of a file in memory: cold ones leave for a second file, and come back when they are touched.
//
// The file is mapped shared at `base`; page numbers count from there.  At most `fast_pages_max` pages are to be in it.
// A fault thread brings pages that are missing, a second one lets others go before room is short.
//
/// A page is
///   absent     a hole of the fast file: the second file has it, or it is zeros
///   coming     as before, and being brought
///   clean      in the fast file, and the second one has the same; stores wait for the fault thread
///   stored_to  in the fast file, dirty
///   leaving    as before; stores wait for the fault thread, which makes it that again: it stays
///   lost       cannot be brought
/// and goes                  by                                            under lock_
///   absent -> coming        a fault, or read ahead                        yes
///   coming -> clean, stored_to, or lost   installed as a whole, or not    yes; who waited may have gone on before
///   clean -> stored_to      a store that waits; then it goes on           yes, before
///   clean -> absent         victim; given back                            yes, with the giving back
///   stored_to -> leaving    victim; protected                             yes, with the protecting
///   leaving -> stored_to    a store that waits; then it goes on           yes, before
///   leaving -> absent       the second file has it (tier/E2); given back  yes, with the giving back
///   clean, stored_to -> absent   discard()                                yes, with the giving back
/// No store is lost: one that comes before the protecting is in what is written; one that comes after it waits for the
/// fault thread, which takes lock_: either the page stays, or it is brought back for the store. A page that is given
/// back is missing for all threads in the same moment: loads and stores of it are faults, and no zeros are seen.
//
// Therefore nothing is pinned for the sake of transactions: a page may leave between two stores of one.  A kill leaves
// the same as without a tier: all stores that were made. Pins are for memory that devices write to: protection does not
// stop those.
//
// Use.  The processor does not report which pages are used. While pages leave, a hand goes round: it looks up which
// pages this process has mapped (/proc/self/pagemap), tells the policy, and takes the mappings away; the next use of a
// page costs its thread a fault of the kernel, a microsecond. A pool that fits is left alone. Without /proc policies
// know only when pages came.
//
// Not shared (read-only): pages come and none leave; they are this process's own.
//
// Failure.  A page that cannot be brought is told by `lost`, with the reason, and an access to it fails.  If the second
// file cannot be written, pages that it has leave and others stay, above the limit if need be; why() says so.
//
// Threads: any, but not while it holds a lock for which threads that touch pages wait.  The two threads of the swapper
// touch no page of the mapping and take no lock but these.
// Lock order: 1. evicting_, 2. lock_.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "platform/platform.hpp"
#include "tier/policy.hpp"
#include "tier/slow_pages.hpp"

namespace nvm::tier {

// What the fast file had when it was looked at.
struct pages_found {
  static constexpr std::uint64_t not_counted = ~std::uint64_t{0};
  std::uint64_t slow = not_counted;  // pages that the second file alone has, not counting zeros
  std::uint64_t present = not_counted;
};

struct swapper_settings {
  std::byte* base = nullptr;  // of page 0, whose mapping the caller keeps
  const platform::file* fast = nullptr;
  const platform::file* grows = nullptr;  // whose length says how many pages there are; nullptr: fast
  std::uint64_t offset = 0;               // of page 0 in it
  std::uint64_t pages = 0;                // that the mapping has; the file may be shorter, and grow
  std::uint64_t fast_pages_max = 0;
  std::uint32_t policy = NVM_TIER_STEADY;
  bool shared = true;
  // Pages that the fast file has when it is looked at never leave: they may be parts of huge pages. Of such a part that
  // is given back, while anything holds the whole, the system makes zeros that stay.
  bool keep_found = false;
  pages_found* found = nullptr;       // is told, also where opening fails after it has looked
  std::uint64_t* sequence = nullptr;  // of the pool's record (page_file.hpp), in memory that survives this process; may
                                      // be nullptr
  void (*lost)(void* context, std::uint64_t page, const char* why) noexcept = nullptr;
  void* context = nullptr;
};

struct swapper_statistics {
  std::uint64_t present = 0;  // pages
  std::uint64_t dirty = 0;    // of these: the second file has not what they hold
  std::uint64_t slow = 0;     // pages that the second file alone has, not counting zeros
  std::uint64_t faults = 0, store_faults = 0;
  std::uint64_t in = 0, ahead = 0, zeros_in = 0;
  std::uint64_t out = 0, dropped = 0, kept = 0;
  std::uint64_t fault_ns_p50 = 0, fault_ns_p99 = 0;
};

// Durations in buckets of an eighth of their size.
class durations {
 public:
  void add(std::uint64_t ns) noexcept;
  // An upper bound of the `per_mille` smallest; 0: there are none.
  [[nodiscard]] std::uint64_t at(std::uint64_t per_mille) const noexcept;

 private:
  static constexpr unsigned per_octave = 8;
  std::array<std::uint64_t, 64 * per_octave> counts_{};
  std::uint64_t all_ = 0;
};

class swapper final : private page_host {
 public:
  static constexpr std::uint64_t page_bytes = 4096;
  static constexpr std::uint64_t fast_pages_least = 64;

  // Looks where the fast file has holes, and takes their words from `slow`; then pages come, but none leaves yet.
  // errc::system: user faults, threads or pages of another size; errc::corrupt: words; errc::no_memory.
  [[nodiscard]] static result<std::unique_ptr<swapper>> open(const swapper_settings& settings,
                                                             std::unique_ptr<slow_pages> slow) noexcept;
  // No thread may use the pages: absent ones read as zeros afterwards.
  ~swapper();
  swapper(const swapper&) = delete;
  swapper& operator=(const swapper&) = delete;

  // Pages leave from now on; once.  errc::system: no thread for it.
  [[nodiscard]] status start_leaving() noexcept;
  // No page leaves from now on; both files are only read.
  void stop_leaving() noexcept;

  void refer(std::uint64_t first, std::uint64_t count, bool referenced) noexcept;
  // Two counts, so that a surplus unpin of the program takes no pin of the library.
  enum class pinned_by : bool { program, library };
  // errc::too_large: a page has as many pins as can be counted; nothing was pinned.
  [[nodiscard]] status pin(std::uint64_t first, std::uint64_t count, pinned_by whom) noexcept;
  void unpin(std::uint64_t first, std::uint64_t count, pinned_by whom) noexcept;
  // Drops the contents of these pages: they are absent afterwards, unless they are pinned, or come again.  The caller
  // may hold locks of the pool: the threads of the swapper take none.
  void discard(std::uint64_t first, std::uint64_t count) noexcept;
  // Pages leave until at most `pages` are present, or no more can.
  void shrink(std::uint64_t pages) noexcept;

  [[nodiscard]] swapper_statistics statistics() noexcept;
  // Pages of the fast file when no thread touches any, after stop_leaving(). The file is asked, and not the books:
  // another program may have made pages of zeros by reading, and huge pages come as a whole.
  [[nodiscard]] result<std::uint64_t> present_at_rest() noexcept;
  [[nodiscard]] bool is_shared() const noexcept { return settings_.shared; }
  [[nodiscard]] const slow_pages& slow() const noexcept { return *slow_; }
  [[nodiscard]] const char* policy_name() const noexcept { return policy_->name(); }
  // Why pages do not leave, "" if they do.
  [[nodiscard]] std::string why();
  // In a forked child, which lacks the mapping: closes the parent's descriptors.
  void forget_in_child() noexcept;
  // Checks the books against the fast file while no thread touches pages; returns the fault, or an empty text. It first
  // waits for pages whose threads have gone on already.
  [[nodiscard]] std::string check();

 private:
  enum state : std::uint8_t { absent, coming, clean, stored_to, leaving, lost };
  static constexpr std::uint8_t state_bits = 7;
  static constexpr std::uint8_t fresh_bit = 0x10;       // came since the hand passed
  static constexpr std::uint8_t referenced_bit = 0x20;  // as refer() said
  static constexpr std::uint8_t held_bit = 0x40;        // pinned, and not in the policy's lists until it is unpinned
  static constexpr unsigned ahead_max = 32;
  static constexpr page_t ahead_near = 16;
  static constexpr unsigned batch_max = slow_pages::batch_max;
  static constexpr std::uint64_t hand_block = 512;

  swapper(const swapper_settings& settings, std::unique_ptr<slow_pages> slow) noexcept;
  [[nodiscard]] status look_at_file() noexcept;
  [[nodiscard]] status start() noexcept;

  // page_host, under lock_.
  [[nodiscard]] bool dirty(page_t page) noexcept override { return state_of(page) == stored_to; }
  [[nodiscard]] bool referenced(page_t page) noexcept override;
  [[nodiscard]] bool attached(page_t page) noexcept override { return (states()[page] & referenced_bit) != 0; }

  // Faults.
  void serve() noexcept;
  void handle(const platform::user_faults::fault& f) noexcept;
  void store_to_protected(page_t page) noexcept;
  void bring(page_t page, bool to_store, std::uint64_t since_ns) noexcept;
  [[nodiscard]] unsigned wish_ahead(page_t page) noexcept;
  [[nodiscard]] unsigned mark_coming(page_t page, unsigned wished) noexcept;
  [[nodiscard]] unsigned bring_contents(page_t page, unsigned count, bool to_store, std::uint32_t& others) noexcept;
  [[nodiscard]] unsigned bring_zeros(page_t page, unsigned count) noexcept;
  [[nodiscard]] platform::user_faults::outcome install(page_t page, const std::byte* contents, bool guarded) noexcept;
  void give_up(page_t page, const char* why) noexcept;
  void settle(std::unique_lock<std::mutex>& held) noexcept;
  void came(page_t page, state as) noexcept;
  void found(page_t page) noexcept;
  // Pages that are to be in the fast file at most: those that never leave have others beside them.
  [[nodiscard]] std::uint64_t limit() const noexcept {
    return std::max(settings_.fast_pages_max, kept_found_ + (kept_found_ == 0 ? 0 : fast_pages_least));
  }

  // Leaving.
  struct batch;
  void let_go() noexcept;
  void make_room(unsigned count) noexcept;
  [[nodiscard]] bool waits_for_room(unsigned count) noexcept;
  unsigned evict(unsigned wanted) noexcept;
  struct evicted {
    unsigned left = 0;
    unsigned stayed = 0;  // victims that could not leave
  };
  [[nodiscard]] evicted try_to_evict(unsigned wanted) noexcept;
  void choose(batch& b, unsigned wanted) noexcept;
  void read_leaving(batch& b) noexcept;
  void write_leaving(batch& b) noexcept;
  void end_leaving(batch& b, bool written) noexcept;
  void stay(page_t page) noexcept;
  void list_again(page_t page) noexcept;
  void give_back(std::vector<page_t>& pages) noexcept;
  void note_refusal(errc why) noexcept;
  void note_why() noexcept;

  // The hand.
  void move_hand(unsigned leaving) noexcept;
  void look_at_block(std::uint64_t first, std::uint64_t count) noexcept;
  [[nodiscard]] bool is_mapped(page_t page) const noexcept;

  [[nodiscard]] std::uint8_t* states() const noexcept { return static_cast<std::uint8_t*>(states_.data()); }
  [[nodiscard]] std::uint8_t* pins(pinned_by whom) const noexcept {
    return static_cast<std::uint8_t*>((whom == pinned_by::program ? program_pins_ : library_pins_).data());
  }
  [[nodiscard]] bool is_pinned(page_t page) const noexcept {
    return pins(pinned_by::library)[page] != 0 || pins(pinned_by::program)[page] != 0;
  }
  [[nodiscard]] state state_of(page_t page) const noexcept { return static_cast<state>(states()[page] & state_bits); }
  void set_state(page_t page, state to) noexcept {
    const state from = state_of(page);
    dirty_ += (to == stored_to || to == leaving ? 1 : 0) - (from == stored_to || from == leaving ? 1 : 0);
    states()[page] = static_cast<std::uint8_t>((states()[page] & ~state_bits) | to);
  }
  [[nodiscard]] std::byte* address(page_t page) const noexcept { return settings_.base + page * page_bytes; }

  const swapper_settings settings_;
  const std::int64_t process_ = platform::process_id();
  std::unique_ptr<slow_pages> slow_;
  std::unique_ptr<any_policy> policy_;
  std::optional<platform::user_faults> faults_;
  int pagemap_ = -1;

  std::mutex evicting_;           // one batch at a time
  std::unique_ptr<batch> batch_;  // its holder's
  std::uint64_t hand_ = 0;        // likewise
  std::uint64_t hand_owes_ = 0;   // pages that the hand has to look at

  std::mutex lock_;  // what follows
  platform::zeroed_memory states_;
  platform::zeroed_memory library_pins_;
  platform::zeroed_memory program_pins_;
  platform::zeroed_memory incoming_;  // contents of pages that come; the fault thread's
  std::uint64_t pages_known_ = 0;     // pages from here on were never touched
  std::uint64_t present_ = 0;
  std::int64_t dirty_ = 0;
  std::uint64_t slow_pages_ = 0;
  std::uint64_t held_ = 0;        // pages with held_bit
  std::uint64_t kept_found_ = 0;  // of these: for good; set before there are threads
  page_t ahead_next_ = 0;         // where a fault would go on from the last one
  unsigned ahead_ = 1;
  bool leaving_stopped_ = true;
  bool wants_room_ = false;
  bool bringing_ = false;             // pages are coming
  unsigned settling_ = 0;             // threads that wait until none is
  std::uint64_t refused_rounds_ = 0;  // batches without writes until the file is asked again
  char why_[256] = "";
  swapper_statistics counts_;
  durations fault_ns_;
  platform::condition changed_, settled_;
  std::atomic<bool> ending_{false};
  std::thread serving_, letting_go_;
};

}  // namespace nvm::tier
