/* Key-value stores of every index, of keys of 8 bytes: what an image of them holds, and how it is made. */
#ifndef STORES_SAMPLE_H
#define STORES_SAMPLE_H

#include "nvm/kv.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STORES_SAMPLE_KEYS = 60 };

/* 0, or -1 with nvm_errormsg(). */
int stores_sample_fill(NVM_POOL* pool);
/* Whether all is as it was filled in; what is not is printed. */
int stores_sample_verify(NVM_POOL* pool);

#ifdef __cplusplus
}
#endif
#endif
