/* A store of blobs by name: uploads arrive in pieces, in any order, and are seen when they get their name; blobs are
 * read and written in ranges, and grow at their end.
 *
 * Each call that changes something is done whole or not at all, and durable when it returns.  The store counts these
 * calls, and the count changes with what it counts: a client that was killed, or that lost its connection, reads the
 * count and knows whether its last call was done.
 *
 * Calls return 0, or -1 with blobs_reason().  A blob that is absent is no error: 1, and the call is counted.
 */
#ifndef EXAMPLES_BLOBS_BLOBS_H
#define EXAMPLES_BLOBS_BLOBS_H

#include <stddef.h>
#include <stdint.h>

typedef struct blobs blobs;

enum { BLOBS_NAME_MAX = 255 };

/* Of a pool that is made when it is absent; medium: "shm", "ssd", or NULL for what the path is.  opened() is told when
 * what a crash has left is repaired, and how long that took.  The volatile version needs none of the three. */
blobs* blobs_open(const char* path, const char* medium, void (*opened)(const char* line));
int blobs_close(blobs* store);
const char* blobs_reason(void);

/* Calls that changed something, or found nothing to change. */
int blobs_changes(blobs* store, uint64_t* count);

/* Begins an upload; *upload is its number, 1 for the first of a store. */
int blobs_upload(blobs* store, uint64_t* upload);
/* Bytes of an upload; what no piece has brought reads as zeros. */
int blobs_piece(blobs* store, uint64_t upload, uint64_t at, const void* bytes, size_t size);
/* Ends an upload: it is the blob of this name from now on, and the one that was is gone. */
int blobs_name(blobs* store, uint64_t upload, const char* name);
/* Adds bytes to a blob, which is made when it is absent. */
int blobs_append(blobs* store, const char* name, const void* bytes, size_t size);
/* Bytes of a blob that lie within it; of others nothing is written. */
int blobs_write(blobs* store, const char* name, uint64_t at, const void* bytes, size_t size);
int blobs_cut(blobs* store, const char* name, uint64_t size);
int blobs_remove(blobs* store, const char* name);

/* Bytes read, fewer at the end; -1 also when there is no such blob. */
int64_t blobs_read(blobs* store, const char* name, uint64_t at, void* to, size_t size);
/* Calls visit(name, size, argument) for each blob, in no order, until it returns non-zero, which is the result. */
int blobs_each(blobs* store, int (*visit)(const char* name, uint64_t size, void* argument), void* argument);

/* What is wrong with the store, or NULL. */
const char* blobs_check(blobs* store);

#endif
