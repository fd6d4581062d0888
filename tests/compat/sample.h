/* What a golden image holds: a list, two large objects, freed slots, and a transaction that its process did not finish.
 * The contents are part of the image; change nothing here, add another sample instead. */
#ifndef NVM_TESTS_COMPAT_SAMPLE_H
#define NVM_TESTS_COMPAT_SAMPLE_H

#include <nvm/nvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of the pool; the medium is to be set. */
nvm_pool_options sample_options(void);

/* Fills a new pool by committed transactions.  0, or the number of the step that failed. */
int sample_fill(NVM_POOL* pool);

/* Begins a transaction that changes, allocates and frees, and returns in the middle of it. */
int sample_interrupt(NVM_POOL* pool);

/* 0 if the pool holds what sample_fill() left, nothing of sample_interrupt(); else the number of the failing check. */
int sample_verify(NVM_POOL* pool);

/* Objects in the pool. */
enum { SAMPLE_OBJECTS = 14 + 2 + 1 };

#ifdef __cplusplus
}
#endif
#endif
