// Home pages: home space as memory that a program loads from (docs/design/016-home-pages.md).
//
// A page of home space is built in volatile memory when it is first touched, from the heap's contents; commits keep it
// current; it is dropped whenever memory is wanted, and nothing is written then: the log has everything.  A load costs
// no more than any load; the translation is paid once a page.
//
// **What a page shows.**  A present page holds for every object the bytes of the heap's read(), except:
//   - what open transactions have stored into it in place (their pages are pinned);
//   - between the heap's commit() and store() the bytes before that commit.
// Isolation keeps other transactions from using either.  Bytes of no object may have any value: an allocation in place
// calls clear().
//
/// Why no commit is lost and no page half built.  L, U: lock, unlock of the page's block.
///   commit      heap.commit() (the mapping leads to the new bytes); L; present? S the new bytes into it; U
///   build       L; present? nothing : read() the contents; install the page, whole; S present; U
///   drop        L; unpinned and present? zap the page; S absent; U
///   pin         L; S pins + 1; U; then present, by a build
/// A build before the commit's L: it may have read bytes from before, and the commit finds the page and stores into it.
/// A build after: the mapping had been changed before that L, and the lock makes it seen: read() gives the new bytes.
/// Zap and mark are one step for a thread that holds the lock.  For a load, which holds nothing, there are two cases at
/// any time: the page is there, with every commit so far, or it is missing, and the load waits for a build.  A zapped
/// page is gone from every processor's translations when the system call returns (so before U), and a missing page is
/// never read as zeros, since the kernel asks for it.  A store in place could meet a zap; pins keep it from that.
//
// Stores are word by word and atomic, release (isolation/shared_memory.hpp): readers of the STM look at the bytes at
// the same time and then at their ownership records.  A reader that finds new bytes in a page that was built after the
// heap's commit sees that their records were locked, too: the builder saw it, and the kernel's installing orders as a
// lock does.
//
// Ahead.  A fault is a switch of threads, and takes several times as long as a build.  After a page that was touched a
// fault thread builds as many more, up to fault_around in all, as pages were present before it in a row: a thread that
// reads upward waits less and less often, and a touch somewhere brings nothing else.  Nothing is dropped to make room
// for them.
//
// Memory.  Nothing is lost for want of it: a page that cannot be built is waited for; meanwhile others are dropped, and
// the thread that touched it waits.  bytes_max bounds the pages present; only pinned pages, and one page for each
// thread that builds, may exceed it (and a 64th of it while pinned pages do).  The books take 4 bytes a page, by pages
// of 1,024 that are used.
//
// Threads.  Pages that are touched are built by fault threads of this object, one for each reader that it was given; a
// caller of pin() and touch() may bring a reader of its own and build them itself, without a switch of threads.  All
// calls by any number of threads.  A thread that holds something for which a reader may wait (a lock of the mapping)
// must not touch a page that can be missing, and a reader touches none.  Fault threads take no signals.
// Lock order: 1. shrinking_, 2. a block's lock, a leaf except for locks of a reader, one at a time.
//
// fork(): the child has no home pages; an access is SIGSEGV at once.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "isolation/isolation.hpp"
#include "logheap/mapping.hpp"
#include "platform/platform.hpp"
#include "space/space.hpp"
#include "sync/sync.hpp"

namespace nvm::logheap {

struct home_pages_settings {
  std::byte* base = nullptr;  // where home address `first` is in memory: reserved by the caller, whole pages
  home_t first = 0;           // as `bytes`, a multiple of home_pages::page_bytes
  std::uint64_t bytes = 0;    // of home space
  std::uint64_t bytes_max =
      0;  // of pages present; 0: no limit.  Less than home_pages::bytes_max_least is taken as that
  // Pages that a fault thread brings at most for one that is touched, that one included (build_ahead()).
  unsigned fault_around = 1;
  // Whether readers may have read zeros in place of lost pages (platform/lost_pages.hpp): then a page is not built, and
  // an access to it is SIGBUS.  nullptr: never.
  bool (*lost)(void* context) noexcept = nullptr;
  void* context = nullptr;
};

struct home_pages_statistics {
  std::uint64_t pages = 0;    // present
  std::uint64_t bytes = 0;    // in them
  std::uint64_t built = 0;    // times that a page was built, or tried to be; of these:
  std::uint64_t zeros = 0;    //   without contents, which cost no memory
  std::uint64_t faults = 0;   //   by fault threads, because a thread waited
  std::uint64_t ahead = 0;    //   by fault threads, before a thread touched them
  std::uint64_t dropped = 0;  // pages
  std::uint64_t waited = 0;   // times that a page could not be built for want of memory
};

// Copies the current contents of [home, home + bytes) to `to`: heap::read() with a `thread` object that is not used
// elsewhere meanwhile.  Does not throw.
using home_read = std::function<void(home_t home, std::byte* to, std::uint64_t bytes)>;

class home_pages {
 public:
  static constexpr std::uint64_t page_bytes = 4096;
  // With less, threads would take pages from each other.
  static constexpr std::uint64_t bytes_max_least = 64 * page_bytes;

  // Opens home pages, all absent, with a fault thread for each of `readers`, or as many as the system gives, at least
  // one.  errc::system: the system lacks what this needs (userfaultfd, pages of 4 KiB, a thread), and the message says
  // what; no_memory.
  [[nodiscard]] static result<std::unique_ptr<home_pages>> open(const home_pages_settings& settings,
                                                                std::vector<home_read> readers) noexcept;
  // Reserves the addresses again; no thread may use the pages.  In a forked child as forget_in_child().
  ~home_pages();
  home_pages(const home_pages&) = delete;
  home_pages& operator=(const home_pages&) = delete;

  [[nodiscard]] std::byte* at(home_t home) const noexcept { return settings_.base + (home - settings_.first); }
  [[nodiscard]] home_t home_of(const void* p) const noexcept {
    return static_cast<home_t>(static_cast<const std::byte*>(p) - settings_.base) + settings_.first;
  }
  // Whether system calls may be given untouched pages; otherwise they fail with EFAULT, and their buffers are pinned
  // around them (touch() is enough where nothing is dropped meanwhile).
  [[nodiscard]] bool in_system_calls() const noexcept { return faults_->in_system_calls(); }

  // ---- commits ----

  // Stores the bytes of a commit that the heap has taken into the pages that are present.  Called by the transaction
  // that changed them, before it lets others use them.  Cost: a lock for each 64 KiB, and the copying.
  void store(home_t home, const void* from, std::uint64_t size) noexcept;
  // Stores zeros likewise, for an object that the transaction has just allocated and will store into in place.
  void clear(home_t home, std::uint64_t size) noexcept;
  // The range's pages are present and stay so until as many unpin(): before stores in place.  `own`: a reader of this
  // thread; without one the fault threads build what is absent (some us a page more).  Returns with all present.
  void pin(home_t home, std::uint64_t size, const home_read* own = nullptr) noexcept;
  // Called when the bytes are those of the heap: after its commit(), or when an abort has put the old ones back.
  void unpin(home_t home, std::uint64_t size) noexcept;

  // ---- memory ----

  // Builds the range's pages ahead; they may be dropped at any time.  `own` as above.
  void touch(home_t home, std::uint64_t size, const home_read* own = nullptr) noexcept;
  // Drops the whole, unpinned pages of an object that has been freed.  Allowed at any time, for any range: the
  // addresses may belong to a new object by now.
  void drop(home_t home, std::uint64_t size) noexcept;
  // Drops unpinned pages until at most `bytes_max` are present, and returns how many bytes are (more: they are pinned,
  // or were built meanwhile).  A hand goes round; a page that was built, stored to or pinned since the hand came by
  // last has a second chance (loads leave no trace), unless `bytes_max` is less than a page.
  std::uint64_t shrink(std::uint64_t bytes_max) noexcept;

  [[nodiscard]] home_pages_statistics statistics() const noexcept;
  // Checks the books, at rest: empty, or what is wrong.
  [[nodiscard]] std::string check();

  // In a forked child: gives up threads and descriptors, reserves the addresses.
  void forget_in_child() noexcept;

 private:
  static constexpr std::uint64_t pages_in_block = 16;  // under one lock, and dropped by one system call
  static constexpr std::uint64_t block_bytes = pages_in_block * page_bytes;
  static constexpr std::uint64_t blocks_in_group = 64;
  static constexpr unsigned locks = 256;

  // Bits of a page's state, changed under its block's lock.
  static constexpr std::uint32_t present = 1;
  static constexpr std::uint32_t used = 2;  // since the hand came by
  static constexpr std::uint32_t pin_unit = 4;

  struct alignas(line_bytes) padded_lock {
    spin_lock lock;
  };

  explicit home_pages(const home_pages_settings& s) noexcept;
  [[nodiscard]] status start(std::vector<home_read> readers) noexcept;
  void serve(const home_read& read) noexcept;
  bool make_present(std::uint64_t page, const home_read& read, bool to_store) noexcept;
  void build_ahead(std::uint64_t touched, const home_read& read) noexcept;
  [[nodiscard]] platform::user_faults::outcome build(std::uint64_t page, const home_read& read, bool to_store) noexcept;
  [[nodiscard]] platform::user_faults::outcome install(std::uint64_t page, const home_read& read, std::byte* contents,
                                                       bool to_store) noexcept;
  void build_absent(home_t home, std::uint64_t size, const home_read* own, bool to_store) noexcept;
  void make_room() noexcept;
  void sweep(std::uint64_t pages_max) noexcept;
  template <class Wanted>
  void drop_in_block(std::uint64_t block, Wanted&& wanted) noexcept;
  template <class Visit>
  void each_present(home_t home, std::uint64_t size, Visit&& visit) noexcept;

  [[nodiscard]] spin_lock& lock_of(std::uint64_t page) noexcept { return locks_[page / pages_in_block % locks].lock; }
  [[nodiscard]] std::byte* address(std::uint64_t page) const noexcept { return settings_.base + page * page_bytes; }
  [[nodiscard]] std::uint64_t page_of(home_t home) const noexcept { return (home - settings_.first) / page_bytes; }
  [[nodiscard]] bool is_present(std::uint64_t page) const noexcept {
    return (pages_[page].load(std::memory_order_relaxed) & present) != 0;
  }

  const home_pages_settings settings_;
  const std::uint64_t pages_max_;  // present; 0: no limit
  const std::int64_t process_ = platform::process_id();
  std::optional<platform::user_faults> faults_;  // constant while threads_ run
  std::array<padded_lock, locks> locks_;
  sparse_array<std::uint32_t> pages_;   // of each page: present, used, pins
  sparse_array<std::uint32_t> groups_;  // pages present in each group of blocks
  std::atomic<std::uint64_t> present_{0};
  std::atomic<std::uint64_t> built_{0};
  std::atomic<std::uint64_t> zeros_{0};
  std::atomic<std::uint64_t> served_{0};
  std::atomic<std::uint64_t> ahead_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> waited_{0};
  std::mutex shrinking_;
  std::uint64_t hand_ = 0;                       // block where the next search begins; by shrinking_
  std::atomic<std::uint64_t> patient_until_{0};  // pages present below which the limit is not tried again
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace nvm::logheap
