/*
 * The recording interface: what code compiled with the recording pass (nvm_record_pass) calls.
 *
 * The pass puts a call after every store whose target lies in the watched range, and before loads if it was built to.
 * Outside the range a store costs one subtraction and one compare.  One thread attaches a set of hooks and is the only
 * one that may store into the range until it detaches; a store by another thread stops the program with a message.
 * Functions marked NVM_NO_RECORD are left alone.
 */
#ifndef NVM_RECORD_H
#define NVM_RECORD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A function that the pass leaves alone; never inlined, so that it stays one. */
#define NVM_NO_RECORD __attribute__((noinline, annotate("nvm_no_record")))

/* How a place stores: one of these, perhaps with NVM_REC_NON_TEMPORAL. */
enum nvm_rec_kind {
  NVM_REC_PLAIN = 0,        /* scalar store */
  NVM_REC_ATOMIC = 1,       /* atomic store */
  NVM_REC_RMW = 2,          /* locked read-modify-write */
  NVM_REC_VECTOR = 3,       /* vector store */
  NVM_REC_MASKED = 4,       /* masked, scattered or compressing vector store */
  NVM_REC_COPY = 5,         /* memcpy, memset and their family: bytes in no order */
  NVM_REC_FLUSH = 6,        /* write-back instruction */
  NVM_REC_FENCE = 7,        /* store fence */
  NVM_REC_LOAD = 8,         /* load */
  NVM_REC_NON_TEMPORAL = 16 /* weakly ordered, past the cache: durable after the next fence, without a flush */
};

/* A place in the sources; constant, one object for all events of that place. */
struct nvm_rec_site {
  const char *file;     /* "" without debug information */
  const char *function; /* that of the source, not the one that it was inlined into */
  uint32_t line;
  uint32_t column;
  uint32_t kind;
  uint32_t of_library; /* 1: of Holdfast itself, 0: of the program */
};

/* The watched range; bytes is 0 while nothing is attached. */
extern uintptr_t __nvm_rec_base;
extern size_t __nvm_rec_bytes;
/* Falls by one at each loop iteration and function entry; below zero __nvm_rec_step_limit() is called. */
extern int64_t __nvm_rec_steps;

/* Called by instrumented code: after the store, before the load. */
void __nvm_rec_store(const void *p, size_t bytes, const struct nvm_rec_site *site);
/* A string, with its final zero. */
void __nvm_rec_string(const char *p, const struct nvm_rec_site *site);
/* Lane i of `lane_bytes` was stored if bit i of mask is set. */
void __nvm_rec_masked(const void *p, size_t lane_bytes, uint64_t mask, const struct nvm_rec_site *site);
/* After a locked read-modify-write anywhere in memory, while something is attached: it orders the thread's write-backs.
   bytes is 0 if nothing was stored (a failed compare-exchange). */
void __nvm_rec_rmw(const void *p, size_t bytes, const struct nvm_rec_site *site);
void __nvm_rec_flush(const void *p, const struct nvm_rec_site *site);
void __nvm_rec_fence(const struct nvm_rec_site *site);
/* Only from the plugin that records loads: before a load, and before an atomic access anywhere in memory. */
void __nvm_rec_load(const void *p, size_t bytes, const struct nvm_rec_site *site);
void __nvm_rec_access(const void *p, const struct nvm_rec_site *site);
void __nvm_rec_step_limit(void);

/* The receiver of the events.  A null function ignores its events. */
struct nvm_rec_hooks {
  void *self;
  void (*store)(void *self, const void *p, size_t bytes, const struct nvm_rec_site *site);
  void (*rmw)(void *self, const void *p, size_t bytes, const struct nvm_rec_site *site);
  void (*flush)(void *self, const void *p, const struct nvm_rec_site *site);
  void (*fence)(void *self, const struct nvm_rec_site *site);
  void (*load)(void *self, const void *p, size_t bytes, const struct nvm_rec_site *site);
  void (*access)(void *self, const void *p, const struct nvm_rec_site *site);
  void (*step_limit)(void *self);
};

/* Watches [base, base + bytes) for the calling thread.  `hooks` is copied.  Nothing may be attached. */
void nvm_rec_attach(const struct nvm_rec_hooks *hooks, const void *base, size_t bytes);
void nvm_rec_detach(void);

#ifdef __cplusplus
}
#endif

#endif
