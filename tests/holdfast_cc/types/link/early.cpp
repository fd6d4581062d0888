// A constructor of C++ that wants the types of the whole program.
extern "C" {
#include "node.h"
}
#include <cstdio>

static struct early {
  early() {
    nvm_pool_each_type(
        nullptr, [](const nvm_type_info* t, void*) { return std::printf("early %s\n", t->name) < 0 ? 1 : 0; }, nullptr);
  }
} early_bird;
