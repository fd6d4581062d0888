/* A durable counter in a shared library, half of which is C++. */
#ifndef COUNTER_H
#define COUNTER_H

#ifdef __cplusplus
extern "C" {
#endif

struct counter {
  long runs;
  char last[32];
};

void counter_add(struct counter* counter, long runs);
void counter_name(struct counter* counter);

#ifdef __cplusplus
}
#endif
#endif
