// The lock-free structures of an open pool on any medium, for the C interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "lockfree/face.hpp"
#include "media/concept.hpp"

namespace nvm {
class structure_pages;
}

namespace nvm::engines {

using lockfree::write_rule;
using lockfree::written;

// A sync or a write has failed: last_message() says how.
[[nodiscard]] inline errc in_doubt() noexcept {
  return fail(errc::in_doubt, "in doubt, the next open finds it or not: %s", last_message());
}

// Waits until everything up to `lsn` is durable. errc::in_doubt: the sync that it needed has failed. errc::io: the
// medium has failed since, and later changes are lost.
template <media M>
[[nodiscard]] status wait_for(M& medium, lsn_t lsn) noexcept {
  status s = medium.durable(lsn);
  if (s || s.error() != errc::io || is_durable(medium, lsn)) return s;
  return in_doubt();
}

// Result of an operation on a structure after the wait for its durability. If the medium has failed, all of the
// operation may be durable, or its last part may be lost; other threads see it in either case.
[[nodiscard]] inline status of_what_is_done(const status& waited) noexcept {
  if (waited.error() != errc::io) return waited;
  return in_doubt();
}

// How the lock-free structures of a pool are kept while it is open.
struct structure_settings {
  bool link_cache = false;   // changed links wait for whoever depends on them, or settle(); where stores do not survive
  bool all_at_once = true;   // an allocation word is stored once for its places, not once for each (node_heap.hpp)
  unsigned area_shift = 12;  // bytes of an active area: 2^12 .. 2^18; of a pool that has structures, what it has
  lockfree::recovery_method recovery = lockfree::recovery_method::automatic;
};

// An entry of a structure of bytes.
struct structure_entry {
  std::span<const std::byte> key;
  std::span<const std::byte> value;
  std::uint64_t mark = 0;
  std::uint64_t offset = 0;
};

// One structure.  `who`: number of the calling thread.
class open_structure {
 public:
  virtual ~open_structure() = default;
  [[nodiscard]] virtual lockfree::layout::kind kind() const noexcept = 0;
  [[nodiscard]] virtual bool of_bytes() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t count() noexcept = 0;

  using bytes = std::span<const std::byte>;
  [[nodiscard]] virtual result<written> write64(unsigned who, std::uint64_t key, std::uint64_t value,
                                                write_rule rule) noexcept = 0;
  // `verifies`: errc::corrupt if the entry fails its checksum.
  [[nodiscard]] virtual result<bool> find64(unsigned who, std::uint64_t key, std::uint64_t& value,
                                            bool verifies) noexcept = 0;
  [[nodiscard]] virtual result<bool> remove64(unsigned who, std::uint64_t key) noexcept = 0;
  [[nodiscard]] virtual result<int> each64(unsigned who, int (*visit)(std::uint64_t, std::uint64_t, void*),
                                           void* argument) noexcept = 0;
  [[nodiscard]] virtual result<int> scan64(unsigned who, std::uint64_t& cursor, std::size_t entries_max,
                                           int (*visit)(std::uint64_t, std::uint64_t, void*),
                                           void* argument) noexcept = 0;
  // In ascending order of the keys, from the first one on that is not less than `from`, or is greater (`after`).
  // errc::type_mismatch: the structure is not sorted.
  [[nodiscard]] virtual result<int> scan_from64(unsigned who, std::uint64_t from, bool after, std::size_t entries_max,
                                                int (*visit)(std::uint64_t, std::uint64_t, void*),
                                                void* argument) noexcept = 0;

  [[nodiscard]] virtual result<written> write(unsigned who, bytes key, bytes value, std::uint64_t mark,
                                              write_rule rule) noexcept = 0;
  // visit is called inside the operation.
  [[nodiscard]] virtual result<bool> find(unsigned who, bytes key, void (*visit)(void*, const structure_entry&),
                                          void* argument) noexcept = 0;
  [[nodiscard]] virtual result<bool> remove(unsigned who, bytes key) noexcept = 0;
  // size(context, old) -> bytes of the new value, or keep; fill(context, value, old) -> its mark.
  static constexpr std::uint64_t keep = ~std::uint64_t{0};
  static constexpr std::uint64_t take_away = keep - 1;
  enum class updated : std::uint8_t { nothing, inserted, replaced, removed };
  [[nodiscard]] virtual result<updated> update(
      unsigned who, bytes key, std::uint64_t (*size)(void*, const structure_entry* old),
      std::uint64_t (*fill)(void*, std::span<std::byte> value, const structure_entry* old), void* context) noexcept = 0;
  [[nodiscard]] virtual result<int> scan(unsigned who, std::uint64_t& cursor, std::size_t entries_max,
                                         int (*visit)(void*, const structure_entry&), void* argument) noexcept = 0;
  // As scan_from64().
  [[nodiscard]] virtual result<int> scan_from(unsigned who, bytes from, bool after, std::size_t entries_max,
                                              int (*visit)(void*, const structure_entry&), void* argument) noexcept = 0;
  // Entries in the `bytes` of the pool around `offset`, if nothing else is there.
  [[nodiscard]] virtual result<int> each_beside(unsigned who, std::uint64_t offset, std::uint64_t bytes,
                                                int (*visit)(void*, const structure_entry&),
                                                void* argument) noexcept = 0;
  // Bytes of an entry with such a key and value, without the links to it.
  [[nodiscard]] virtual std::uint64_t entry_bytes(std::uint64_t key_bytes,
                                                  std::uint64_t value_bytes) const noexcept = 0;
  // errc::bad_pointer: no entry can be at `offset`.
  [[nodiscard]] virtual status set_mark(unsigned who, std::uint64_t offset, std::uint64_t mark) noexcept = 0;
  [[nodiscard]] virtual result<bool> change_mark(unsigned who, std::uint64_t offset, std::uint64_t& expected,
                                                 std::uint64_t mark, bool durable) noexcept = 0;
  // Whether a found entry matches its checksum, if it has one.
  [[nodiscard]] virtual result<bool> holds_sum(std::uint64_t offset) noexcept = 0;
};

class structure_side {
 public:
  virtual ~structure_side() = default;
  // Recovery.  errc::corrupt, version, no_memory.
  [[nodiscard]] virtual status open() noexcept = 0;
  // errc::not_found.
  [[nodiscard]] virtual result<open_structure*> find(std::string_view name) noexcept = 0;
  [[nodiscard]] virtual result<open_structure*> create(std::string_view name, lockfree::layout::kind kind,
                                                       bool of_bytes, bool volatile_links, bool with_sums,
                                                       std::uint64_t expected) noexcept = 0;
  [[nodiscard]] virtual status drop(std::string_view name) noexcept = 0;
  [[nodiscard]] virtual result<int> names(int (*visit)(const char*, int, void*), void* argument) noexcept = 0;
  [[nodiscard]] virtual const lockfree::recovery_report& recovered() const noexcept = 0;

  // A number for the calling thread.
  [[nodiscard]] virtual result<unsigned> join() noexcept = 0;
  virtual void leave(unsigned who) noexcept = 0;
  // Between operations of the calling thread, after which another one has the number: what it did is durable, or
  // becomes so with what that thread does.
  virtual void hand_over(unsigned who) noexcept = 0;
  // Found entries stay between these two, which nest. False: the thread is in no operation.
  virtual void enter(unsigned who) noexcept = 0;
  [[nodiscard]] virtual bool leave_operation(unsigned who) noexcept = 0;
  // Whether a thread is inside an operation.
  [[nodiscard]] virtual bool at_work() const noexcept = 0;
  [[nodiscard]] virtual const structure_settings& settings() const noexcept = 0;
  // Makes changes by all threads durable, on a log medium up to their positions.
  virtual void settle() noexcept = 0;
  // LSN of all that threads have done and seen with this number.
  [[nodiscard]] virtual lsn_t position(unsigned who) noexcept = 0;
  // The thread that has the number has also seen what was done up to here.
  virtual void owe(unsigned who, lsn_t position) noexcept = 0;
  // No thread is at work: leaves nothing to recover.  `closing`: nothing changes after this before the next open, so
  // that the numbers of entries are left, too.
  virtual void come_to_rest(bool closing) noexcept = 0;

  // No thread is at work. Unlinks every deleted node that is still linked, also those of earlier processes.
  // errc::no_memory.
  [[nodiscard]] virtual status unlink_all_deleted() noexcept = 0;
  // No thread is at work. Calls tell(offset, what) for each allocated node without a link to it, each linked node that
  // is not allocated, and each fault of links and the order of keys. errc::no_memory: the faults told so far are true,
  // but not all.  May throw std::bad_alloc.
  using told = std::function<void(std::uint64_t offset, const char* what)>;
  [[nodiscard]] virtual status check(const told& tell) = 0;
  // The same, with the name of the structure.
  using told_of = std::function<void(std::string_view name, std::uint64_t offset, const char* what)>;
  [[nodiscard]] virtual status check_each(const told_of& tell) = 0;
};

// For direct_media, any_direct and any_image (structures_*.cpp).  `lost` is told of linked nodes that only damage can
// have cut off; nullptr: not wanted.
template <media M>
[[nodiscard]] result<std::unique_ptr<structure_side>> make_structure_side(
    M& medium, std::byte* base, structure_pages& pages, const structure_side::told* lost = nullptr,
    const structure_settings& settings = {}) noexcept;

}  // namespace nvm::engines
