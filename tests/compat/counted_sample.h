/* Structures with volatile links and sets of regions, which the close counts: what an image of a closed pool holds, and
 * how it is made. */
#ifndef COUNTED_SAMPLE_H
#define COUNTED_SAMPLE_H

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0, or -1 with nvm_errormsg(). */
int counted_sample_fill_structures(NVM_POOL* pool);
int counted_sample_fill_regions(NVM_POOL* pool);
/* Whether all is as it was filled in; what is not is printed. */
int counted_sample_verify_structures(NVM_POOL* pool);
int counted_sample_verify_regions(NVM_POOL* pool);

#ifdef __cplusplus
}
#endif
#endif
