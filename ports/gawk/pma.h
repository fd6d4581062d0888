/* gawk's persistent heap over a Holdfast pool: the interface that gawk calls, and what the port adds to it. */
#ifndef HOLDFAST_GAWK_PMA_H
#define HOLDFAST_GAWK_PMA_H

#include <stddef.h>
#include <sys/types.h>

extern const char pma_version[];
extern int pma_errno;

/* Opens the pool `file`, or makes one of a file that is absent, empty or all zeros; NULL: memory stays volatile.
 * 0, or a code other than 0. */
int pma_init(int verbose, const char* file);

/* Durable if there is a pool: part of the transaction that is open. */
void* pma_malloc(size_t size);
void* pma_calloc(size_t count, size_t size);
/* These take any memory, durable or not. */
void* pma_realloc(void* p, size_t size);
void pma_free(void* p);

/* As gawk's ezalloc, for memory that ends with the process: never durable, so never logged. */
#define pma_scratch(var, type, size, where) ((void)((var) = (type)pma_scratch_alloc(size)))
void* pma_scratch_alloc(size_t size);

void pma_set_root(void* p);
void* pma_get_root(void);

/* fork() for a child that runs `command`.  A child has no pool: it finds the text in pma_command. */
pid_t pma_fork(const char* command);
extern const char* pma_command;

/* Makes all stores since the last commit durable at once: in every GAWK_PERSIST_RECORDS-th call (default: in every
 * call), or now. */
void pma_commit(void);
void pma_commit_now(void);

#endif
