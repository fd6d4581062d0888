#include "counter.h"

void counter_add(struct counter* counter, long runs) {
  counter->runs += runs;
  counter_name(counter);
}
