// Durable structures that a type map cannot describe.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/describe.h>
#include <nvm/nvm.h>

NVM_STRUCT choice {
  union {
    NVM_PTR(struct choice) next;
    long number;
  } either;  // expected-error {{'either' of durable 'struct choice' is a union with a pointer: say with}}
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

NVM_STRUCT tags {
  int kind;
  float real;
  struct {
    long deep;
  } inner;
  union {
    long n;
    NVM_PTR(struct tags) p;
  } a NVM_UNION_TAG(kin);  // expected-error {{'a' of durable 'struct tags' has an NVM_UNION_TAG that says}}
  union {
    NVM_PTR(struct tags) p;
  } b NVM_UNION_TAG(real),  // expected-error {{says nothing: 'real' is no integer field and no enumerator}}
      c NVM_UNION_TAG(kind +),  // expected-error {{says nothing: something is missing at its end}}
      d NVM_UNION_TAG(1 + -),  // expected-error {{says nothing: something is missing at its end}}
      e NVM_UNION_TAG(kind = 3),  // expected-error {{says nothing: '= 3' is not understood}}
      f NVM_UNION_TAG(kind ? 1),  // expected-error {{says nothing: ':' is missing}}
      g NVM_UNION_TAG(inner.kind),  // expected-error {{says nothing: 'inner.kind' is no integer field}}
      h NVM_UNION_TAG(inner.deep),
      i NVM_UNION_TAG(1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + (1 + 1))))))))))))))));
  // expected-error@-1 {{says nothing: it is too complicated}}
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
