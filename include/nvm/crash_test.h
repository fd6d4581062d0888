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

/* Check that a program compiled with -fnvm-record may define.  It is called for each crash state, in a child process of
 * the program that has not entered main(); the pool has been opened, hence recovered, and may be changed.  0: the state
 * is good.  Any other result, a signal, or more than ten seconds is a failure; standard error goes into the report.
 */
NVM_API int nvm_crash_check(NVM_POOL *pool);

#ifdef __cplusplus
}
#endif
#endif
