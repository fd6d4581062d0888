/* A table of notes, each of any size, in a durable pool; its stores are logged by the compiler (ledger.c). */
#ifndef BENCH_SOAK_LEDGER_H
#define BENCH_SOAK_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "nvm/nvm.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ledger;

/* The root of the pool, made if there is none; NULL: nvm_errno(). */
struct ledger* ledger_in(NVM_POOL* pool);
/* One transaction each.  1; 0: there was none (remove); -1: nvm_errno(), nothing has changed. */
int ledger_put(NVM_POOL* pool, struct ledger* all, uint64_t key, const void* bytes, size_t count);
int ledger_remove(NVM_POOL* pool, struct ledger* all, uint64_t key);
/* The bytes of a note; NULL: there is none. */
const void* ledger_get(const struct ledger* all, uint64_t key, size_t* count);
/* Visits the size of each note. */
void ledger_each(const struct ledger* all, void (*visit)(uint64_t key, size_t count, void* argument), void* argument);

#ifdef __cplusplus
}
#endif
#endif
