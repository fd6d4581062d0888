// The lazy list (Heller et al., OPODIS 2005) with redo logging, and a hash table with one such list in each bucket.
//
// Readers take no lock.  A writer locks the node before the key (and the node itself to remove it) and looks whether it
// is still the one before.  A removed node's own link gets the tag `gone`, for threads that stand on it: after a crash
// nothing leads there, so the tag is not logged.  Lock order: ascending.
#pragma once

#include "base/inlining.hpp"
#include "lockfree/hash_table.hpp"
#include "lockfree/logged/redo_log.hpp"
#include "lockfree/logged/twin_face.hpp"

namespace nvm::lockfree::logged {

enum class outcome : std::uint8_t { done, not_done, failed };

// The beginning of a list, and of each node.
struct list_head {
  stamped_link next;
  token_lock lock;
};
struct list_node : list_head {
  std::uint64_t order;
  std::uint64_t content;
};
static_assert(sizeof(list_head) == 32 && sizeof(list_node) == 48);

template <class Memory>
class lazy_chain {
 public:
  using session = typename Memory::session;

  lazy_chain(Memory& memory, redo_log<Memory>& log) noexcept : memory_{memory}, log_{log} {}

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(list_head& head, std::uint64_t order, Visit&& visit) noexcept {
    link_word w = head.next.load();
    while (offset_of(w) != 0) {
      list_node* n = at(w);
      if (n->order >= order) {
        if (n->order != order || (n->next.load() & gone) != 0) return false;
        visit(n->content);
        return true;
      }
      w = n->next.load();
    }
    return false;
  }

  [[nodiscard]] result<bool> put(session& s, list_head& head, std::uint64_t order, std::uint64_t content) noexcept {
    for (;;) {
      const position p = find(head, order);
      if (p.current != nullptr && p.current->order == order) {
        if ((p.current->next.load() & gone) == 0) return false;
        continue;  // it is about to leave
      }
      p.before->lock.lock(log_.token());
      if (!still_leads(p)) {
        p.before->lock.unlock();
        continue;
      }
      const auto room = memory_.allocate(s, sizeof(list_node));
      if (!room || !log_.has_room_for(s)) {
        p.before->lock.unlock();
        return no_room(room);
      }
      auto* n = reinterpret_cast<list_node*>(memory_.at(*room));
      n->order = order;
      n->content = content;
      n->lock.holder = 0;
      const std::uint64_t tag = log_.begin(s);
      n->next.set(p.word, tag);
      memory_.contents(n, sizeof *n);
      change_set changes;
      changes.bear(memory_.offset_in_pool(&n->next.stamp), *room);
      changes.add(memory_.offset_in_pool(&p.before->next), *room);
      log_.commit(s, tag, changes, [] {});
      p.before->lock.unlock();
      return true;
    }
  }

  [[nodiscard]] result<bool> take(session& s, list_head& head, std::uint64_t order) noexcept {
    for (;;) {
      const position p = find(head, order);
      if (p.current == nullptr || p.current->order != order) return false;
      p.before->lock.lock(log_.token());
      if (!still_leads(p)) {
        p.before->lock.unlock();
        if ((p.current->next.load() & gone) != 0) return false;
        continue;
      }
      p.current->lock.lock(log_.token());
      const std::uint64_t offset = offset_of(p.word);
      if (!log_.has_room_for(s) || !log_.may_unlink(s, offset)) {
        p.current->lock.unlock();
        p.before->lock.unlock();
        return fail(errc::no_memory, "no memory to unlink a node");
      }
      const link_word behind = p.current->next.load();
      change_set changes;
      changes.add(memory_.offset_in_pool(&p.before->next), behind);
      log_.commit(s, log_.begin(s), changes, [&] {
        // release: a thread that sees it sees it committed.
        std::atomic_ref<link_word>{p.current->next.word}.store(behind | gone, std::memory_order_release);
      });
      p.current->lock.unlock();
      p.before->lock.unlock();
      memory_.retire(s, offset);
      return true;
    }
  }

  template <class Visit>
  void each(list_head& head, Visit&& visit) noexcept {
    for (link_word w = head.next.load(); offset_of(w) != 0;) {
      if (memory_.at(offset_of(w)) == nullptr) return;
      list_node* n = at(w);
      visit(offset_of(w), n);
      w = n->next.load();
    }
  }
  [[nodiscard]] bool leads_to(list_head& head, std::uint64_t offset, std::uint64_t order) noexcept {
    for (link_word w = head.next.load(); offset_of(w) != 0;) {
      if (offset_of(w) == offset) return true;
      if (memory_.at(offset_of(w)) == nullptr) return false;
      list_node* n = at(w);
      if (n->order > order) return false;
      w = n->next.load();
    }
    return false;
  }
  static result<bool> no_room(const result<std::uint64_t>& room) noexcept {
    if (!room) return room.error();
    return fail(errc::no_lane, "more than %u threads use a logged structure", threads_max);
  }

 private:
  struct position {
    list_head* before;
    link_word word;      // the link that led to
    list_node* current;  // the first that is not before the key; nullptr: the end
  };
  [[nodiscard, NVM_INLINE]] list_node* at(link_word w) const noexcept {
    return reinterpret_cast<list_node*>(memory_.at(offset_of(w)));
  }
  [[nodiscard, NVM_INLINE]] position find(list_head& head, std::uint64_t order) const noexcept {
    position p{&head, head.next.load(), nullptr};
    for (;;) {
      if (offset_of(p.word) == 0) break;
      list_node* n = at(p.word);
      if (n->order >= order) {
        p.current = n;
        break;
      }
      p.before = n;
      p.word = n->next.load();
    }
    return p;
  }

  // Whether the node before, which is locked, is still in the list and before the same node.
  [[nodiscard]] static bool still_leads(const position& p) noexcept {
    return (p.word & gone) == 0 && p.before->next.load() == p.word;
  }

  Memory& memory_;
  redo_log<Memory>& log_;
};

template <memory Memory>
class lazy_list : public twin_face<lazy_list<Memory>, Memory> {
 public:
  using session = typename Memory::session;
  static constexpr bool searches_slowly = true;
  static constexpr std::uint64_t root_bytes = sizeof(layout::root) + sizeof(list_head);

  lazy_list(Memory& memory, std::uint64_t root) noexcept
      : log_{memory, root},
        head_{*reinterpret_cast<list_head*>(memory.at(root) + sizeof(layout::root))},
        log_offset_{reinterpret_cast<const layout::root*>(memory.at(root))->log_offset},
        chain_{memory, log_} {}
  static void make_root(std::byte* root, std::uint64_t, rule r, std::byte* log, std::uint64_t log_offset,
                        unsigned) noexcept {
    redo_log<Memory>::make_root(root, r, log, log_offset);
    *reinterpret_cast<list_head*>(root + sizeof(layout::root)) = {};
  }
  static constexpr std::uint64_t root_bytes_of(unsigned) noexcept { return root_bytes; }

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(std::uint64_t k, Visit&& visit) noexcept {
    return chain_.search(head_, k, visit);
  }
  [[nodiscard]] result<bool> put(session& s, std::uint64_t k, std::uint64_t v) noexcept {
    return chain_.put(s, head_, k, v);
  }
  [[nodiscard]] result<bool> take(session& s, std::uint64_t k) noexcept { return chain_.take(s, head_, k); }
  // Calls visit(key, value) for each entry, while no thread is in the list.
  template <class Visit>
  void each(Visit&& visit) noexcept {
    chain_.each(head_, [&](std::uint64_t, const list_node* n) { visit(n->order, n->content); });
  }
  [[nodiscard]] bool has_array_at(std::uint64_t offset) const noexcept { return offset == log_offset_; }
  [[nodiscard]] bool leads_to(std::uint64_t offset) noexcept {
    return chain_.leads_to(head_, offset, ~std::uint64_t{0});
  }
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept {
    visit(log_offset_);
    chain_.each(head_, [&](std::uint64_t offset, const list_node*) { visit(offset); });
    return true;
  }
  [[nodiscard]] redo_log<Memory>& log() noexcept { return log_; }

 private:
  redo_log<Memory> log_;
  list_head& head_;
  const std::uint64_t log_offset_;
  lazy_chain<Memory> chain_;
};

// 2^bits buckets in the root, for as long as it lives.
template <memory Memory>
class lazy_hash : public twin_face<lazy_hash<Memory>, Memory> {
 public:
  using session = typename Memory::session;
  static constexpr bool searches_slowly = false;

  lazy_hash(Memory& memory, std::uint64_t root) noexcept
      : memory_{memory},
        log_{memory, root},
        bits_{static_cast<unsigned>(reinterpret_cast<const layout::root*>(memory.at(root))->reserved[0])},
        heads_{reinterpret_cast<list_head*>(memory.at(root) + sizeof(layout::root))},
        log_offset_{reinterpret_cast<const layout::root*>(memory.at(root))->log_offset},
        chain_{memory, log_} {}
  static void make_root(std::byte* root, std::uint64_t, rule r, std::byte* log, std::uint64_t log_offset,
                        unsigned bits) noexcept {
    redo_log<Memory>::make_root(root, r, log, log_offset);
    reinterpret_cast<layout::root*>(root)->reserved[0] = bits;
    std::fill_n(root + sizeof(layout::root), sizeof(list_head) << bits, std::byte{});
  }
  static constexpr std::uint64_t root_bytes_of(unsigned bits) noexcept {
    return sizeof(layout::root) + (sizeof(list_head) << bits);
  }

  template <class Visit>
  [[nodiscard, NVM_INLINE]] bool search(std::uint64_t k, Visit&& visit) noexcept {
    const std::uint64_t order = word_hash::of(k, 0);
    return chain_.search(head_of(order), order, visit);
  }
  [[nodiscard]] result<bool> put(session& s, std::uint64_t k, std::uint64_t v) noexcept {
    const std::uint64_t order = word_hash::of(k, 0);
    return chain_.put(s, head_of(order), order, v);
  }
  [[nodiscard]] result<bool> take(session& s, std::uint64_t k) noexcept {
    const std::uint64_t order = word_hash::of(k, 0);
    return chain_.take(s, head_of(order), order);
  }
  template <class Visit>
  void each(Visit&& visit) noexcept {
    for (std::uint64_t i = 0; i >> bits_ == 0; ++i) {
      chain_.each(heads_[i],
                  [&](std::uint64_t, const list_node* n) { visit(word_hash::key_of(n->order, 0), n->content); });
    }
  }
  [[nodiscard]] bool has_array_at(std::uint64_t offset) const noexcept { return offset == log_offset_; }
  [[nodiscard]] bool leads_to(std::uint64_t offset) noexcept {
    const auto* n = reinterpret_cast<const list_node*>(memory_.at(offset));
    return n != nullptr && chain_.leads_to(head_of(n->order), offset, n->order);
  }
  template <class Visit>
  [[nodiscard]] bool each_linked(Visit&& visit) noexcept {
    visit(log_offset_);
    for (std::uint64_t i = 0; i >> bits_ == 0; ++i) {
      chain_.each(heads_[i], [&](std::uint64_t offset, const list_node*) { visit(offset); });
    }
    return true;
  }
  [[nodiscard]] redo_log<Memory>& log() noexcept { return log_; }

 private:
  [[nodiscard, NVM_INLINE]] list_head& head_of(std::uint64_t order) const noexcept {
    return heads_[order >> (64 - bits_)];
  }
  Memory& memory_;
  redo_log<Memory> log_;
  const unsigned bits_;
  list_head* const heads_;
  const std::uint64_t log_offset_;
  lazy_chain<Memory> chain_;
};

}  // namespace nvm::lockfree::logged
