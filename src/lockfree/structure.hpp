// What the pool asks of a structure of any kind: what is left of it after a crash.
#pragma once

#include <cstdint>
#include <span>

#include "lockfree/link.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "lockfree/nodes.hpp"

namespace nvm::lockfree {

// A search for one node, which takes a step at a time so that several can be under way.
enum class progress : std::uint8_t { under_way, found, absent };

class structure {
 public:
  struct candidate {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool linked = false;
    const link* by = nullptr;
  };
  virtual ~structure() = default;
  // Finds out whether something leads to the nodes or runs, whose contents may be anything: then `linked` is set, and
  // `by` is the link that does, if that may change.  Called by several threads at a time; changes nothing.  (Log-free,
  // section 5.5, first method.)
  virtual void look_for(std::span<candidate> all) noexcept = 0;
  // Whether the node or run, if it was linked once, bears the mark that is made durable before anything is unlinked;
  // one that is linked may bear it, too.
  [[nodiscard]] virtual bool bears_mark(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // The head of a node that nothing leads to, and whose contents are those of a linked one: its mark says that it was
  // not deleted, its sum holds, its order is that of its key.  nullptr: it is none, or the structure cannot tell.
  [[nodiscard]] virtual const node_head* whole_at(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // Calls visit for the offset of each node and run that something leads to; false: no volatile memory to do so for
  // all; `by` as above.  (Second method.)
  [[nodiscard]] virtual bool each_linked(void* context, void (*visit)(void* context, std::uint64_t offset,
                                                                      const link* by)) noexcept = 0;
  // Whether a link was found that leads where no node can be: the answers of look_for() cannot be relied on then.
  [[nodiscard]] virtual bool is_damaged() const noexcept = 0;
  // What is wrong with its links and the order of its keys while no thread is at work; nullptr: nothing.  Looks at all
  // of it; may throw std::bad_alloc.
  [[nodiscard]] virtual const char* links_fault() = 0;
  // Calls visit for each entry whose node's sum fails, in structures that have sums.  `key`: as it stands there, unless
  // it reaches out of the pool.  Called like links_fault(), after that has found nothing.
  virtual void each_failing(void* context,
                            void (*visit)(void* context, std::uint64_t offset, std::span<const std::byte> key)) = 0;
  // Calls visit for each extent that belongs to no structure, and in which a self-proving node of this one lives.
  virtual void each_stray(void* context, void (*visit)(void* context, std::uint64_t offset)) noexcept = 0;
  // Looking for one node takes as long as looking at all.
  [[nodiscard]] virtual bool searches_slowly() const noexcept = 0;
  // Recovery has found that `by` leads to the node: remembers it if it has been deleted and not yet unlinked, since it
  // is no key then.  False: no volatile memory for that.
  [[nodiscard]] virtual bool note_linked(std::uint64_t offset, std::uint64_t bytes, const link* by) noexcept = 0;
  // each_allocated() of these will be called soon.
  virtual void prefetch_words(std::uint64_t first) noexcept = 0;
  // Calls visit for each node that is allocated and whose offset lies in [first, end).
  virtual void each_allocated(std::uint64_t first, std::uint64_t end, void* context,
                              void (*visit)(void* context, std::uint64_t offset, std::uint64_t bytes)) noexcept = 0;
  // Removes the last links to a node that is about to be freed, which do not make it part of the structure.  True:
  // there were some; written back, not fenced.
  virtual bool detach(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // Begins to write back what a killed process may have left in caches: the allocation words of nodes in [first, end);
  // the mark of a node that was found, with which it is deleted; the links that lead past a node that nothing leads to.
  virtual void write_back_words(std::uint64_t first, std::uint64_t end) noexcept = 0;
  virtual void write_back_mark(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  virtual void write_back_links(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // Wipes such a node, so that a later recovery does not take it for a linked one; written back, not fenced.
  virtual void wipe_unlinked(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  // Frees nodes that nothing leads to; written back, not fenced.
  virtual void free_unlinked(std::span<const std::uint64_t> offsets) noexcept = 0;
  // The user's threads have given their reservations back, and none will come.
  virtual void come_to_rest() noexcept = 0;
};

// structure::each_failing() of a shape.
template <class Shape, class Memory>
void each_failing(Shape& shape, const Memory& memory, void* context,
                  void (*visit)(void* context, std::uint64_t offset, std::span<const std::byte> key)) {
  using nodes = typename Shape::nodes;
  (void)shape.check([&](const node_head* n) {
    if (holds_its_sum<nodes>(memory, n)) return;
    std::span<const std::byte> key{reinterpret_cast<const std::byte*>(&n->order), sizeof n->order};
    if constexpr (nodes::of_bytes) key = is_whole<nodes>(memory, n) ? nodes::key_of(n) : std::span<const std::byte>{};
    visit(context, memory.offset_in_pool(n), key);
  });
}

}  // namespace nvm::lockfree
