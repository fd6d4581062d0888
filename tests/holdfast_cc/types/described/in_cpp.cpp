// Types that are described twice, by holdfast-c++ and by templates.
#include <nvm/malloc.h>
#include <nvm/static.h>

#include <nvm/describe.hpp>

#include <cstdio>

namespace store {

enum class colour : unsigned short { red, green };
NVM_STRUCT node {
  NVM_PTR(node) next;
  nvm::weak<node> up;
  nvm::p<node*> down;
  nvm::ref<node> other;
  char name[20];
  NVM_STATIC_PTR(int(const void*)) call;
  NVM_STATIC_PTR(const char) labels[2];
  int* cache[2] NVM_RESET;
  long calls NVM_RESET;
};
struct point {
  int x;
  double y;
};
NVM_STRUCT shelf {
  NVM_PTR(node) first;
  NVM_WEAK_PTR(node) last;
  nvm::p<unsigned long> count;
  colour paint[2];
  bool open;
  char16_t wide;
  point here;
  point there[2];
  union {
    int i;
    float f;
  } either;
};

const bool node_is_known =
    nvm::describe<node>(nvm::pointer("next", &node::next), nvm::field("up", &node::up), nvm::field("down", &node::down),
                        nvm::field("other", &node::other), nvm::field("name", &node::name),
                        nvm::static_pointer("call", &node::call), nvm::static_pointer("labels", &node::labels),
                        nvm::reset_field("cache", &node::cache), nvm::reset_field("calls", &node::calls));
const bool shelf_is_known = nvm::describe<shelf>(
    nvm::pointer("first", &shelf::first), nvm::weak_pointer("last", &shelf::last), nvm::field("count", &shelf::count),
    nvm::field("paint", &shelf::paint), nvm::field("open", &shelf::open), nvm::field("wide", &shelf::wide),
    nvm::inside("here", &shelf::here, nvm::field("x", &point::x), nvm::field("y", &point::y)),
    nvm::inside("there", &shelf::there, nvm::field("x", &point::x), nvm::field("y", &point::y)),
    nvm::field("either", &shelf::either));

}  // namespace store

int main() {
  const auto print = [](const nvm_type_info* type, void*) {
    std::printf("%s ", type->name);
    return 0;
  };
  if (nvm_pool_each_type(nullptr, print, nullptr) != 0) std::puts(nvm_errormsg());
  return 0;
}
