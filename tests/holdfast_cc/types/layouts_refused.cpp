// What only C++ can put into a structure.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>

NVM_STRUCT shape {  // expected-error {{durable 'shape' has virtual functions or bases, whose tables lie elsewhere in}}
  virtual ~shape() = default;
  int x;
};
struct base {
  int a;
};
NVM_STRUCT square : virtual base {  // expected-error {{durable 'square' has virtual functions or bases}}
  int b;
};
NVM_STRUCT derived : base {
  int &r;            // expected-warning {{'r' of durable 'derived' is a reference}}
  int base::*m;      // expected-warning {{'m' of durable 'derived' is a pointer to a member}}
  void (*f)();       // expected-warning {{'f' of durable 'derived' is a pointer to a function}}
  derived(int &to) : r{to}, m{nullptr}, f{nullptr} {}
};
