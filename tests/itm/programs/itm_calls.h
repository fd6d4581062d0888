/* The calls of the Intel TM ABI that programs make themselves. */
#ifndef ITM_CALLS_H
#define ITM_CALLS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#define PURE __attribute__((transaction_pure))
PURE int _ITM_inTransaction(void);
PURE uint64_t _ITM_getTransactionId(void);
PURE void _ITM_addUserCommitAction(void (*)(void*), uint64_t, void*);
PURE void _ITM_addUserUndoAction(void (*)(void*), void*);
PURE void _ITM_dropReferences(void*, size_t);
int _ITM_versionCompatible(int);
const char* _ITM_libraryVersion(void);
#ifdef __cplusplus
}
#endif

#endif
