// A pool with garbage, for the tests of `holdfast gc`:  cli_garbage_maker PATH MEDIUM; `log` is the engine, on shm.
//
// The root is a node that leads to another.  A table leads to two nodes in one object, whose second leads to a node;
// nothing leads to the table.  An object of unknown type is garbage, too; with a third argument it hangs from the root;
// unless it is `stores`: then store "robot" has a root that leads to a node, and three more nodes, and store "empty"
// nothing.  `astray`: the root is another table, whose slots lead to a node that is freed, out of the pool to the
// address that a fourth argument says in hexadecimal, and to this program's stack; `astray-untyped`: the last one to an
// object of unknown type with the same words, that of a node, and a number.
#include <string_view>

#include "nvm/store.h"
#include "typed_pools.hpp"

namespace {

using namespace nvm;
using namespace nvm::tests;
using enum layout::field_kind;

struct node {
  node* next;
  char name[24];
};
struct slot {
  node* first;
  std::uint64_t weight;
};
struct table {
  std::uint64_t count;
  slot slots[4];
};

void add_stores(const char* path, std::uint32_t node_id) {
  NVM_POOL* const pool = nvm_pool_open(path);
  require(pool != nullptr && nvm_store_create(pool, "robot", nullptr) == 0 &&
          nvm_store_create(pool, "empty", nullptr) == 0);
  nvm_store* const s = nvm_store_attach(pool, "robot", 0);
  require(s != nullptr && nvm_tx_begin(pool) == 0);
  const auto make = [&] { return static_cast<node*>(nvm_store_calloc(s, node_id, 1, sizeof(node))); };
  node* const root = make();
  require(root != nullptr);
  root->next = make();
  for (int i = 0; i < 3; ++i) require(make() != nullptr);
  require(nvm_store_set_root(s, root) == 0 && nvm_tx_commit(pool) == 0 && nvm_store_detach(s) == 0 &&
          nvm_pool_close(pool) == 0);
}

void make_astray(NVM_POOL* pool, std::uint32_t node_id, std::uint64_t elsewhere, bool untyped) {
  auto* const root = static_cast<table*>(nvm_calloc(pool, layout::type_id_of("table"), 1, sizeof(table)));
  auto* const kept = static_cast<node*>(nvm_calloc(pool, node_id, 1, sizeof(node)));
  auto* const freed = static_cast<node*>(nvm_calloc(pool, node_id, 1, sizeof(node)));
  auto* const odd = static_cast<node**>(nvm_calloc(pool, 77, 5, sizeof(node*)));
  require(root != nullptr && kept != nullptr && freed != nullptr && odd != nullptr);
  node* const there = reinterpret_cast<node*>(elsewhere);
  node* const stack = reinterpret_cast<node*>(__builtin_frame_address(0));
  root->slots[0].first = freed;
  root->slots[1].first = there;
  root->slots[2].first = stack;
  root->slots[3].first = untyped ? reinterpret_cast<node*>(odd) : kept;
  odd[0] = kept;
  odd[1] = freed;
  odd[2] = there;
  odd[3] = stack;
  odd[4] = reinterpret_cast<node*>(0x5'0000'0001);
  require(nvm_pool_set_root(pool, root) == 0 && nvm_tx_commit(pool) == 0 && nvm_tx_begin(pool) == 0 &&
          nvm_free(pool, freed) == 0);
  finish_pool(pool, root);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const std::uint32_t node_id = layout::type_id_of("node");
  object::type_map_writer types;
  types.add({"node", sizeof(node), 8, {field("next", 0, pointer, 8, 1, node_id), field("name", 8, character, 1, 24)}});
  object::type_description t{
      "table",
      sizeof(table),
      8,
      {field("count", 0, unsigned_integer, 8), field("slots", 8, structure, sizeof(slot), 4),
       field("slots.first", 0, pointer, 8, 1, node_id), field("slots.weight", 8, unsigned_integer, 8)}};
  t.fields[1].place.inner = 2;
  types.add(t);
  register_types(types);

  NVM_POOL* const pool = make_pool(arguments[1], arguments[2]);
  if (const std::string_view what = count > 4 ? arguments[3] : ""; what.starts_with("astray")) {
    make_astray(pool, node_id, std::strtoull(arguments[4], nullptr, 16), what == "astray-untyped");
    return 0;
  }
  const auto make = [&](std::size_t n) { return static_cast<node*>(nvm_calloc(pool, node_id, n, sizeof(node))); };
  node* const root = make(1);
  node* const last = make(1);
  node* const pair = make(2);
  auto* const lost = static_cast<table*>(nvm_calloc(pool, layout::type_id_of("table"), 1, sizeof(table)));
  auto* const odd = static_cast<node*>(nvm_calloc(pool, 77, 1, 8));
  require(root != nullptr && last != nullptr && pair != nullptr && lost != nullptr && odd != nullptr);
  root->next = make(1);
  pair[1].next = last;
  lost->slots[2].first = pair;
  const bool stores = count > 3 && std::string_view{arguments[3]} == "stores";
  if (count > 3 && !stores) root->next->next = odd;
  finish_pool(pool, root);
  if (stores) add_stores(arguments[1], node_id);
  return 0;
}
