// The key-value store of the suite: a hash table of chains whose items hold a key and a value of any size.
//
// A value of the same size is overwritten in place; another one takes an item of its own.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "harness/random.hpp"
#include "suite/structures/copies.hpp"

namespace nvm::bench {

class item_table {
 public:
  static constexpr std::size_t key_bytes_max = 64;

  template <class E>
  item_table(E& engine, std::uint64_t records)
      : mask_(std::bit_ceil(records) - 1), buckets_(static_cast<item**>(engine.fixed((mask_ + 1) * sizeof(item*)))) {}

  std::size_t part_of(std::string_view key) const noexcept { return bucket_of(key); }

  // Gives the first bytes of the key's value these contents, or the key this value if it has none of at least as many.
  template <class Tx>
  void put(Tx& tx, std::string_view key, std::string_view v) {
    item** link = nullptr;
    item* const known = find(tx, key, &link);
    if (known != nullptr && tx.load(&known->sizes) >> 32 >= v.size()) {
      tx.write(value_of(known, key.size()), v.data(), v.size());
      return;
    }
    auto* fresh = static_cast<item*>(tx.alloc(sizeof(item) + round_up(key.size()) + v.size()));
    fresh->next = known != nullptr ? tx.load(&known->next) : nullptr;
    fresh->sizes = v.size() << 32 | key.size();
    std::memcpy(fresh->bytes, key.data(), key.size());
    std::memcpy(value_of(fresh, key.size()), v.data(), v.size());
    tx.store(link, fresh);
    if (known != nullptr) tx.free(known);
  }
  template <class Tx>
  bool erase(Tx& tx, std::string_view key) {
    item** link = nullptr;
    item* const known = find(tx, key, &link);
    if (known == nullptr) return false;
    tx.store(link, tx.load(&known->next));
    tx.free(known);
    return true;
  }
  // Copies the value out; its size, or 0 if there is none.
  template <class Tx>
  std::size_t get(Tx& tx, std::string_view key, char* out) {
    item** link = nullptr;
    item* const known = find(tx, key, &link);
    if (known == nullptr) return 0;
    const std::size_t size = tx.load(&known->sizes) >> 32;
    tx.read(out, value_of(known, key.size()), size);
    return size;
  }
  template <class E, class F>
  void each(E& engine, F&& visit) const {
    std::vector<char> bytes;
    each_copy(engine, buckets_, mask_ + 1, [&](const item* first) {
      header h;
      for (const item* at = first; at != nullptr; at = h.next) {
        copy_out(engine, &h, static_cast<const header*>(at));
        const std::size_t key_bytes = h.sizes & 0xffff'ffff;
        bytes.resize(round_up(key_bytes) + (h.sizes >> 32));
        copy_out(engine, bytes.data(), at->bytes, bytes.size());
        visit(std::string_view(bytes.data(), key_bytes),
              std::string_view(bytes.data() + round_up(key_bytes), h.sizes >> 32));
      }
    });
  }

 private:
  struct item;
  struct header {
    item* next;
    std::uint64_t sizes;  // of the value, 32 bits, and of the key
  };
  struct item : header {
    char bytes[];  // the key, then at the next multiple of 8 the value
  };

  static constexpr std::size_t round_up(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }
  static char* value_of(item* i, std::size_t key_bytes) noexcept { return i->bytes + round_up(key_bytes); }
  std::uint64_t bucket_of(std::string_view key) const noexcept {
    digest hash;
    hash.add_bytes(key.data(), key.size());
    return hash.value() & mask_;
  }
  // The key's item, and the pointer that leads to it, or else the one that ends the chain.
  template <class Tx>
  item* find(Tx& tx, std::string_view key, item*** link) {
    std::array<char, key_bytes_max> other;
    for (*link = &buckets_[bucket_of(key)];;) {
      item* const at = tx.load(*link);
      if (at == nullptr) return nullptr;
      if ((tx.load(&at->sizes) & 0xffff'ffff) == key.size()) {
        tx.read(other.data(), at->bytes, key.size());
        if (std::memcmp(other.data(), key.data(), key.size()) == 0) return at;
      }
      *link = &at->next;
    }
  }

  std::uint64_t mask_;
  item** buckets_;
};

}  // namespace nvm::bench
