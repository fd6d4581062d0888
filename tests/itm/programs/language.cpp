// What C++ code may do in transactions: new and delete, exceptions that stay inside or leave, classes, templates.
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "itm_calls.h"
#include "nvm/itm.h"

#define SAFE __attribute__((transaction_safe))

namespace {

struct shape {
  SAFE shape() : sides(0) {}
  SAFE virtual ~shape() {}
  SAFE virtual int area() const { return 0; }
  int sides;
};
struct square : shape {
  SAFE explicit square(int n) : n(n) { sides = 4; }
  SAFE ~square() override { gone += n; }
  SAFE int area() const override { return n * n; }
  int n;
  static int gone;
};
int square::gone = 0;

template <class T>
struct stack {
  struct item {
    item* below;
    T value;
  };
  item* top;
  SAFE void push(const T& v) {
    item* i = new item;
    i->below = top;
    i->value = v;
    top = i;
  }
  SAFE T pop() {
    if (top == nullptr) throw 77;
    item* i = top;
    const T v = i->value;
    top = i->below;
    delete i;
    return v;
  }
};

struct shared {
  stack<long> longs;
  long counter, other;
  int* numbers;
};
shared* s;

struct problem {
  long code;
  char text[40];
};

void allocates_by_new() {
  int areas = 0, sum = 0;
  __transaction_atomic {
    shape* a = new square(3);
    shape* b = new square(4);
    areas = a->area() + b->area() + a->sides;
    delete a;
    delete b;
    s->numbers = new int[100]();
    for (int k = 0; k < 100; ++k) s->numbers[k] = k;
  }
  CHECK(areas == 29 && square::gone == 7);
  __transaction_atomic {
    for (int k = 0; k < 100; ++k) sum += s->numbers[k];
    delete[] s->numbers;
    s->numbers = nullptr;
  }
  CHECK(sum == 4950);
  __transaction_atomic {
    for (long k = 0; k < 5; ++k) s->longs.push(k);
    s->counter = s->longs.pop() * 10 + s->longs.pop();
  }
  CHECK(s->counter == 43);
}

void lets_exceptions_leave() {
  int caught = 0;
  s->counter = 0;
  try {
    __transaction_atomic {
      s->counter = 1;
      if (s->counter == 1) throw 5;
      s->counter = 2;
    }
  } catch (int n) {
    caught = n;
  }
  CHECK(caught == 5 && s->counter == 1);  // it commits
  CHECK(std::uncaught_exceptions() == 0 && _ITM_inTransaction() == 0);
  try {
    __transaction_atomic {
      while (true) s->other += s->longs.pop();
    }
  } catch (int n) {
    caught = n;
  }
  CHECK(caught == 77 && s->other == 3 && s->longs.top == nullptr);
}

void catches_inside() {
  long code = 0;
  char first = 0;
  __transaction_atomic {
    try {
      s->counter = 10;
      if (s->counter == 10) throw problem{s->counter, "a problem"};
      s->counter = 11;
    } catch (const problem& p) {
      code = p.code;
      first = p.text[2];
      s->counter = 12;
    }
  }
  CHECK(code == 10 && first == 'p' && s->counter == 12);
  CHECK(std::uncaught_exceptions() == 0);
}

void cancels_what_threw() {
  s->counter = 1;
  __transaction_atomic {
    try {
      s->counter = 2;
      if (s->counter == 2) throw problem{s->counter, "never happened"};
    } catch (const problem& p) {
      s->counter = p.code + 1;
      __transaction_cancel;
    }
  }
  CHECK(s->counter == 1 && std::uncaught_exceptions() == 0 && std::current_exception() == nullptr);
}

void throws_standard_exceptions() {
  bool right = false;
  try {
    __transaction_atomic {
      s->counter = 6;
      throw std::out_of_range("this is out of range");
    }
  } catch (const std::exception& e) {
    right = std::string(e.what()) == "this is out of range";
  }
  CHECK(right && s->counter == 6);
}

// With conflicts: exceptions of attempts that were rolled back leave nothing.
void throws_in_many_threads() {
  s->counter = s->other = 0;
  std::vector<std::thread> threads;
  long caught[4] = {};
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([k, &caught] {
      for (int j = 0; j < 250; ++j) {
        try {
          __transaction_atomic {
            s->counter++;
            try {
              if (s->counter % 3 == 0) throw problem{s->counter, "three"};
              s->other++;
            } catch (const problem& p) {
              s->other += p.code - s->counter + 1;
            }
            if (s->counter % 5 == 0) throw s->counter;
          }
        } catch (long n) {
          if (n % 5 == 0) ++caught[k];
        }
        if (std::uncaught_exceptions() != 0) caught[k] += 1000000;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(s->counter == 1000 && s->other == 1000);
  CHECK(caught[0] + caught[1] + caught[2] + caught[3] == 200);
}

}  // namespace

int main() {
  s = static_cast<shared*>(nvm_itm_root(sizeof *s));
  if (s == nullptr) return 1;
  allocates_by_new();
  lets_exceptions_leave();
  catches_inside();
  cancels_what_threw();
  throws_standard_exceptions();
  throws_in_many_threads();
  printf("%d failures\n", failures);
  return failures != 0;
}
