/* What golden images of pools with fields that are zero after each open hold: sessions alone, in arrays and at a
 * multiple of 64, of which every byte of such a field was stored to.  The contents are part of the image; change
 * nothing here, add another sample instead. */
#ifndef NVM_TESTS_COMPAT_RESET_SAMPLE_H
#define NVM_TESTS_COMPAT_RESET_SAMPLE_H

#include <nvm/nvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills a new pool by one transaction.  0, or the number of the step that failed. */
int reset_sample_fill(NVM_POOL* pool);
/* 0 if the fields are zero and all others as they were, else the number of the failing check. */
int reset_sample_verify(NVM_POOL* pool);
/* Stores to the fields, as a program does that runs.  0, or the number of the step that failed. */
int reset_sample_use(NVM_POOL* pool);

enum { RESET_SAMPLE_SESSIONS = 12 };

#ifdef __cplusplus
}
#endif
#endif
