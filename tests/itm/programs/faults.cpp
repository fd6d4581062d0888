// Mistakes of a program in a transaction, one for each word on the command line.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "nvm/itm.h"

extern "C" void _ITM_commitTransaction();

namespace {

struct root {
  long counter;
  char* memory;
};
root* r;

// Unsafe, so that GCC makes no clone of it.
long twice(long n) { return std::fflush(stdout) + 2 * n; }
typedef long (*safe_call)(long) __attribute__((transaction_safe));

// A megabyte at a time, until there is no more.
template <class Allocate>
__attribute__((transaction_safe)) bool fill(Allocate allocate) {
  for (int k = 0; k < 100000; ++k) {
    char* p = allocate();
    if (p == nullptr) return true;
    r->memory = p;
  }
  return false;
}
__attribute__((transaction_safe)) char* by_malloc() { return static_cast<char*>(std::malloc(1 << 20)); }
__attribute__((transaction_safe)) char* by_new() { return new char[1 << 20]; }

__attribute__((transaction_safe, noinline)) void release(void* p) { std::free(p); }

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const char* what = arguments[1];
  r = static_cast<root*>(nvm_itm_root(sizeof(root)));
  if (r == nullptr) return 1;
  if (std::strcmp(what, "small") == 0) return 0;
  if (std::strcmp(what, "read") == 0) {
    std::printf("%ld\n", r->counter);
    return 0;
  }
  __transaction_atomic { r->counter = 1; }
  if (std::strcmp(what, "clone") == 0) {
    const volatile safe_call pointer = reinterpret_cast<safe_call>(twice);
    const safe_call call = pointer;
    __transaction_atomic { r->counter = call(3); }
  } else if (std::strcmp(what, "cancel") == 0) {
    __transaction_relaxed {
      std::fflush(stdout);
      __transaction_atomic {
        r->counter = 5;
        if (r->counter == 5) __transaction_cancel;
      }
    }
  } else if (std::strcmp(what, "free") == 0) {
    __transaction_atomic { r->memory = by_malloc(); }
    __transaction_atomic { release(r->memory + 8); }
  } else if (std::strcmp(what, "outside") == 0) {
    _ITM_commitTransaction();
  } else if (std::strcmp(what, "full") == 0) {
    __transaction_atomic {
      r->counter = 2;
      fill(by_malloc);
    }
  } else if (std::strcmp(what, "new") == 0) {
    try {
      __transaction_atomic {
        r->counter = 2;
        fill(by_new);
      }
    } catch (const std::bad_alloc&) {
      std::puts("never comes here");
    }
  } else if (std::strcmp(what, "cancelled") == 0) {
    bool full = false;
    __transaction_atomic {
      r->counter = 2;
      if (fill(by_malloc)) __transaction_cancel;
    }
    full = r->counter == 1;
    __transaction_atomic {
      r->counter = 2;
      r->memory = by_malloc();
    }
    std::printf("%s, goes on: %ld\n", full ? "full" : "not full", r->counter);
  }
  return 0;
}
