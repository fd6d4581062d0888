/*
 * What a program may tell `holdfast crash-test` (docs/crash-test.md).  Nothing here is needed: without any of it the
 * tool compares what a crash leaves with the states between the program's transactions.
 */
#ifndef NVM_CRASH_TEST_H
#define NVM_CRASH_TEST_H

#include "nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Defined by a program that is compiled with -fnvm-record: called for each crash state, in a child process of the
 * program that has not entered main().  The pool has been opened, hence recovered.  0: the state is good; anything
 * else, a signal or ten seconds are a failure.  What it prints on standard error goes into the report.  It may change
 * the pool.
 */
NVM_API int nvm_crash_check(NVM_POOL *pool);

#ifdef __cplusplus
}
#endif
#endif
