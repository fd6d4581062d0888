// The examples' two structures over libpmemobj, written with equal care: the same layouts with offsets in place of
// pointers, the same inner nodes and hash functions, snapshots only of bytes that hold something.
#pragma once

#include <cstdint>

#include "systems/pmemobj_heap.hpp"
#include "systems/table.hpp"

namespace nvm::bench {

// A value on media.
struct pmemobj_value {
  std::uint64_t size;
  unsigned char bytes[];
};

// How a put treats the value that a key has already.
enum class update_by {
  overwriting,  // in place if the size is the same: a snapshot costs libpmemobj less than an allocation and a free
  replacing     // a new object, the old one freed, as the examples do: readers keep the old value until then
};

// Makes the value's object; in a transaction. Returns its offset.
inline std::uint64_t pmemobj_make_value(pmemobj_heap& heap, const void* bytes, std::size_t size) {
  auto* value = static_cast<pmemobj_value*>(heap.alloc(sizeof(pmemobj_value) + size));
  value->size = size;
  std::memcpy(value->bytes, bytes, size);
  return heap.offset_of(value);
}

// Gives the value at *slot, which is durable and holds an offset, other contents; in a transaction.
inline void pmemobj_update_value(pmemobj_heap& heap, update_by how, std::uint64_t* slot, const void* bytes,
                                 std::size_t size) {
  auto* value = static_cast<pmemobj_value*>(heap.at(*slot));
  if (how == update_by::overwriting && value->size == size) {
    heap.log(value->bytes, size);
    std::memcpy(value->bytes, bytes, size);
    return;
  }
  heap.log(slot, sizeof *slot);
  const std::uint64_t fresh = pmemobj_make_value(heap, bytes, size);
  heap.free(value);
  *slot = fresh;
}

std::unique_ptr<table> make_pmemobj_hashtable(pmemobj_heap& heap, update_by how);  // pmemobj_hashtable.cpp
std::unique_ptr<table> make_pmemobj_bptree(pmemobj_heap& heap, update_by how);     // pmemobj_bptree.cpp

}  // namespace nvm::bench
