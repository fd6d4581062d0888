// The examples' tables, durable by log calls placed by hand (BENCH_HAND) or by the compiler; compiled once for each, by
// the same compiler. A table is the root of a pool of its own.
#include "systems/table.hpp"

#include "compiler/renamed.h"

extern "C" {
#ifdef BENCH_HAND
#include "bptree/bptree_durable.h"
#include "hashtable/hashtable_durable.h"
#else
#include "bptree/bptree_compiled.h"
#include "hashtable/hashtable_compiled.h"
#endif
}

#include "systems/holdfast_heap.hpp"

namespace nvm::bench {
namespace {

#ifdef BENCH_HAND
constexpr const char* system_name = "log calls by hand";
constexpr role system_role = role::peer;
bptree* make_bptree(NVM_POOL* pool) { return bptree_create(pool); }
hashtable* make_hashtable(NVM_POOL* pool) { return hashtable_create(pool); }
#else
constexpr const char* system_name = "holdfast-cc";
constexpr role system_role = role::subject;
bptree* make_bptree(NVM_POOL* pool) { return bptree_create_in(pool); }
hashtable* make_hashtable(NVM_POOL* pool) { return hashtable_create_in(pool); }
#endif

class tree final : public table {
 public:
  explicit tree(NVM_POOL* pool) : tree_(make_bptree(pool)) {
    if (tree_ == nullptr) holdfast_heap::fail("bptree_create");
  }
  void put(std::uint64_t key, const void* bytes, std::size_t size) override {
    if (bptree_put(tree_, key, bytes, size) < 0) holdfast_heap::fail("bptree_put");
  }
  const void* get(std::uint64_t key, std::size_t* size) override { return bptree_get(tree_, key, size); }

 private:
  bptree* tree_;
};

class hash final : public table {
 public:
  explicit hash(NVM_POOL* pool) : table_(make_hashtable(pool)) {
    if (table_ == nullptr) holdfast_heap::fail("hashtable_create");
  }
  void put(std::uint64_t key, const void* bytes, std::size_t size) override {
    if (hashtable_put(table_, &key, sizeof key, bytes, size) < 0) holdfast_heap::fail("hashtable_put");
  }
  const void* get(std::uint64_t key, std::size_t* size) override {
    return hashtable_get(table_, &key, sizeof key, size);
  }

 private:
  hashtable* table_;
};

template <class Table>
table_kind kind(const char* structure) {
  return {system_name, system_role, structure, [](const table_settings& settings) {
            const std::uint64_t bytes = settings.records * (settings.value_bytes + 256);
            auto heap = std::make_shared<holdfast_heap>(heap_settings{settings.directory, bytes});
            table_set set;
            set.shards.push_back(std::make_unique<Table>(heap->pool()));
            set.bytes_logged = [heap = heap.get()] { return heap->bytes_logged(); };
            set.heap = std::move(heap);
            return set;
          }};
}

}  // namespace

// BENCH_PREFIX tells the two apart.
std::vector<table_kind> BENCH_NAME(tables)() { return {kind<hash>("hashtable"), kind<tree>("bptree")}; }

}  // namespace nvm::bench
