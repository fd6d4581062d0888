/* Holdfast: key-value stores inside of an object store.  Public C interface (C11).
 *
 *   nvm_store *s = nvm_store_attach(pool, "tenant/17", NVM_STORE_CREATE);
 *   nvm_kv *orders = nvm_kv_open_in(s, "orders", NULL);
 *   nvm_kv_put(orders, "2024-17", 7, "3 apples", 8);
 *   nvm_kv_close(orders);
 *   nvm_store_detach(s);
 *
 * Such stores, their names too, lie in pages of the object store: they count for its quota, are deleted with it, and
 * stay in it when it is renamed.  Names belong to one object store; another, and the pool itself, may have the same. An
 * open one is used by the calls of nvm/kv.h, in transactions with any others of the pool (nvm_kv_batch()).
 *
 * While one is open, its object store cannot be detached (NVM_E_BUSY).  In a store that is attached read-only they can
 * be opened and read; changes fail (NVM_E_READ_ONLY).  Index regions is refused (NVM_E_INVALID): regions have pages of
 * their own.  A closed handle is refused (NVM_E_INVALID), also in a call that another thread is just making, until some
 * hundred other object stores have been detached.
 *
 * Threads, failures, durability: as nvm/kv.h.  A pool that has ever had one is refused by libraries that do not know
 * them.
 */
#ifndef NVM_STORE_KV_H
#define NVM_STORE_KV_H

#include "nvm/kv.h"
#include "nvm/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As nvm_kv_open(), in an attached object store.  The first one that is made there takes a transaction of its own
 * before, for the names: two or three fences.  NVM_E_INVALID: the store was
 * detached; NVM_E_NO_SPACE: its quota is used up. */
NVM_API nvm_kv *nvm_kv_open_in(nvm_store *store, const char *name, const nvm_kv_options *options);
/* As nvm_kv_each(), nvm_kv_drop(), nvm_kv_rename(), for key-value stores in the object store. */
NVM_API int nvm_kv_each_in(nvm_store *store, int (*visit)(const char *name, enum nvm_kv_index index, void *argument),
                           void *argument);
NVM_API int nvm_kv_drop_in(nvm_store *store, const char *name);
NVM_API int nvm_kv_rename_in(nvm_store *store, const char *name, const char *new_name);
/* As nvm_kv_salvage(), for one in the object store of that name.  NVM_E_CORRUPT: the names of object stores, or its
 * store page, cannot be read. */
NVM_API int64_t nvm_kv_salvage_in(const char *path, const char *store, const char *name,
                                  const nvm_kv_salvage_options *options);
/* The object store that an open key-value store lies in; NULL: it is the pool's own, and this is no error. */
NVM_API nvm_store *nvm_kv_store_of(const nvm_kv *kv);

#ifdef __cplusplus
}
#endif
#endif
