// A hash table of chains, with as many buckets as there are records: its array does not grow.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "suite/structures/copies.hpp"
#include "suite/structures/value.hpp"

namespace nvm::bench {

template <class Value>
class basic_hash_table {
 public:
  static constexpr const char* name = "hashtable";

  template <class E>
  basic_hash_table(E& engine, std::uint64_t records)
      : mask_(std::bit_ceil(records) - 1), buckets_(static_cast<node**>(engine.fixed((mask_ + 1) * sizeof(node*)))) {}

  std::size_t part_of(std::uint64_t key) const noexcept { return bucket_of(key); }

  template <class Tx>
  bool put(Tx& tx, std::uint64_t key, const Value& v) {
    node** const bucket = &buckets_[bucket_of(key)];
    node* const first = tx.load(bucket);
    for (node* at = first; at != nullptr; at = tx.load(&at->next))
      if (tx.load(&at->key) == key) {
        tx.write(&at->contents, &v, sizeof v);
        return false;
      }
    auto* fresh = static_cast<node*>(tx.alloc(sizeof(node)));
    fresh->next = first;
    fresh->key = key;
    fresh->contents = v;
    tx.store(bucket, fresh);
    return true;
  }
  template <class Tx>
  bool erase(Tx& tx, std::uint64_t key) {
    for (node** link = &buckets_[bucket_of(key)];;) {
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
  bool get(Tx& tx, std::uint64_t key, Value* out) {
    for (node* at = tx.load(&buckets_[bucket_of(key)]); at != nullptr; at = tx.load(&at->next))
      if (tx.load(&at->key) == key) {
        tx.read(out, &at->contents, sizeof *out);
        return true;
      }
    return false;
  }
  template <class E, class F>
  void each(E& engine, F&& visit) const {
    each_copy(engine, buckets_, mask_ + 1, [&](const node* first) {
      node n;
      for (const node* at = first; at != nullptr; at = n.next) {
        copy_out(engine, &n, at);
        visit(n.key, n.contents);
      }
    });
  }

 private:
  struct node {
    node* next;
    std::uint64_t key;
    Value contents;
  };

  std::uint64_t bucket_of(std::uint64_t key) const noexcept { return mix(key ^ 0x6861'7368) & mask_; }

  std::uint64_t mask_;
  node** buckets_;
};

using hash_table = basic_hash_table<value>;

}  // namespace nvm::bench
