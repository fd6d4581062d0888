// The examples' tables as they are. Each is the root of a pool, so there is one pool for each of the program's locks.
extern "C" {
#include "bptree/bptree_durable.h"
#include "hashtable/hashtable_durable.h"
}

#include "systems/holdfast_heap.hpp"
#include "systems/table.hpp"

namespace nvm::bench {
namespace {

template <class Tree>
void require(const Tree* tree, const char* call) {
  if (tree == nullptr) holdfast_heap::fail(call);
}

class example_bptree final : public table {
 public:
  explicit example_bptree(const heap_settings& settings) : heap_(settings), tree_(bptree_create(heap_.pool())) {
    require(tree_, "bptree_create");
  }
  ~example_bptree() override { bptree_close(tree_); }
  void put(std::uint64_t key, const void* bytes, std::size_t size) override {
    if (bptree_put(tree_, key, bytes, size) < 0) holdfast_heap::fail("bptree_put");
  }
  const void* get(std::uint64_t key, std::size_t* size) override { return bptree_get(tree_, key, size); }
  std::uint64_t bytes_logged() const { return *heap_.bytes_logged(); }

 private:
  holdfast_heap heap_;
  bptree* tree_;
};

class example_hashtable final : public table {
 public:
  explicit example_hashtable(const heap_settings& settings) : heap_(settings), table_(hashtable_create(heap_.pool())) {
    require(table_, "hashtable_create");
  }
  ~example_hashtable() override { hashtable_close(table_); }
  void put(std::uint64_t key, const void* bytes, std::size_t size) override {
    if (hashtable_put(table_, &key, sizeof key, bytes, size) < 0) holdfast_heap::fail("hashtable_put");
  }
  const void* get(std::uint64_t key, std::size_t* size) override {
    return hashtable_get(table_, &key, sizeof key, size);
  }
  std::uint64_t bytes_logged() const { return *heap_.bytes_logged(); }

 private:
  holdfast_heap heap_;
  hashtable* table_;
};

template <class Table>
table_kind kind(const char* structure) {
  return {holdfast_heap::name, role::subject, structure, [](const table_settings& settings) {
            const std::uint64_t bytes = settings.records / settings.shards * (settings.value_bytes + 256);
            table_set set;
            std::vector<const Table*> tables;
            for (unsigned i = 0; i < settings.shards; ++i) {
              auto t = std::make_unique<Table>(heap_settings{settings.directory, bytes});
              tables.push_back(t.get());
              set.shards.push_back(std::move(t));
            }
            set.bytes_logged = [tables] {
              std::uint64_t sum = 0;
              for (const Table* t : tables) sum += t->bytes_logged();
              return sum;
            };
            return set;
          }};
}

}  // namespace

std::vector<table_kind> holdfast_tables() {
  return {kind<example_hashtable>("hashtable"), kind<example_bptree>("bptree")};
}

}  // namespace nvm::bench
