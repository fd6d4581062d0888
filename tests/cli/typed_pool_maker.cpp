// A pool with types, for the tests of the tool:  cli_typed_pool_maker PATH MEDIUM
// [described|untyped|foreign|statics]; `log` is the engine, on shm.
//
// As if a program compiled by holdfast-cc had made it: a table with two slots in an array of structures and a flexible
// array after it, which is the root; a node with a name; two nodes in one object.  Without a third argument also flags
// in bit-fields, a choice of a number or a node with a part that only a visitor knows, and a text; `untyped`: an object
// of unknown type; `foreign`: a pointer that leads into no pool; `statics`: a pointer to a function of the maker.
#include <nvm/static.h>

#include <cstring>

#include "typed_pools.hpp"

namespace {

using namespace nvm;
using namespace nvm::tests;
using enum layout::field_kind;

struct node {
  node* next;
  char name[12];
  std::int32_t number;
  double weight;
};
struct slot {
  node* first;
  bool used;
};
struct choice {
  std::int32_t kind;
  node* up;
  union {
    std::int64_t number;
    node* to;
  } u;
  struct {
    std::uint64_t word;
  } seen;
};
struct flags {
  unsigned kind : 3;
  unsigned : 2;
  unsigned references : 29;
};
struct table {
  slot slots[2];
  union {
    std::uint32_t u;
    float f;
  } either;
  std::uint16_t more[];
};

struct hook {
  void (*call)();
};
void answer() {}

void make_rarer_ones(NVM_POOL* pool, node* a) {
  auto* f = static_cast<flags*>(nvm_calloc(pool, layout::type_id_of("flags"), 1, sizeof(flags)));
  auto* u = static_cast<choice*>(nvm_calloc(pool, layout::type_id_of("choice"), 1, sizeof(choice)));
  require(f != nullptr && u != nullptr && nvm_strdup(pool, "untyped") != nullptr);
  u->kind = 1;
  u->up = u->u.to = a;
  u->seen.word = 3;
  f->kind = 5;
  f->references = (1U << 28) + 3;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3 && count != 4) return 2;
  const std::string_view how = count == 4 ? arguments[3] : "";
  const std::uint32_t node_id = layout::type_id_of("node");
  object::type_map_writer types;
  types.add({"node",
             sizeof(node),
             8,
             {field("next", 0, pointer, 8, 1, node_id), field("name", 8, character, 1, 12),
              field("number", 20, signed_integer, 4), field("weight", 24, floating, 8)}});
  object::type_description t{
      "table",
      sizeof(table),
      8,
      {field("slots", 0, structure, sizeof(slot), 2), field("slots.first", 0, pointer, 8, 1, node_id),
       field("slots.used", 8, boolean, 1), field("either", 32, bytes, 4), field("more", 36, unsigned_integer, 2, 0)}};
  t.fields[0].place.inner = 2;
  types.add(t);
  types.add({"flags", sizeof(flags), 4, {field("kind:0+3|references:32+29", 0, bytes, sizeof(flags))}});
  object::type_description c{
      "choice",
      sizeof(choice),
      8,
      {field("kind", 0, signed_integer, 4), field("up", 8, weak_pointer, 8, 1, node_id),
       field("u", 16, tagged_union, 8), field("u.number", 0, signed_integer, 8),
       field("u.to", 0, pointer, 8, 1, node_id), field("seen", 24, by_visitor, 8, 1, layout::type_id_of("seen")),
       field("seen.word", 0, unsigned_integer, 8)}};
  c.fields[2].place.inner = 2;
  c.fields[2].tag = "s4@0";
  c.fields[5].place.inner = 1;
  types.add(c);
  types.add_alias("struct node", node_id);
  if (how == "statics") {
    types.add({"hook", sizeof(hook), 8, {field("call", 0, static_pointer, 8)}});
    require(nvm_static("answer", reinterpret_cast<const void*>(answer), 1) == 0);
  }
  register_types(types);

  NVM_POOL* const pool = make_pool(arguments[1], arguments[2]);
  auto* a = static_cast<node*>(nvm_calloc(pool, node_id, 1, sizeof(node)));
  auto* pair = static_cast<node*>(nvm_calloc(pool, layout::type_id_of("struct node"), 2, sizeof(node)));
  auto* r = static_cast<table*>(nvm_calloc(pool, layout::type_id_of("table"), 1, sizeof(table) + 2));
  require(a != nullptr && pair != nullptr && r != nullptr);
  if (how.empty()) make_rarer_ones(pool, a);
  require(how != "untyped" || nvm_alloc(pool, 7, 24) != nullptr);
  if (how == "statics") {
    auto* h = static_cast<hook*>(nvm_calloc(pool, layout::type_id_of("hook"), 1, sizeof(hook)));
    require(h != nullptr);
    h->call = answer;
  }
  if (how == "foreign") pair[0].next = reinterpret_cast<node*>(0x5EED);
  std::strcpy(a->name, "first");
  a->number = -5;
  a->weight = 0.25;
  pair[1].next = a;
  pair[1].number = 7;
  r->slots[1] = {a, true};
  r->either.u = 0x01020304;
  r->more[0] = 60000;
  r->more[1] = 2;
  finish_pool(pool, r);
  return 0;
}
