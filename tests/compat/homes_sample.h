/* Object stores with names, and key-value stores in them: what an image of them holds, and how it is made. */
#ifndef HOMES_SAMPLE_H
#define HOMES_SAMPLE_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or -1 with nvm_errormsg(). */
int homes_sample_fill(NVM_POOL* pool);
/* Whether all is as it was filled in; what is not is printed. */
int homes_sample_verify(NVM_POOL* pool);

#ifdef __cplusplus
}
#endif
#endif
