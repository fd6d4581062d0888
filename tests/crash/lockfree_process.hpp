// What a process has of a pool's lock-free structures, after one interface for all media and kinds of structures, so
// that a story is written once.
//
// On direct media the image is the pool's memory; on ssd it is the file, and the structures are in a private copy.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "explore/explore.hpp"
#include "lockfree/lockfree.hpp"

namespace nvm::tests {

struct lockfree_variant {
  const char* name = "link_and_persist";
  bool link_cache = false;
  bool all_at_once = true;
  bool image = false;
  lockfree::recovery_method recovery = lockfree::recovery_method::automatic;
  unsigned generation_nodes = 2;  // unlinked nodes that are freed at once
  unsigned area_shift = 10;
  bool volatile_links = false;  // of the structures that are made
  bool in_store = false;        // they are in an object store, the pool's only one
};

// Keys are words; where structures have keys of any size, those of nine bytes of which 256 begin alike.  Values are
// bytes everywhere; those of words are eight.
enum class shape_of_structure : std::uint8_t {
  words_list,
  words_hash,
  words_skip,
  words_tree,
  bytes_list,
  bytes_hash,
  bytes_skip,
  bytes_tree
};
[[nodiscard]] constexpr bool has_words(shape_of_structure s) noexcept { return s <= shape_of_structure::words_tree; }
[[nodiscard]] constexpr lockfree::layout::kind kind_of(shape_of_structure s) noexcept {
  return static_cast<lockfree::layout::kind>(static_cast<unsigned>(s) % 4 + 1);
}
[[nodiscard]] constexpr shape_of_structure shape_of(lockfree::layout::kind k, bool bytes) noexcept {
  return static_cast<shape_of_structure>(static_cast<unsigned>(k) - 1 + (bytes ? 4 : 0));
}
static_assert(shape_of(lockfree::layout::kind::hash, true) == shape_of_structure::bytes_hash);
static_assert(kind_of(shape_of_structure::words_tree) == lockfree::layout::kind::tree);
[[nodiscard]] constexpr bool is_hash(shape_of_structure s) noexcept {
  return kind_of(s) == lockfree::layout::kind::hash;
}
using value_bytes = std::vector<std::byte>;
using key_bytes = std::array<std::byte, 9>;
[[nodiscard]] key_bytes bytes_of_key(std::uint64_t key) noexcept;
[[nodiscard]] std::uint64_t key_of_bytes(const std::byte* from) noexcept;

// Of byte keys: the same for the 256 that begin alike.
struct coarse_hash {
  [[nodiscard]] static std::uint64_t of(std::span<const std::byte> key, std::uint64_t seed) noexcept {
    return checksum(key.data(), key.size() - 1, seed);
  }
};

class lockfree_process {
 public:
  lockfree_process() = default;
  lockfree_process(const lockfree_process&) = delete;
  lockfree_process& operator=(const lockfree_process&) = delete;
  virtual ~lockfree_process() = default;

  virtual status create(std::string_view name, shape_of_structure shape, unsigned bits) = 0;
  virtual void drop(std::string_view name) = 0;
  [[nodiscard]] virtual bool has(std::string_view name) const = 0;
  virtual status need_directory() = 0;

  // By thread `t` of the program.
  virtual result<lockfree::written> write(unsigned t, std::string_view name, std::uint64_t key,
                                          const value_bytes& value, lockfree::write_rule rule) = 0;
  virtual result<bool> remove(unsigned t, std::string_view name, std::uint64_t key) = 0;
  virtual std::optional<value_bytes> look_up(unsigned t, std::string_view name, std::uint64_t key) = 0;
  // Keys, as recovery has counted them.
  [[nodiscard]] virtual std::uint64_t count(std::string_view name) const = 0;
  // Begins an operation that lasts, and ends it.
  virtual void enter(unsigned t, std::string_view name) = 0;
  virtual void leave(unsigned t, std::string_view name) = 0;
  // The thread gives back what it has reserved, and its number.
  virtual void end_thread(unsigned t) = 0;
  [[nodiscard]] virtual bool has_thread(unsigned t) const noexcept = 0;
  // The next insertion of the thread finds the hash table full.
  virtual void fill_up(unsigned t, std::string_view name) = 0;

  virtual void settle() = 0;  // whatever the link cache holds
  virtual status wait() = 0;  // until all that was done is durable
  // All threads have ended; the process is of no use afterwards.  `counts`: entries, where nothing else says how many
  // there are.
  virtual status close(bool counts = true) = 0;
  [[nodiscard]] virtual lockfree::recovery_report recovered() const noexcept = 0;
};

// Opens the pool on the machine's image, recovers it and attaches all of its structures; nullptr with last_message().
// `life`: another one for each process on an image that makes structures: nodes of one that is gone must not pass for
// those of the next at its place, whose seed is random elsewhere.
[[nodiscard]] std::unique_ptr<lockfree_process> open_lockfree(explore::machine& m, const lockfree_variant& v,
                                                              std::uint64_t life = 0);

}  // namespace nvm::tests
