/* Holdfast: lock-free structures inside of an object store.  Public C interface (C11).
 *
 *   nvm_store *s = nvm_store_attach(pool, "tenant/17", NVM_STORE_CREATE);
 *   nvm_lf *seen = nvm_lf_open_in(s, "seen", NULL);
 *   nvm_lf_put64(seen, 4711, 1, 0);
 *   nvm_lf_close(seen);
 *   nvm_store_detach(s);
 *
 * Such structures, their names too, lie in pages of the object store: they count for its quota, are deleted with it,
 * and stay in it when it is renamed.  Names belong to one object store; another, and the pool itself, may have the
 * same.  An open one is used by the calls of nvm/lockfree.h.
 *
 * The first structure of a store takes a directory of 36 KiB, and each thread that uses structures of the store a page.
 * What a crash has left is put right when the first structure is opened after the store was attached, in time by the
 * nodes that were under way.
 *
 * While one is open, its object store cannot be detached (NVM_E_BUSY); nor while a thread is between nvm_lf_enter() and
 * nvm_lf_leave() in one.  In a store that is attached read-only they are out of reach (NVM_E_READ_ONLY).  A closed
 * handle is refused (NVM_E_INVALID) until some hundred other object stores have been detached.
 *
 * Threads, failures, durability: as nvm/lockfree.h.  A thread that uses structures of several stores has a part of its
 * own in each, and searches for it when it goes from one to another.  A pool that has ever had one is refused by
 * libraries that do not know them.
 */
#ifndef NVM_STORE_LOCKFREE_H
#define NVM_STORE_LOCKFREE_H

#include "nvm/lockfree.h"
#include "nvm/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As nvm_lf_open(), in an attached object store; options that concern all structures concern those of this store.
 * NVM_E_INVALID: the store was detached; NVM_E_NO_SPACE: its quota is used up. */
NVM_API nvm_lf *nvm_lf_open_in(nvm_store *store, const char *name, const nvm_lf_options *options);
/* As nvm_lf_drop(), nvm_lf_names(), for lock-free structures in the object store. */
NVM_API int nvm_lf_drop_in(nvm_store *store, const char *name);
NVM_API int nvm_lf_names_in(nvm_store *store, int (*visit)(const char *name, int kind, void *argument), void *argument);
/* The object store that an open structure lies in; NULL: it is the pool's own, and this is no error. */
NVM_API nvm_store *nvm_lf_store_of(const nvm_lf *lf);

#ifdef __cplusplus
}
#endif
#endif
