/* What golden images of pools that assume several bases hold: a ring of nodes, every other at a multiple of 64.  The
 * contents are part of the image; change nothing here, add another sample instead. */
#ifndef NVM_TESTS_COMPAT_MOVED_SAMPLE_H
#define NVM_TESTS_COMPAT_MOVED_SAMPLE_H

#include <nvm/nvm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills a new pool by one transaction.  0, or the number of the step that failed. */
int moved_sample_fill(NVM_POOL* pool);
/* 0 if the ring is whole, else the number of the failing check. */
int moved_sample_verify(NVM_POOL* pool);

/* The root is node 0; a node begins with the pointer to the next.  Node i is aligned if i is odd. */
enum { MOVED_SAMPLE_NODES = 10, MOVED_SAMPLE_ALIGNMENT = 64 };

#ifdef __cplusplus
}
#endif
#endif
