// A sorted linked list (Harris): the chain with one entrance.  Root: a run with the first link.
#pragma once

#include <type_traits>

#include "base/inlining.hpp"
#include "lockfree/chain.hpp"
#include "lockfree/face_of.hpp"
#include "space/space.hpp"

namespace nvm::lockfree {

struct list_root {
  std::uint64_t magic;
  link first;
};
inline constexpr std::uint64_t list_magic = 0x5453'494C'4552'464C;  // "LFRELIST" in file order

template <memory Memory, node_kind Nodes>
class list : public sorted_face_of<list<Memory, Nodes>, Memory, Nodes>,
             public marked_in_itself<list<Memory, Nodes>>,
             public searched_in_one_step<list<Memory, Nodes>> {
 public:
  using session = typename Memory::session;
  using nodes = Nodes;
  using key = typename Nodes::key;
  using value = typename Nodes::value;

  explicit list(Memory& memory, std::uint64_t root) noexcept
      : root_{*reinterpret_cast<list_root*>(memory.at(root))}, chain_{memory} {}

  // For a root that nothing leads to yet; the caller makes it durable.
  static constexpr std::uint64_t root_bytes = sizeof(list_root);
  static void make_root(std::byte* at) noexcept {
    auto* r = reinterpret_cast<list_root*>(at);
    r->magic = list_magic;
    r->first.set(0);
  }

  // ---- inside of an operation: face_of.hpp ----

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept {
    return chain_.search(s, root_.first, order, k, visit);
  }
  template <class Size, class Fill>
  [[nodiscard]] result<written> put(session& s, std::uint64_t order, const key& k, write_rule rule, Size&& size,
                                    Fill&& fill) noexcept {
    return chain_.put(s, root_.first, order, k, rule, size, fill);
  }
  template <class Decide>
  [[nodiscard]] result<bool> take(session& s, std::uint64_t order, const key& k, Decide&& decide) noexcept {
    return chain_.take(s, root_.first, order, k, decide);
  }
  template <class Visit>
  void walk(session& s, Visit&& visit) noexcept {
    chain_.walk(s, root_.first, visit);
  }
  template <class Visit>
  void walk_from(session& s, std::uint64_t order, Visit&& visit) noexcept {
    walk(s, [&](const node_head* n) { return n->order < order || visit(n); });
  }
  template <class Visit>
  void walk_from_key(session& s, std::uint64_t order, const key& k, Visit&& visit) noexcept {
    // A node that reaches out of the pool is after all of its order.
    const auto is_before = [&](const node_head* n) {
      if (n->order != order) return n->order < order;
      return is_whole<Nodes>(chain_.memory(), n) && Nodes::compare(n, k) < 0;
    };
    walk(s, [&](const node_head* n) { return is_before(n) || visit(n); });
  }
  [[nodiscard]] bool tidy(session& s, const node_head* n) noexcept {
    return chain_.tidy_at(s, root_.first, n->order, n);
  }

  // ---- recovery ----

  // What is wrong with a root; nullptr: nothing.
  [[nodiscard]] static const char* root_fault(const structure_pages&, const std::byte* base, std::uint64_t root,
                                              std::uint16_t) noexcept {
    return reinterpret_cast<const list_root*>(base + root)->magic == list_magic ? nullptr : "it is no root of a list";
  }

  // Keys, where so many nodes and runs are allocated.
  [[nodiscard]] static std::uint64_t count_of(std::uint64_t allocated) noexcept {
    return allocated == 0 ? 0 : allocated - 1;
  }
  static constexpr bool searches_slowly = true;
  // The node may hold anything.
  [[nodiscard]] bool leads_to(std::uint64_t offset, std::uint64_t, const link*& by) noexcept {
    const auto* n = reinterpret_cast<const node_head*>(chain_.memory().at(offset));
    return n != nullptr && chain_.leads_to(root_.first, offset, n->order, [&](const link& l) { by = &l; });
  }
  [[nodiscard]] const link* mark_of(std::uint64_t offset, std::uint64_t) const noexcept {
    return reinterpret_cast<const link*>(chain_.memory().at(offset));
  }
  // Calls pass(link) for each link that leads_to() follows.
  template <class Pass>
  void each_link_to(std::uint64_t offset, std::uint64_t, Pass&& pass) noexcept {
    const auto* n = reinterpret_cast<const node_head*>(chain_.memory().at(offset));
    if (n != nullptr) (void)chain_.leads_to(root_.first, offset, n->order, pass);
  }
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept {
    // A damaged chain may lead round in a circle.
    std::uint64_t left = chain_.memory().nodes_max();
    const link* in = &root_.first;
    for (link_word w = in->load(); offset_of(w) != 0;) {
      auto* n = reinterpret_cast<node_head*>(chain_.memory().node_at(offset_of(w)));
      if (n == nullptr) return true;
      if (left-- == 0) {
        chain_.memory().report_damage(offset_of(w));
        return true;
      }
      visit(offset_of(w), in);
      in = &n->next;
      w = in->load();
    }
    return true;
  }
  // What is wrong with the links while no thread is at work; nullptr: nothing.
  // Calls meet(node) for each node that is not deleted.
  template <class Meet>
  [[nodiscard]] const char* check(Meet&& meet) {
    return chain_.check(*this, root_.first, [](const link&) {}, meet);
  }
  // Where the head of a node of so many bytes may be, from its beginning; and the other way round.
  template <class Visit>
  static void each_head(std::uint64_t, Visit&& visit) noexcept {
    visit(std::uint64_t{0});
  }
  [[nodiscard]] static std::uint64_t start_of(std::uint64_t head) noexcept { return head; }
  // Links nodes, in the order of their keys, in an empty list that no thread uses.  head(i): offset of node i.
  template <class Head>
  void link_all(std::size_t count, Head&& head, unsigned) noexcept {
    link* in = &root_.first;
    for (std::size_t i = 0; i < count; ++i) {
      in->set(head(i));
      in = &reinterpret_cast<node_head*>(chain_.memory().at(head(i)))->next;
    }
    in->set(0);
  }

  // Byte keys are ordered by their first eight bytes, then by the rest.
  [[nodiscard, NVM_INLINE]] static std::uint64_t order_of(const key& k) noexcept {
    if constexpr (std::is_same_v<key, std::uint64_t>) {
      return k;
    } else {
      std::uint64_t order = 0;
      std::memcpy(&order, k.data(), k.size() < 8 ? k.size() : 8);
      return __builtin_bswap64(order);
    }
  }
  static constexpr std::uint64_t key_of_order(std::uint64_t order) noexcept { return order; }
  [[nodiscard]] Memory& memory() const noexcept { return chain_.memory(); }

 private:
  list_root& root_;
  chain<Memory, Nodes> chain_;
};

}  // namespace nvm::lockfree
