// NVM_PTR: what it may point to.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>

struct plain {  // expected-note 2 {{'struct plain' is declared here}}
  int x;
};
struct opaque;  // expected-note {{'struct opaque' is declared here}}
NVM_STRUCT incomplete;
union either {  // expected-note {{'union either' is declared here}}
  int i;
  float f;
};
typedef struct plain plain_type;
typedef int function(void);

NVM_STRUCT good {
  NVM_PTR(NVM_STRUCT good) self;
  NVM_PTR(struct incomplete) later;
  NVM_PTR(char) text;
  NVM_PTR(const double) numbers;
  NVM_PTR(void) anything;
  NVM_PTR(NVM_PTR(struct good)) table;
  NVM_PTR(struct good) rows[4], one;
};

NVM_STRUCT bad {
  NVM_PTR(struct plain) a;    // expected-error {{NVM_PTR to 'struct plain', which is not NVM_STRUCT}}
  NVM_PTR(plain_type) b;      // expected-error {{NVM_PTR to 'plain_type' (aka 'struct plain'), which is not}}
  NVM_PTR(struct opaque) c;   // expected-error {{NVM_PTR to 'struct opaque', which is not NVM_STRUCT}}
  NVM_PTR(union either) d;    // expected-error {{NVM_PTR to 'union either', which is not NVM_STRUCT}}
  NVM_PTR(function) e;        // expected-error {{NVM_PTR to 'function' (aka 'int (void)'), which is not}}
  NVM_PTR(struct good *) f;   // expected-warning {{NVM_PTR to plain pointers ('struct good *')}}
};
