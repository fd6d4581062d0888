// A durable type of all parts of the program.
#include <nvm/nvm.h>

NVM_STRUCT node {
  NVM_PTR(NVM_STRUCT node) next;
  int x;
};
uint32_t part_id(void);
