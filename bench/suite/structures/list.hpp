// A linked list of keys and values; what is new goes to the front (HEAPO, section III-B).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "suite/structures/copies.hpp"
#include "suite/structures/value.hpp"

namespace nvm::bench {

class list {
 public:
  static constexpr const char* name = "list";

  template <class E>
  list(E& engine, std::uint64_t /*records*/) : head_(static_cast<head*>(engine.fixed(sizeof(head)))) {}

  std::size_t part_of(std::uint64_t /*key*/) const noexcept { return 0; }

  // The key must be new: to look for it would be another benchmark.
  template <class Tx>
  bool put(Tx& tx, std::uint64_t key, const value& v) {
    auto* fresh = static_cast<node*>(tx.alloc(sizeof(node)));
    fresh->next = tx.load(&head_->first);
    fresh->key = key;
    fresh->contents = v;
    tx.store(&head_->first, fresh);
    return true;
  }
  template <class Tx>
  bool erase(Tx& tx, std::uint64_t key) {
    for (node** link = &head_->first;;) {
      node* const at = tx.load(link);
      if (at == nullptr) return false;
      if (tx.load(&at->key) == key) {
        tx.store(link, tx.load(&at->next));
        tx.free(at);
        return true;
      }
      link = &at->next;
    }
  }
  template <class Tx>
  bool get(Tx& tx, std::uint64_t key, value* out) {
    for (node* at = tx.load(&head_->first); at != nullptr; at = tx.load(&at->next))
      if (tx.load(&at->key) == key) {
        tx.read(out, &at->contents, sizeof *out);
        return true;
      }
    return false;
  }
  // While no transaction runs.
  template <class E, class F>
  void each(E& engine, F&& visit) const {
    node n;
    for (const node* at = copy_of(engine, head_).first; at != nullptr; at = n.next) {
      copy_out(engine, &n, at);
      visit(n.key, n.contents);
    }
  }
  // Takes one element out; false: there is none.
  template <class Tx>
  bool pop(Tx& tx) {
    node* const first = tx.load(&head_->first);
    if (first == nullptr) return false;
    tx.store(&head_->first, tx.load(&first->next));
    tx.free(first);
    return true;
  }

 private:
  struct node {
    node* next;
    std::uint64_t key;
    value contents;
  };
  struct head {
    node* first;
  };

  head* head_;
};

}  // namespace nvm::bench
