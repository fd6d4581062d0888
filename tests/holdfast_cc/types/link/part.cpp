// The same in C++.
extern "C" {
#include "node.h"
}
NVM_STRUCT part {
  NVM_PTR(node) first;
  double y[2];
};
uint32_t part_id() { return NVM_TYPE_ID(part); }
