/* A set of regions on ssd whose bytes have gone straight to their pages: what an image of a pool that was killed holds,
 * and how it is made. */
#ifndef STRAIGHT_SAMPLE_H
#define STRAIGHT_SAMPLE_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or -1 with nvm_errormsg(). */
int straight_sample_fill(NVM_POOL* pool);
/* Whether all is as it was filled in; what is not is printed. */
int straight_sample_verify(NVM_POOL* pool);

#ifdef __cplusplus
}
#endif
#endif
