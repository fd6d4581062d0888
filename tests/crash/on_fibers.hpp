// What code that waits gets on fibers, which share one thread of the system: the thread that it waits for is another of
// them.  To give the processor away, or to sleep, would hand it to others; the explorer counts looks.
// For one source of a program, which links with --wrap of both (CMakeLists.txt).
#pragma once

#include <ctime>

extern "C" {
int __wrap_sched_yield();
int __wrap_sched_yield() { return 0; }
int __wrap_nanosleep(const timespec* wanted, timespec* left);
int __wrap_nanosleep(const timespec* /*wanted*/, timespec* /*left*/) { return 0; }
}
