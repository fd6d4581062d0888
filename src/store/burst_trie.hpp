// Burst trie: names of 1 to 255 bytes without zero to 64-bit values (HEAPO, section II-A), in order.  Look-ups and
// walks; burst_trie_change.hpp has the changes, burst_trie_check.hpp the full check.
//
// Names that go on from the same place lie in a *container*. When it has more than its limit it *bursts* into an inner
// node with a container for each next byte. The common part of all names below an inner node is the node's prefix, so a
// long common path costs one node.
//
// Costs.  A look-up reads one container, and an inner node for each place where more names part than a container takes:
// for a million names 3 to 5 inner nodes.  An inner node consumes at least one byte of the name, so that no cycle is
// followed further than 255 nodes.
//
// Threads: a thread that changes the trie keeps others out; readers may be many.
// Crashes: changes are parts of a transaction (trie_memory.hpp); nothing here needs recovery.
#pragma once

#include <cstring>
#include <optional>
#include <string_view>

#include "store/trie_nodes.hpp"

namespace nvm::stores {

[[nodiscard]] inline bool is_store_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= layout::store_name_bytes_max && name.find('\0') == std::string_view::npos;
}

// The value of a name, if it is there.  `root_at`: where the link to the first node lies.
template <trie_reads M>
[[nodiscard]] result<std::optional<std::uint64_t>> trie_find(M& m, std::uint64_t root_at,
                                                             std::string_view name) noexcept {
  using answer = std::optional<std::uint64_t>;
  std::uint64_t at = root_at;
  for (;;) {
    const auto to = read_link(m, at);
    if (!to) return to.error();
    if (to->kind == trie_kind::none) return answer{};
    if (to->kind == trie_kind::container) {
      alignas(8) std::byte room[container_node::room_bytes];
      const auto c = read_container(m, to->place, room);
      if (!c) return c.error();
      const unsigned i = c->find(name);
      return i == c->names() ? answer{} : answer{c->text(i).value};
    }
    alignas(8) std::byte room[inner_node::room_bytes];
    const auto n = read_inner(m, to->place, room);
    if (!n) return n.error();
    if (!name.starts_with(n->prefix)) return answer{};
    name.remove_prefix(n->prefix.size());
    if (name.empty()) return n->head.has_value == 0 ? answer{} : answer{n->head.value};
    const auto next = static_cast<std::uint8_t>(name.front());
    if (!n->has(next)) return answer{};
    at = n->word_at(n->rank(next));
    name.remove_prefix(1);
  }
}

// ---- walks ----

// Names in their order, from a bound on.
template <trie_reads M, class Visit>
class trie_walk {
 public:
  trie_walk(M& m, std::string_view from, bool inclusive, Visit& visit) noexcept
      : m_{m}, from_{from}, inclusive_{inclusive}, visit_{visit} {}

  // True: the visitor has stopped it.
  [[nodiscard]] result<bool> run(std::uint64_t root_at) noexcept {
    if (status s = below(root_at, true); !s) return s.error();
    return stopped_;
  }

 private:
  // `tight`: the path to here spells the beginning of the bound.
  [[nodiscard]] status below(std::uint64_t at, bool tight) noexcept {
    const auto to = read_link(m_, at);
    if (!to) return to.error();
    if (to->kind == trie_kind::none) return {};
    return to->kind == trie_kind::container ? container(to->place, tight) : inner(to->place, tight);
  }

  [[nodiscard, gnu::noinline]] status container(std::uint64_t place, bool tight) noexcept {
    alignas(8) std::byte room[container_node::room_bytes];
    const auto c = read_container(m_, place, room);
    if (!c) return c.error();
    const std::string_view bound = tight ? from_.substr(length_) : std::string_view{};
    for (unsigned i = 0; i < c->names() && !stopped_; ++i) {
      const trie_text t = c->text(i);
      const int order = tight ? t.view().compare(bound) : 1;
      if (order < 0 || (order == 0 && !inclusive_)) continue;
      if (length_ + t.bytes > sizeof name_) return damaged_names("the length of a name", place);
      std::memcpy(name_ + length_, t.text, t.bytes);
      stopped_ = !visit_(std::string_view{name_, length_ + t.bytes}, t.value);
    }
    return {};
  }

  [[nodiscard, gnu::noinline]] status inner(std::uint64_t place, bool tight) noexcept {
    alignas(8) std::byte room[inner_node::room_bytes];
    const auto n = read_inner(m_, place, room);
    if (!n) return n.error();
    const std::uint64_t begin = length_;
    const std::uint64_t length = begin + n->prefix.size();
    if (length >= sizeof name_ && (length > sizeof name_ || n->head.children != 0))
      return damaged_names("the length of a name", place);
    if (tight) {
      const std::string_view bound = from_.substr(begin);
      const std::size_t common = std::min(n->prefix.size(), bound.size());
      const int order = n->prefix.substr(0, common).compare(bound.substr(0, common));
      if (order < 0) return {};  // all below come before the bound
      tight = order == 0 && n->prefix.size() <= bound.size();
    }
    n->prefix.copy(name_ + begin, n->prefix.size());
    // Where the bound ends here, everything below comes after it.
    const bool at_bound = tight && length == from_.size();
    if (n->head.has_value != 0 && (!tight || (at_bound && inclusive_)))
      stopped_ = !visit_(std::string_view{name_, length}, n->head.value);
    const bool goes_on = tight && !at_bound;
    const auto first = goes_on ? static_cast<std::uint8_t>(from_[length]) : std::uint8_t{0};
    status s;
    (void)n->each([&](std::uint8_t byte, unsigned rank) {
      if (stopped_ || byte < first) return !stopped_;
      name_[length] = static_cast<char>(byte);
      length_ = length + 1;
      s = below(n->word_at(rank), goes_on && byte == first);
      return s.has_value();
    });
    length_ = begin;
    return s;
  }

  M& m_;
  std::string_view from_;
  bool inclusive_;
  Visit& visit_;
  bool stopped_ = false;
  char name_[layout::store_name_bytes_max];
  std::uint64_t length_ = 0;  // of the name that the path to here spells
};

// Calls visit(name, value) -> bool for the names that begin with `prefix`, in their order, beginning with the first
// after `after` (empty: with the first of all), until it answers false. Returns true if there may be more. A caller
// goes on with the last name of this part as `after`; that name may be gone by then.
template <trie_reads M, class Visit>
[[nodiscard]] result<bool> trie_each(M& m, std::uint64_t root_at, std::string_view prefix, std::string_view after,
                                     Visit&& visit) noexcept {
  bool left_off = false;
  const auto one = [&](std::string_view name, std::uint64_t value) {
    if (!name.starts_with(prefix)) return false;
    left_off = !visit(name, value);
    return !left_off;
  };
  const bool behind = after >= prefix && !after.empty();
  trie_walk<M, const decltype(one)> walk{m, behind ? after : prefix, !behind, one};
  if (const auto ended = walk.run(root_at); !ended) return ended.error();
  return left_off;
}

}  // namespace nvm::stores
