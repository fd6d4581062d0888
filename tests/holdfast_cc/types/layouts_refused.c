// Durable structures that a type map cannot describe.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>

NVM_STRUCT bits {
  unsigned a : 3;  // expected-error {{'a' of durable 'struct bits' is a bit-field, which a type map}}
  unsigned : 5;
  struct {
    int b : 1;  // expected-error {{'inner.b' of durable 'struct bits' is a bit-field, which a type map}}
  } inner;
};

NVM_STRUCT choice {
  union {
    NVM_PTR(struct choice) next;
    long number;
  } either;  // expected-error {{'either' of durable 'struct choice' is a union with a pointer: nobody can say when it}}
  union {
    long l;
    double d;
  } harmless;
  union {  // expected-error {{'(3)' of durable 'struct choice' is a union with a pointer}}
    struct {
      void *deep[2];
    } s;
    int i;
  };
};

NVM_STRUCT outer {
  struct {
    int n;
    char tail[];  // expected-error {{'last.tail' of durable 'struct outer' is a flexible array that is not}}
  } last;
  int after;
};

NVM_STRUCT fine {
  int n;
  char marker[0];
  struct {
    int a;
    double b;
  } pair[3];
  char tail[];
};
