// NV-Tree over libpmemobj: leaves are durable and unsorted, each linked to the next; inner nodes are volatile (the same
// code as the example's).
extern "C" {
#include "bptree/bptree_index.h"
}

#include <algorithm>
#include <new>

#include "systems/pmemobj_tables.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t leaf_entries = 61;  // a leaf of 1008 bytes: 16 lines with the allocator's header

struct entry {
  std::uint64_t key;
  std::uint64_t value;  // offset
};

struct leaf {
  std::uint64_t low;
  std::uint64_t next;  // offset; 0: the last one
  std::uint64_t count;
  std::uint64_t unused;
  entry entries[leaf_entries];
};
static_assert(sizeof(leaf) == 1008);

class bptree final : public table {
 public:
  bptree(pmemobj_heap& heap, update_by how) : heap_(heap), how_(how) {
    auto* first = static_cast<leaf*>(heap_.fixed(sizeof(leaf)));
    reserve();
    bptree_index_insert(&index_, 0, first);
  }
  ~bptree() override { bptree_index_clear(&index_); }

  void put(std::uint64_t key, const void* bytes, std::size_t size) override {
    auto* l = static_cast<leaf*>(bptree_index_find(&index_, key));
    heap_.begin();
    if (entry* known = find(l, key); known != nullptr) {
      pmemobj_update_value(heap_, how_, &known->value, bytes, size);
    } else {
      leaf* right = nullptr;
      if (l->count == leaf_entries) {
        reserve();
        right = split(l);
        if (key >= right->low) l = right;
      }
      // What lies after the last entry is nobody's: no snapshot of it.
      entry* fresh = &l->entries[l->count];
      heap_.log_without_snapshot(fresh, sizeof *fresh);
      heap_.log(&l->count, sizeof l->count);
      fresh->key = key;
      fresh->value = pmemobj_make_value(heap_, bytes, size);
      ++l->count;
      if (right != nullptr) bptree_index_insert(&index_, right->low, right);
    }
    heap_.commit();
  }

  const void* get(std::uint64_t key, std::size_t* size) override {
    const entry* found = find(static_cast<leaf*>(bptree_index_find(&index_, key)), key);
    if (found == nullptr) return nullptr;
    const auto* value = static_cast<const pmemobj_value*>(heap_.at(found->value));
    *size = value->size;
    return value->bytes;
  }

 private:
  void reserve() {
    if (bptree_index_reserve(&index_) != 0) throw std::bad_alloc();
  }

  static entry* find(leaf* l, std::uint64_t key) {
    for (std::uint64_t i = 0; i < l->count; ++i)
      if (l->entries[i].key == key) return &l->entries[i];
    return nullptr;
  }

  // Moves the upper half of a full leaf into a new one after it. The lower half is rewritten in one go, and one
  // snapshot of it costs less than one of each entry that moves.
  leaf* split(leaf* left) {
    auto* right = static_cast<leaf*>(heap_.alloc(sizeof(leaf)));
    entry sorted[leaf_entries];
    std::copy_n(left->entries, leaf_entries, sorted);
    std::sort(sorted, sorted + leaf_entries, [](const entry& a, const entry& b) { return a.key < b.key; });
    constexpr std::uint64_t kept = leaf_entries / 2;
    right->low = sorted[kept].key;
    right->next = left->next;
    right->count = leaf_entries - kept;
    std::copy_n(sorted + kept, right->count, right->entries);
    heap_.log(&left->next, sizeof left->next + sizeof left->count);
    heap_.log(left->entries, kept * sizeof(entry));
    std::copy_n(sorted, kept, left->entries);
    left->next = heap_.offset_of(right);
    left->count = kept;
    return right;
  }

  pmemobj_heap& heap_;
  update_by how_;
  bptree_index index_{};
};

}  // namespace

std::unique_ptr<table> make_pmemobj_bptree(pmemobj_heap& heap, update_by how) {
  return std::make_unique<bptree>(heap, how);
}

}  // namespace nvm::bench
