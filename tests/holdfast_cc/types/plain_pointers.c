// Pointers of durable structures that are not declared durable.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>

struct part {
  int *inside;  // expected-warning {{'part.inside' of durable 'struct whole' is a plain pointer}}
};
NVM_STRUCT whole {
  struct whole *next;  // expected-warning {{'next' of durable 'struct whole' is a plain pointer, which may}}
  void *values[4];     // expected-warning {{'values' of durable 'struct whole' is a plain}}
  struct part part;
  int (*compare)(int);  // expected-warning {{'compare' of durable 'struct whole' is a pointer to a function}}
  NVM_VOLATILE_PTR(void) cache;
  NVM_PTR(struct whole) good;
};
NVM_STRUCT another {
  struct part part;
};
struct volatile_only {
  struct volatile_only *next;
};
