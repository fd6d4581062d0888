// The examples' tables as they are, all in one pool. A table is made as the root of a pool; here it stops being that
// once its handle knows where it is, which makes room for the next.
extern "C" {
#include "bptree/bptree_durable.h"
#include "hashtable/hashtable_durable.h"
}

#include "systems/holdfast_heap.hpp"
#include "systems/table.hpp"

namespace nvm::bench {
namespace {

// The pool has no root, as before the table was made.
void unroot(holdfast_heap& heap) {
  heap.begin();
  holdfast_heap::check(nvm_pool_set_root(heap.pool(), nullptr), "nvm_pool_set_root");
  heap.commit();
}

template <class Tree>
void require(const Tree* tree, const char* call) {
  if (tree == nullptr) holdfast_heap::fail(call);
}

class example_bptree final : public table {
 public:
  explicit example_bptree(holdfast_heap& heap) : tree_(bptree_create(heap.pool())) {
    require(tree_, "bptree_create");
    unroot(heap);
  }
  ~example_bptree() override { bptree_close(tree_); }
  void put(std::uint64_t key, const void* bytes, std::size_t size) override {
    if (bptree_put(tree_, key, bytes, size) < 0) holdfast_heap::fail("bptree_put");
  }
  const void* get(std::uint64_t key, std::size_t* size) override { return bptree_get(tree_, key, size); }

 private:
  bptree* tree_;
};

class example_hashtable final : public table {
 public:
  explicit example_hashtable(holdfast_heap& heap) : table_(hashtable_create(heap.pool())) {
    require(table_, "hashtable_create");
    unroot(heap);
  }
  ~example_hashtable() override { hashtable_close(table_); }
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
  return {holdfast_heap::name, role::subject, structure, [](const table_settings& settings) {
            const std::uint64_t bytes = settings.records * (settings.value_bytes + 256);
            auto heap = std::make_shared<holdfast_heap>(heap_settings{settings.directory, bytes});
            table_set set;
            for (unsigned i = 0; i < settings.shards; ++i) set.shards.push_back(std::make_unique<Table>(*heap));
            set.bytes_logged = [heap = heap.get()] { return heap->bytes_logged(); };
            set.heap = std::move(heap);
            return set;
          }};
}

}  // namespace

std::vector<table_kind> holdfast_tables() {
  return {kind<example_hashtable>("hashtable"), kind<example_bptree>("bptree")};
}

}  // namespace nvm::bench
