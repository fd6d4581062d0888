// Type ids: one for each type, one type for each.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>

typedef NVM_STRUCT Node {
  NVM_PTR(struct Node) next;
} Node;
typedef Node also_node;
struct plain {
  int x;
};

uint32_t good[] = {NVM_TYPE_ID(Node), NVM_TYPE_ID(struct Node), NVM_TYPE_ID(also_node), NVM_TYPE_ID(NVM_PTR(Node)),
                   NVM_TYPE_ID(unsigned long long), NVM_TYPE_ID(char), NVM_TYPE_ID(anything at all)};

uint32_t plain_id(void) {
  return NVM_TYPE_ID(struct plain);  // expected-warning {{NVM_TYPE_ID of 'struct plain', which is not NVM_STRUCT}}
}

/* The two names have the same hash. */
NVM_STRUCT dsbkd { int x; };       // expected-note {{it is the id of 'dsbkd'}}
NVM_STRUCT hrach { long x; };  // expected-error {{of 'hrach' belongs to another type already}}

void first(void) {
  NVM_STRUCT local { int x; };  // expected-note {{it is the id of 'local'}}
  (void)sizeof(struct local);
}
void second(void) {
  NVM_STRUCT local { long x; };  // expected-error {{of 'local' belongs to another type already}}
  (void)sizeof(struct local);
}
