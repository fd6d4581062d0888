// A pool's file from creation to close: exclusive, mapped at its address, growing.
//
// Creation.  F file operation, | sync.
//   1. F new file without a name (pending_name.hpp), locked; blocks of the header, page map of the current size, log,
//      data; what `prepare` writes                             | C1  all of it is on the device, and otherwise zero
//   2. F superblock copy B, copy A                             | C2  either copy makes it a pool
//   3. F the name                                              | C3  commit point: the folder has it on the device
// A crash before 3 leaves no file of that name, one after it an empty pool.  Any failure leaves no file.
//
// Open.  File checked (regular, owner and mode), locked, superblock picked, medium agreed, mapped, metadata
// found to be readable, `after_mapping`, blocks made sure of.  On direct media state `open` is durable before open()
// returns, hence before the first change.  With an image (ssd), where a sync takes milliseconds and only the log
// changes the file, mark_open() writes it before the first record; the sync that the first record needs makes it
// durable.  A pool that is never changed stays clean.
//
// Growth.  Blocks first, sync, then the superblock through the medium (superblock.hpp): a crash between them leaves a
// file longer than its pool, which the next growth uses.  After a failed sync there is no other: the system has
// forgotten which pages it has lost, perhaps also pages of the medium. So the medium is told, and later commits are
// refused.
//
// Bases.  A pool whose preferred addresses are taken is mapped at others if the caller relocates it (moves_to()): at a
// base that its pointers may assume already, or at one that overlaps none of those. If must_relocate(), the caller
// calls begin_relocation() before any pointer gets the new base, and finish_relocation() when all pointers have it and
// that is ordered (base_history.hpp).
//
// Features. A bit that a pool gets while it is open is set in the superblock before the first data that need it are
// stored: after a crash there may be a bit without such data, but never such data without the bit.
//
// Giving back (growth.cpp).  Free pages may be holes of the file, where the superblock says so (feature_holes): they
// get blocks before they are used.  Shorter: the superblock through the medium, and that home, then the file is cut: a
// crash between them leaves a file longer than its pool.
//
// Lost pages.  A page of the mapping that the system cannot give fails the pool: nothing reaches the file any more, and
// it stays as a crash at that moment would have left it.
//
// Close.  State `clean`, after the caller has made everything else durable.  Destruction without close() leaves the
// pool as a crash would, except that the owner's mark is removed (owner.hpp).
//
// Threads.  grow() may be called by any thread, size_pages() and geometry() read by any; create, open, close by one.
// Fork: see open_pools.hpp.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "media/face.hpp"
#include "nvm/nvm.h"
#include "platform/platform.hpp"
#include "pool/base_history.hpp"
#include "pool/open_pools.hpp"
#include "pool/owner.hpp"
#include "pool/superblock.hpp"

namespace nvm {

// A step of a medium's log in creation and opening, which pool/ does not know.
struct file_step {
  status (*run)(void* context, platform::file& file, const layout::superblock& sb) noexcept = nullptr;
  void* context = nullptr;
};

// A step of a medium's log on a pool that was just mapped.
class pool_file;
struct image_step {
  status (*run)(void* context, pool_file& pool) noexcept = nullptr;
  void* context = nullptr;
};

// What takes the place of a file that gives blocks back, in tests of crashes.
struct file_hooks {
  void (*punched)(void* context, std::uint64_t offset, std::uint64_t bytes) noexcept = nullptr;
  void (*cut)(void* context, std::uint64_t bytes) noexcept = nullptr;  // the file's length from here on
  void* context = nullptr;
};

// Pages that a page map entry (its content, checked) holds; 0: none, it is free.
using entry_pages_function = std::uint64_t (*)(std::uint64_t content) noexcept;

struct pool_create_options {
  std::uint64_t size_bytes = 0;      // of data; 0: 64 MiB
  std::uint64_t capacity_bytes = 0;  // of data; 0: max(16 * size, 1 GiB), less if the window is smaller
  std::uint32_t medium = NVM_MEDIUM_DETECT;
  std::uint32_t mode = 0;        // permission bits before umask; 0: 0600
  std::uint64_t log_bytes = 0;   // ssd: the ring, direct: a lane; 0: chosen
  std::uint32_t lanes = 0;       // direct: 0: chosen
  std::uint32_t engine = 0;      // enum nvm_engine
  std::uint32_t validation = 0;  // enum nvm_validation
  std::uint64_t address = 0;     // base of the pool; 0: chosen
  file_step prepare;             // writes the bytes of an empty log that are not zero
  image_step tier;               // once it is mapped: makes a second file for its pages, and calls join_tier()
  // Tests fix these; null, 0: from the kernel.
  const std::uint8_t* uuid = nullptr;
  std::uint64_t created_unix_s = 0;
};

struct pool_open_options {
  std::uint32_t medium = NVM_MEDIUM_DETECT;
  bool read_only = false;
  bool accept_copy = false;   // of a pool in use (owner.hpp)
  bool moves = false;         // the caller relocates: another base will do, and a second pool of the same uuid
  std::uint64_t address = 0;  // with moves: the base; 0: the preferred one if it is free
  entry_pages_function entry_pages = nullptr;  // without it free pages get blocks again
  // Once the file is locked, checked and mapped: may apply a log to a private mapping, and then calls adopt_image().
  image_step after_mapping;
  // Called earlier, when only superblock and log were read: brings the second file of a pool that has one; without this
  // step such a pool is refused. For a pool that has none it may make one, and then calls join_tier().
  image_step tier;
};

class pool_file {
 public:
  using pointer = std::unique_ptr<pool_file>;

  [[nodiscard]] static result<pointer> create(const char* path, const pool_create_options& options) noexcept;
  [[nodiscard]] static result<pointer> open(const char* path, const pool_open_options& options) noexcept;
  // A pool without file, lock and owner, whose bytes the caller keeps at `base`, as a crash may have left them.  It
  // grows within its capacity.  For tests of crashes.
  [[nodiscard]] static result<pointer> in_memory(std::byte* base, const layout::superblock& sb,
                                                 const file_hooks& hooks = {}) noexcept;
  ~pool_file();
  pool_file(const pool_file&) = delete;
  pool_file& operator=(const pool_file&) = delete;

  // Marks the pool clean (unless read-only) and releases file, lock and addresses.  The caller has made everything
  // durable.  On failure the pool is also released, but not clean.
  [[nodiscard]] status close() noexcept;
  // The same if threads may go on reading: file, lock and addresses stay until the process ends.
  void close_at_exit() noexcept;
  // Releases file, lock and addresses, and leaves the pool as a crash would.
  void let_go() noexcept { release(); }

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  // A snapshot; size_pages grows.
  [[nodiscard]] nvm::geometry geometry() const noexcept {
    nvm::geometry g = shape_;
    g.size_pages = size_pages();
    return g;
  }
  // acquire: pairs with the release in grow(): the pages below it exist.
  [[nodiscard]] std::uint64_t size_pages() const noexcept { return size_pages_.load(std::memory_order_acquire); }
  // For debuggers.
  [[nodiscard]] const void* size_pages_place() const noexcept { return &size_pages_; }
  // The superblock as picked at open and changed since; not to be read while another thread grows the pool.
  [[nodiscard]] const layout::superblock& superblock() const noexcept { return superblock_; }
  [[nodiscard]] platform::file& file() noexcept { return file_; }
  [[nodiscard]] const char* path() const noexcept { return path_.c_str(); }
  // Removes the name of a pool that was just created, if it still has it.
  void remove_name() const noexcept { file_.remove_name(name_.path().c_str()); }
  // The medium in force, an enum nvm_medium: as asked for, else that of the file system, else that of the superblock.
  [[nodiscard]] std::uint32_t medium() const noexcept { return medium_; }
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  // Whether the last owner closed the pool; true for a new pool.
  [[nodiscard]] bool was_clean() const noexcept { return was_clean_; }
  // This process is a child of the one that opened the pool, and must not touch it.
  [[nodiscard]] bool forked() const noexcept { return forked_.load(std::memory_order_relaxed); }
  // The pool was released: the object still knows its path, and usable() says that the pool was closed.
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }
  // errc::forked, or errc::invalid for a pool that was closed.
  [[nodiscard]] status ours() const noexcept {
    if (!forked() && !closed()) [[likely]]
      return {};
    return refuse_use();
  }
  // Pages of it are lost (platform/lost_pages.hpp): bytes read may be zeros, and stores do not reach the file.
  [[nodiscard]] bool lost() const noexcept { return memory_.lost(); }
  // errc::io if pages are lost: asked after a read, before its bytes are believed.
  [[nodiscard]] status intact() const noexcept {
    isa::compiler_fence();
    if (!lost()) [[likely]]
      return {};
    return refuse_lost();
  }
  // Both.
  [[nodiscard]] status usable() const noexcept {
    if (!forked() && !closed() && !lost()) [[likely]]
      return {};
    return refuse_use();
  }
  // errc::io for every commit after a sync of the file has failed while it grew, or pages are lost.
  [[nodiscard]] status accepts_commits() const noexcept {
    // acquire: pairs with the release in extend(); the reason is there.
    if (!failed_.load(std::memory_order_acquire) && !lost()) [[likely]]
      return {};
    return refuse_commits();
  }
  // Asked before the file is written by system calls while it is open: errc::io if pages are lost, or if the file is
  // shorter than the pool, since the write would make it longer again.
  [[nodiscard]] status may_be_written() noexcept;

  // Makes the pool at least `pages_min` data pages large: doubles it, in whole chunks, within its capacity; if the
  // device has no room for that, to the needed size.  Returns the size.  errc::no_space beyond the capacity or when the
  // device is full; the pool is then as before.  The growth is ordered before all later stores of this thread, and
  // durable as m.durable() says.
  template <media M>
  [[nodiscard]] result<std::uint64_t> grow(M& m, std::uint64_t pages_min) noexcept {
    if (auto s = usable(); !s) return s.error();
    const std::lock_guard lock{growing_};
    if (size_pages() >= pages_min) return size_pages();
    if (auto s = accepts_commits(); !s) return s.error();
    result<std::uint64_t> pages = extend(pages_min);
    if (!pages) {
      if constexpr (requires { m.poison(""); }) {
        if (!accepts_commits()) m.poison(failure_);
      }
      return pages.error();
    }
    const std::uint64_t old_bytes = geometry().size_bytes();
    superblock_.size_pages = *pages;
    platform::memory_watch::accessible(base() + old_bytes, (*pages - size_pages()) << shape_.page_shift);
    write_superblock(m, base(), superblock_);
    size_pages_.store(*pages, std::memory_order_release);
    return *pages;
  }

  // Makes the pool `pages` data pages large, whole chunks and fewer than it has; the caller has them all from there on,
  // and nobody reads there.  Nothing that was ordered leads there any more (bring_home()).  Ordered and durable on
  // return.  errc::io of the medium; of a file that could not be cut `uncut` says why, and the pool is shorter.
  template <media M>
  [[nodiscard]] status shrink(M& m, std::uint64_t pages, status& uncut) noexcept {
    if (auto s = usable(); !s) return s;
    const std::lock_guard lock{growing_};
    if (auto s = accepts_commits(); !s) return s;
    if (pages != size_pages()) {
      NVM_ASSERT(pages < size_pages() && pages % layout::pages_per_chunk == 0 && pages != 0);
      superblock_.size_pages = pages;
      // Before the file can be shorter than that.
      size_pages_.store(pages, std::memory_order_release);
      cuts_.fetch_add(1, std::memory_order_release);
      if (planted(plant::cut_before_size)) uncut = end_file();
      write_superblock(m, base(), superblock_);
    }
    if (!planted(plant::cut_before_size)) {
      if (auto s = bring_home(m); !s) return s;
    }
    uncut = end_file();
    return {};
  }
  // Blocks for pages that may have none.  errc::no_space.
  [[nodiscard]] status fill(std::uint64_t page, std::uint64_t count) noexcept;
  // Pages that are nobody's, with feature_holes, have no blocks any more, and hold zeros.  errc::system where the file
  // system cannot do that.
  [[nodiscard]] status punch(std::uint64_t page, std::uint64_t count) noexcept;
  // Held while blocks of the file go, and by a thread that reads pages of others: what is in use when it takes the lock
  // can be read as long as it has it.  After growing_; nothing but the file system, the mapping and the keeper of the
  // image's pages is called under it.
  [[nodiscard]] std::mutex& blocks_going() noexcept { return blocks_going_; }
  // Free pages may be holes.
  [[nodiscard]] bool has_holes() const noexcept { return has_compatible_feature(layout::feature_holes); }

  // Whether the pool has bits of features_incompat.  acquire: pairs with the release in add_feature(): what says so was
  // ordered.
  [[nodiscard]] bool has_feature(std::uint32_t bits) const noexcept {
    return (features_.load(std::memory_order_acquire) & bits) == bits;
  }
  [[nodiscard]] bool has_compatible_feature(std::uint32_t bits) const noexcept {
    return (compatible_.load(std::memory_order_acquire) & bits) == bits;
  }
  // Gives the pool these features for good, even if a transaction aborts.  Like a growth this is ordered before all
  // that a thread does after it has seen has_feature().  A library that does not know the features refuses the pool.
  template <media M>
  [[nodiscard]] status add_feature(M& m, std::uint32_t bits) noexcept {
    return add_bits(m, superblock_.features_incompat, features_, bits);
  }
  // The same of features_compat, which a library that does not know the features ignores.
  template <media M>
  [[nodiscard]] status add_compatible_feature(M& m, std::uint32_t bits) noexcept {
    return add_bits(m, superblock_.features_compat, compatible_, bits);
  }

  // Whether stored pointers may assume another base than base().
  [[nodiscard]] bool must_relocate() const noexcept {
    return nvm::must_relocate(superblock_, reinterpret_cast<std::uintptr_t>(base_));
  }
  // The bases that stored pointers may assume; from begin_relocation() on base() is one of them.
  [[nodiscard]] base_ranges bases() const noexcept { return ranges_of(superblock_); }
  [[nodiscard]] std::uint64_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(base_); }
  // Makes base() one of them. Like a growth this is ordered before all later stores of this thread.
  template <media M>
  [[nodiscard]] status begin_relocation(M& m) noexcept {
    const std::lock_guard lock{growing_};
    if (auto s = accepts_commits(); !s) return s;
    const auto joined = join_base(superblock_, reinterpret_cast<std::uintptr_t>(base_));
    if (!joined) return joined.error();
    if (*joined) write_superblock(m, base(), superblock_);
    return {};
  }
  // The same for a relocation by transactions: objects are numbered from then on.
  template <media M>
  [[nodiscard]] status begin_numbered_relocation(M& m) noexcept {
    const std::lock_guard lock{growing_};
    if (auto s = accepts_commits(); !s) return s;
    const auto joined = join_numbered_base(superblock_, address());
    if (!joined) return joined.error();
    if (*joined) write_superblock(m, base(), superblock_);
    return {};
  }
  [[nodiscard]] numbered_bases numbers() const noexcept { return numbers_of(superblock_); }
  [[nodiscard]] bool numbers_objects() const noexcept {
    return (superblock_.features_incompat & layout::feature_numbers) != 0;
  }
  // Ends the numbering: objects without a number assume base(), and their stores are ordered before this.
  template <media M>
  [[nodiscard]] status prefer_base(M& m) noexcept {
    const std::lock_guard lock{growing_};
    if (auto s = accepts_commits(); !s) return s;
    if (superblock_.base_address == address()) return {};
    superblock_.base_address = address();
    write_superblock(m, base(), superblock_);
    return {};
  }
  // Ends a relocation: all pointers assume base(), and their stores are ordered before this.
  template <media M>
  [[nodiscard]] status finish_relocation(M& m) noexcept {
    const std::lock_guard lock{growing_};
    if (auto s = accepts_commits(); !s) return s;
    forget_other_bases(superblock_, reinterpret_cast<std::uintptr_t>(base_));
    write_superblock(m, base(), superblock_);
    return {};
  }

  // Facts of the pool from the file and this process, without used_pages and free_pages; right even if the file has
  // lost its name.
  [[nodiscard]] status describe(nvm_pool_info& out) noexcept;

  // After the caller changed the header in a private mapping (replay into memory): takes the superblock from there.
  [[nodiscard]] status adopt_image() noexcept;
  // Makes the mapping private: later stores stay in this process.  For media that cannot keep their promise any more.
  // Any thread may call it, while others load and store.
  [[nodiscard]] status detach() noexcept;
  // From now on data pages may be holes of the file that are in a second one. Called during creation, or during an open
  // that may change the pool; both write this with the state. A page that cannot be brought ends the process.
  void join_tier() noexcept;
  [[nodiscard]] bool has_tier() const noexcept { return has_feature(layout::feature_tier); }
  // For a pool with an image, while it is opened or created: makes its data pages those of this file of memory, laid
  // out as the pool's, which `guest` fills.
  [[nodiscard]] status keep_image_in(int descriptor) noexcept;
  void let_in(const image_guest& guest) noexcept;
  // Makes the data pages the pool's own again.
  [[nodiscard]] status take_image_back() noexcept;
  [[nodiscard]] const image_guest& guest() const noexcept { return guest_; }
  // Sets what a forked child does with inherited things other than the file.
  void on_fork(const image_step& step) noexcept { in_child_ = step; }
  // A page of the second file is lost: the pool has failed.
  void lose(std::uint64_t offset, const char* why) noexcept { memory_.lose(offset, why); }
  // On ssd: writes state `open` unless the file says so already; the caller syncs the file before any change becomes
  // durable.  Called once, by one thread, at any time.
  [[nodiscard]] status mark_open() noexcept;

  // The pool object of the higher layer, for callers that have only an address.
  void set_owner(void* owner) noexcept { owner_.store(owner, std::memory_order_release); }
  [[nodiscard]] void* owner() const noexcept { return owner_.load(std::memory_order_acquire); }

 private:
  friend struct open_pools::access;

  template <media M>
  [[nodiscard]] status add_bits(M& m, std::uint32_t& stored, std::atomic<std::uint32_t>& known,
                                std::uint32_t bits) noexcept {
    if (auto s = usable(); !s) return s;
    const std::lock_guard lock{growing_};
    if ((stored & bits) == bits) return {};
    if (auto s = accepts_commits(); !s) return s;
    stored |= bits;
    write_superblock(m, base(), superblock_);
    known.store(stored, std::memory_order_release);
    return {};
  }

  pool_file() = default;
  [[nodiscard]] static result<pointer> make(const char* path) noexcept;
  [[nodiscard]] status create_file(const pool_create_options& options) noexcept;
  [[nodiscard]] status fill_new_file(const pool_create_options& options) noexcept;
  [[nodiscard]] status open_file(const pool_open_options& options) noexcept;
  [[nodiscard]] status take_file() noexcept;
  [[nodiscard]] status lock_file(bool exclusive) noexcept;
  [[nodiscard]] status read_superblock(bool accept_copy) noexcept;
  [[nodiscard]] status choose_medium(std::uint32_t requested) noexcept;
  [[nodiscard]] status allocate_blocks(std::uint64_t pages_from, std::uint64_t pages_to) noexcept;
  [[nodiscard]] status take_addresses(const pool_open_options& options) noexcept;
  [[nodiscard]] status take_free_slot() noexcept;
  [[nodiscard]] status map() noexcept;
  [[nodiscard]] status set_state(layout::pool_state state) noexcept;
  [[nodiscard]] status set_state_once(layout::pool_state state) noexcept;
  [[nodiscard]] status mark_clean() noexcept;
  [[nodiscard]] status make_sure_of_blocks(entry_pages_function entry_pages) noexcept;
  [[nodiscard]] status make_sure_of_used(entry_pages_function entry_pages) noexcept;
  [[nodiscard]] status make_sure_of(std::uint64_t from, std::uint64_t to) noexcept;
  [[nodiscard]] status end_file() noexcept;
  [[nodiscard]] status drop_image(std::uint64_t from, std::uint64_t bytes) noexcept;
  [[nodiscard]] status bring_tier(const image_step& step) noexcept;
  [[nodiscard]] status make_sure_of_metadata() noexcept;
  [[nodiscard]] result<std::uint64_t> extend(std::uint64_t pages_min) noexcept;
  [[nodiscard]] status refuse_commits() const noexcept;
  [[nodiscard]] status refuse_lost() const noexcept;
  [[nodiscard]] status refuse_use() const noexcept;
  void write_owner(std::uint64_t pid) noexcept;
  void clear_owner() noexcept;
  void take_superblock(const layout::superblock& sb) noexcept;
  void release() noexcept;
  void poison_in_child() noexcept;

  std::string path_;
  platform::pending_name name_;  // of creation
  platform::file file_;
  platform::slot slot_;
  std::byte* base_ = nullptr;  // of the slot, or of foreign memory
  layout::superblock superblock_{};
  layout::superblock opening_{};  // what mark_open() writes; superblock_ may have grown since
  nvm::geometry shape_;
  platform::watched_memory memory_;  // from map() on
  std::atomic<std::uint64_t> size_pages_{0};
  std::atomic<std::uint32_t> features_{0};    // superblock_.features_incompat
  std::atomic<std::uint32_t> compatible_{0};  // superblock_.features_compat
  std::atomic<std::uint64_t> cuts_{0};        // times that the pool became shorter
  file_hooks hooks_;
  std::mutex growing_;  // guards superblock_ and the file's length; taken before anything of media/
  std::mutex blocks_going_;
  std::atomic<void*> owner_{nullptr};
  std::atomic<bool> forked_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> failed_{false};  // written under growing_, once
  char failure_[256] = "";           // written before it
  std::uint32_t medium_ = NVM_MEDIUM_DETECT;
  bool read_only_ = false;
  bool was_clean_ = false;
  bool to_mark_open_ = false;  // superblock_ has state open, the file does not yet
  bool owned_ = false;         // the file has our mark
  image_guest guest_;
  image_step in_child_;
  bool sparse_ = false;  // data pages get blocks when they are first touched
  bool listed_ = false;
  bool published_ = false;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  pool_file* older_ = nullptr;  // of open_pools
  bool seen_at_exit_ = false;   // likewise
};

// Facts from a pool's file, without its lock and with its owner possibly alive; the numbers may be a moment old.
// `entry_pages` gives the pages that a page map entry (its content, checked) holds: 0 for a free one.
[[nodiscard]] status inspect_pool(const char* path, std::uint64_t (*entry_pages)(std::uint64_t content) noexcept,
                                  nvm_pool_info& out) noexcept;

}  // namespace nvm
