// Each argument gives durable memory to code that came compiled, in a way that does not name it; `nothing` does not.
#include <nvm/nvm.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>

#include "elsewhere.hpp"
#include "new_pool.h"

NVM_STRUCT thing {
  long number;
  char text[48];
};

int main(int argc, char** argv) {
  const std::string_view what = argc > 3 ? argv[3] : "nothing";
  NVM_POOL* pool = new_pool(argv[1], 1 << 20);
  if (pool == nullptr) return 1;
  nvm_tx_begin(pool);
  nvm_pool_set_root(pool, nvm_calloc(pool, NVM_TYPE_ID(thing), 1, sizeof(thing)));
  nvm_tx_commit(pool);
  auto* t = static_cast<thing*>(nvm_pool_get_root(pool));
  char* text = t->text + 8;
  const std::unique_ptr<shape> s{make_shape()};
  const std::function<void(char*)> f = make_function();
  const std::function<void()> bound = [&s, text] { s->change(text); }; /* LINE bound */
  const changer pointer = make_pointer();
  void (counter::* const member)(char*) = &counter::change;
  counter c;
  nvm_tx_begin(pool);
  t->number = 1;
  const char* inside = text;
  if (what == "virtual") s->change(text);          /* LINE virtual */
  if (what == "inside") s->change_inside(&inside); /* LINE inside */
  if (what == "function") f(text);                 /* LINE function */
  if (what == "given") call_back(f, text);         /* LINE given */
  if (what == "pointer") pointer(text);            /* LINE pointer */
  if (what == "member") (c.*member)(text);         /* LINE member */
  if (what == "bound") bound();
  nvm_tx_commit(pool);
  std::puts("done");
  return 0;
}
