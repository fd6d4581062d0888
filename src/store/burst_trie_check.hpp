// Full check of a burst trie: every node, link, text and unused byte, in an image that may be anything.
#pragma once

#include <cstdio>
#include <functional>
#include <new>
#include <unordered_set>

#include "store/burst_trie.hpp"

namespace nvm::stores {

struct trie_figures {
  std::uint64_t names = 0;
  std::uint64_t name_bytes = 0;  // of all names, whole
  std::uint64_t inner_nodes = 0;
  std::uint64_t containers = 0;
  std::uint64_t node_bytes = 0;  // asked for, without the objects' own headers
  std::uint64_t depth = 0;       // inner nodes on the longest way
};

struct trie_check {
  unsigned limit = layout::burst_names_max;  // names that a container may have
  // A fault, and where it is.
  std::function<void(std::uint64_t place, const char* fault)> tell{};
  // Called for a node: its place, bytes and type.
  std::function<void(std::uint64_t place, std::uint64_t bytes, std::uint32_t type)> meet{};
  std::function<void(std::string_view name, std::uint64_t value)> name{};
};

template <trie_reads M>
class trie_checker {
 public:
  trie_checker(M& m, const trie_check& how) noexcept : m_{m}, how_{how} {}
  // May throw std::bad_alloc.
  trie_figures run(std::uint64_t root_at) {
    below(root_at, 0, 0);
    return sum_;
  }

 private:
  void below(std::uint64_t at, std::uint64_t length, unsigned depth) {
    const auto to = read_link(m_, at);
    if (!to) return told(at);
    if (to->kind == trie_kind::none) {
      if (depth != 0) told(at, "a link that leads nowhere");
      return;
    }
    if (!seen_.insert(to->place).second) return told(at, "a link to a node that another link leads to");
    sum_.depth = std::max<std::uint64_t>(sum_.depth, depth);
    to->kind == trie_kind::container ? container(to->place, length) : inner(to->place, length, depth);
  }

  [[gnu::noinline]] void container(std::uint64_t place, std::uint64_t length) {
    alignas(8) std::byte room[container_node::room_bytes];
    const auto c = read_container(m_, place, room);
    if (!c) return told(place);
    node(place, c->head.room, layout::names_type_container);
    ++sum_.containers;
    if (c->names() > how_.limit) told(place, "a container with more names than burst");
    const std::uint64_t tags_end = sizeof(trie_container) + 3 * std::uint64_t{c->names()};
    if (!all_zero(c->at, tags_end, layout::trie_values_at(c->names())))
      told(place, "bytes of a container that nobody uses");
    for (unsigned i = 0; i < c->names(); ++i) {
      const trie_text t = c->text(i);
      if (t.view().find('\0') != std::string_view::npos) told(place, "a name with a zero byte");
      if (length + t.bytes == 0 || length + t.bytes > sizeof name_) {
        told(place, "the length of a name");
        continue;
      }
      if (c->tag_of(i) != layout::trie_tag(t.text, t.bytes)) told(place, "the tag of a name");
      if (i != 0 && c->text(i - 1).view() >= t.view()) told(place, "the order of names");
      std::memcpy(name_ + length, t.text, t.bytes);
      met({name_, length + t.bytes}, t.value);
    }
    const std::uint64_t texts_end = layout::trie_texts_at(c->names()) + c->end_of(c->names() - 1);
    if (!all_zero(c->at, texts_end, c->head.bytes)) told(place, "bytes of a container that nobody uses");
  }

  [[gnu::noinline]] void inner(std::uint64_t place, std::uint64_t length, unsigned depth) {
    alignas(8) std::byte room[inner_node::room_bytes];
    const auto n = read_inner(m_, place, room);
    if (!n) return told(place);
    node(place, n->bytes(), layout::names_type_inner);
    ++sum_.inner_nodes;
    if (n->prefix.find('\0') != std::string_view::npos) told(place, "a name with a zero byte");
    const std::uint64_t end = length + n->prefix.size();
    if (end > sizeof name_ || (end == sizeof name_ && n->head.children != 0))
      return told(place, "the length of a name");
    n->prefix.copy(name_ + length, n->prefix.size());
    const std::byte* const padding = reinterpret_cast<const std::byte*>(n->prefix.data());
    if (!all_zero(padding, n->prefix.size(), round_up(n->prefix.size(), 8)))
      told(place, "bytes of a node that nobody uses");
    for (unsigned i = n->head.children; i < n->head.room; ++i) {
      alignas(8) std::byte word[8];
      const std::byte* const unused = m_.view(n->word_at(i), sizeof word, word);
      if (unused == nullptr || !all_zero(unused, 0, sizeof word)) told(n->word_at(i), "a link that no byte leads to");
    }
    if (n->head.has_value != 0) {
      if (end == 0) told(place, "the length of a name");
      met({name_, end}, n->head.value);
    }
    (void)n->each([&](std::uint8_t byte, unsigned rank) {
      name_[end] = static_cast<char>(byte);
      below(n->word_at(rank), end + 1, depth + 1);
      return true;
    });
  }

  static bool all_zero(const std::byte* p, std::uint64_t from, std::uint64_t to) noexcept {
    return std::all_of(p + from, p + to, [](std::byte b) { return b == std::byte{}; });
  }
  void node(std::uint64_t place, std::uint64_t bytes, std::uint32_t type) {
    sum_.node_bytes += bytes;
    if (how_.meet) how_.meet(place, bytes, type);
  }
  void met(std::string_view name, std::uint64_t value) {
    ++sum_.names;
    sum_.name_bytes += name.size();
    if (how_.name) how_.name(name, value);
  }
  void told(std::uint64_t place, const char* fault) {
    if (how_.tell) how_.tell(place, fault);
  }
  void told(std::uint64_t place) { told(place, last_message()); }

  M& m_;
  const trie_check& how_;
  trie_figures sum_{};
  std::unordered_set<std::uint64_t> seen_;
  char name_[layout::store_name_bytes_max];
};

template <trie_reads M>
[[nodiscard]] result<trie_figures> check_trie(M& m, std::uint64_t root_at, const trie_check& how) noexcept try {
  return trie_checker<M>{m, how}.run(root_at);
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the names of stores");
}

}  // namespace nvm::stores
