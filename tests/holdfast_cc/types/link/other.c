// Another type of the same name.
#include <nvm/nvm.h>

NVM_STRUCT node {
  long x[4];
};
uint32_t part_id(void) { return NVM_TYPE_ID(node); }
