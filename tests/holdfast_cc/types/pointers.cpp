// NVM_PTR in C++: templates and classes.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>
#include <nvm/nvm.hpp>

struct plain {  // expected-note {{'plain' is declared here}}
  int x;
};

namespace store {
template <class T>
NVM_STRUCT list {
  NVM_PTR(list) next;
  T value;
};
NVM_STRUCT shelf {
  NVM_PTR(list<int>) first;
  nvm::p<long> count;
  nvm::p<shelf *> other;
  NVM_PTR(plain) bad;  // expected-error {{NVM_PTR to 'plain', which is not NVM_STRUCT}}
};
}  // namespace store
store::list<double> used;
