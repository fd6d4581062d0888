/* Objects at multiples of more than 16 bytes: what an image of them holds, and how it is made. */
#ifndef ALIGNED_SAMPLE_H
#define ALIGNED_SAMPLE_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or -1 with nvm_errormsg(). */
int aligned_sample_fill(NVM_POOL* pool);
/* Whether all is as it was filled in; what is not is printed. */
int aligned_sample_verify(NVM_POOL* pool);
/* Begins a transaction that changes and frees, and does not end it. */
int aligned_sample_interrupt(NVM_POOL* pool);

#ifdef __cplusplus
}
#endif
#endif
