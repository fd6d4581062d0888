// A part of the program: the common type again, and one of its own.
#include "node.h"

NVM_STRUCT part {
  NVM_PTR(struct node) first;
  double y[2];
};
uint32_t part_id(void) { return NVM_TYPE_ID(part); }
