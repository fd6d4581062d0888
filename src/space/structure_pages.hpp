// Pages for structures that keep their own account of what is in them (protocols epoch, self-validating and region):
// extents of equal nodes, and runs.  The page map says who owns them, or, inside of an object store, the map of a
// cluster.
//
// Virtual, because a structure's layer need not know how the pool's transactions are logged; called once in some
// hundred allocations.
#pragma once

#include <array>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/base.hpp"
#include "pool/pool.hpp"
#include "space/pages_of_stores.hpp"
#include "space/space_layout.hpp"

namespace nvm {

struct owned_pages {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  layout::page_kind kind = layout::page_kind::free;  // run or coarse
  layout::slot_protocol protocol = layout::slot_protocol::epoch;
  std::uint16_t owner = 0;
  layout::object_layout layout = layout::object_layout::raw;
};

// Whole pages that a structure wants; their contents are unspecified.
struct run_wish {
  layout::slot_protocol protocol = layout::slot_protocol::epoch;
  std::uint16_t owner = 0;
  std::uint64_t bytes = 0;
  layout::object_layout layout = layout::object_layout::raw;
  // False: the entry is flushed, and the caller fences before anything durable leads there.
  bool fenced = true;
  // True: also of the last pages, since what it is for frees (space::keep_pages_for_logs()).
  bool for_log = false;
  // Called with the offset before the entry can become durable.
  void (*known)(void* context, std::uint64_t offset) = nullptr;
  void* context = nullptr;
};

class structure_pages {
 public:
  // An empty coarse extent whose nodes take `slots_each` slots each; its length bytes say so already, so that a node
  // exists when its bit is set.  `arena` spreads the pages of different threads.  Durable on return.  Offset of the
  // extent; errc::no_space, no_memory, or the error of growth.
  [[nodiscard]] virtual result<std::uint64_t> take_extent(unsigned arena, layout::slot_protocol protocol,
                                                          std::uint16_t owner, unsigned slots_each) noexcept = 0;
  // Offset of the pages; errc::no_space, too_large, no_memory, or the error of growth.
  [[nodiscard]] virtual result<std::uint64_t> take_run(unsigned arena, const run_wish& wish) noexcept = 0;
  // The same; the entry is durable on return.  `known` is called with the offset before that.
  using offset_known = void (*)(void* context, std::uint64_t offset);
  [[nodiscard]] result<std::uint64_t> take_run(unsigned arena, layout::slot_protocol protocol, std::uint16_t owner,
                                               std::uint64_t bytes, offset_known known = nullptr,
                                               void* context = nullptr) noexcept {
    return take_run(arena,
                    run_wish{.protocol = protocol, .owner = owner, .bytes = bytes, .known = known, .context = context});
  }
  // Frees the extents and runs at `offsets`, durably on return: one fence for all.
  virtual void give(std::span<const std::uint64_t> offsets) noexcept = 0;
  void give(std::uint64_t offset) noexcept { give(std::span{&offset, 1}); }

  // Whether the page is free at this moment.
  [[nodiscard]] virtual bool is_free(std::uint64_t page) const noexcept = 0;
  // What owns the page that holds `offset` and begins at or before it; errc::bad_pointer: no structure does.
  [[nodiscard]] virtual result<owned_pages> owned_at(std::uint64_t offset) const noexcept = 0;
  // Calls visit for each extent and run of any structure whose first page is one of [first, end), until it says false.
  virtual void each_owned(std::uint64_t first, std::uint64_t end, void* context,
                          bool (*visit)(void* context, const owned_pages&)) const noexcept = 0;

  // Pages to which no link of a structure may lead; and whether the page that holds `offset` is one: of an object
  // store, or, where the structures are inside of one, not of that.
  [[nodiscard]] virtual pages_of_stores& of_stores() noexcept = 0;
  [[nodiscard]] virtual bool is_foreign(std::uint64_t offset) const noexcept = 0;

  // Offsets of the words that name the directory of lock-free structures; equal, but after a crash.
  struct directory_words {
    std::array<std::uint64_t, 2> at{};
    unsigned count = 0;
    [[nodiscard]] const std::uint64_t* begin() const noexcept { return at.data(); }
    [[nodiscard]] const std::uint64_t* end() const noexcept { return at.data() + count; }
  };
  [[nodiscard]] virtual directory_words lockfree_directory() const noexcept = 0;
  // Begins the write-back of the words that say which pages are in use; those of free pages, too.
  virtual void write_back_entries() noexcept = 0;

  [[nodiscard]] virtual const geometry& sizes() const noexcept = 0;  // as the pool was opened
  [[nodiscard]] virtual std::uint64_t size_pages() const noexcept = 0;

 protected:
  ~structure_pages() = default;
};

// Pages for structures whose runs become longer and shorter where they are (protocol region); of the pool alone.
class region_pages : public structure_pages {
 public:
  // Adds `pages` pages at the end of a run, durably on return; the caller lets no other thread change it.
  // errc::no_space: they are not free.
  [[nodiscard]] virtual status extend(std::uint64_t offset, std::uint64_t pages) noexcept = 0;
  // The run has `pages` pages from here on, durably on return.  The rest is unowned, and gets no other use before
  // release(), or the next opening of the pool.
  virtual void shorten(std::uint64_t offset, std::uint64_t pages) noexcept = 0;
  virtual void release(std::uint64_t offset, std::uint64_t pages) noexcept = 0;
  // Unowned pages get no other use before release(), or the next opening of the pool; nothing is written.  False: one
  // of them is in use.
  [[nodiscard]] virtual bool take_free(std::uint64_t offset, std::uint64_t pages) noexcept = 0;
  // LSN (media::last_lsn()) up to which everything is ordered that has freed a page taken so far; 0 on direct media.
  [[nodiscard]] virtual std::uint64_t freed_by() const noexcept = 0;
  // Pages that the pool has free, or can grow by.
  [[nodiscard]] virtual std::uint64_t free_pages() const noexcept = 0;

 protected:
  ~region_pages() = default;
};

// Extents and runs of one owner, or of all (0), in the order of their pages.  Throws std::bad_alloc, which each_owned()
// must not see.
[[nodiscard]] inline std::vector<owned_pages> pages_of(const structure_pages& pages, std::uint16_t owner = 0) {
  struct closure {
    std::uint16_t owner;
    std::vector<owned_pages> all{};
    bool whole = true;
  } found{owner};
  pages.each_owned(0, pages.size_pages(), &found, [](void* raw, const owned_pages& p) {
    auto& in = *static_cast<closure*>(raw);
    if (in.owner != 0 && p.owner != in.owner) return true;
    try {
      in.all.push_back(p);
    } catch (const std::bad_alloc&) {
      in.whole = false;
    }
    return in.whole;
  });
  if (!found.whole) throw std::bad_alloc{};
  return std::move(found.all);
}

}  // namespace nvm
