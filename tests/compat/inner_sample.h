/* Lock-free structures inside of an object store: what an image of them holds, and how it is made. */
#ifndef INNER_SAMPLE_H
#define INNER_SAMPLE_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or -1 with nvm_errormsg().  The store stays attached, and its structures open. */
int inner_sample_fill(NVM_POOL* pool);
/* Whether all is as it was filled in; what is not is printed. */
int inner_sample_verify(NVM_POOL* pool);

#ifdef __cplusplus
}
#endif
#endif
