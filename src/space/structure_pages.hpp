// Pages for structures that keep their own account of what is in them (protocols epoch and self-validating): extents of
// equal nodes, and runs.  The page map says who owns them.
//
// Virtual, because a structure's layer need not know how the pool's transactions are logged; called once in some
// hundred allocations.
#pragma once

#include <cstdint>

#include "base/base.hpp"
#include "pool/pool.hpp"
#include "space/space_layout.hpp"

namespace nvm {

struct owned_pages {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  layout::page_kind kind = layout::page_kind::free;  // run or coarse
  layout::slot_protocol protocol = layout::slot_protocol::epoch;
  std::uint16_t owner = 0;
};

class structure_pages {
 public:
  // An empty coarse extent whose nodes take `slots_each` slots each; its length bytes say so already, so that a node
  // exists when its bit is set.  `arena` spreads the pages of different threads.  Durable on return.  Offset of the
  // extent; errc::no_space, no_memory, or the error of growth.
  [[nodiscard]] virtual result<std::uint64_t> take_extent(unsigned arena, layout::slot_protocol protocol,
                                                          std::uint16_t owner, unsigned slots_each) noexcept = 0;
  // Takes whole pages, contents unspecified; the entry is durable on return.  `known` is told the offset before that.
  using offset_known = void (*)(void* context, std::uint64_t offset);
  [[nodiscard]] virtual result<std::uint64_t> take_run(unsigned arena, layout::slot_protocol protocol,
                                                       std::uint16_t owner, std::uint64_t bytes,
                                                       offset_known known = nullptr,
                                                       void* context = nullptr) noexcept = 0;
  // Frees the extent or run at `offset`, durably on return.
  virtual void give(std::uint64_t offset) noexcept = 0;

  // What owns the page that holds `offset` and begins at or before it; errc::bad_pointer: no structure does.
  [[nodiscard]] virtual result<owned_pages> owned_at(std::uint64_t offset) const noexcept = 0;
  // Calls visit for each extent and run of any structure whose first page is one of [first, end), until it says false.
  virtual void each_owned(std::uint64_t first, std::uint64_t end, void* context,
                          bool (*visit)(void* context, const owned_pages&)) const noexcept = 0;

  [[nodiscard]] virtual const geometry& sizes() const noexcept = 0;  // as the pool was opened
  [[nodiscard]] virtual std::uint64_t size_pages() const noexcept = 0;

 protected:
  ~structure_pages() = default;
};

}  // namespace nvm
