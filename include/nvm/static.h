/* Holdfast: pointers from a pool into the program: to its functions, and to its constant and static objects.
 *
 *   NVM_STRUCT hook {
 *     NVM_STATIC_PTR(int(const void *, const void *)) compare;
 *     NVM_STATIC_PTR(const struct kind) kind;
 *   };
 *
 * Such a field holds a plain address, which costs nothing to read.  In the next process it may be another one: the
 * program was loaded elsewhere (ASLR), or was built anew.  So the pool keeps a table of what its programs are made of,
 * and nvm_pool_open() makes the fields lead where they led, before the program sees an object:
 *
 *   what has a name (below)  is found by the name, in any build; the same distance into it
 *   all else                 is found in the same build (its build id) of the program or of a shared library
 *
 * If an object is gone, the pool is refused with its name (NVM_E_ADDRESS), in place of a signal later; nothing is
 * changed.  A program that no longer has a name, and can do without, says so: nvm_static(name, NULL, 0) makes such
 * fields null.  Null stays null; a value that no table tells stays what it is, and is counted (nvm_pool_each_static()).
 * An address that is the end of one object and the beginning of another is taken for the beginning.
 *
 * Programs without types (nvm/malloc.h) hold such addresses in any word of any object: see nvm_statics_in_untyped().
 *
 * The pool knows such fields from its type map (holdfast-cc, or nvm/describe.h: NVM_STATIC; nvm/describe.hpp:
 * nvm::static_pointer()).  A program none of whose types has one leaves them alone, as does the holdfast command.
 *
 * Cost of an open: nothing if all is where it was; else the fields are looked at once and stored twice, in parallel
 * parts as in a relocation.  A program that is not position-independent (-no-pie) stays where it is.
 *
 * A library that is loaded while the pool is open brings its names with it, before the next transaction begins.  One
 * whose objects the pool already leads to has to be loaded before the pool is opened.
 *
 * Names are those of the linker.  holdfast-cc announces, in each source that sees a type with an NVM_STATIC_PTR, all
 * functions and static objects whose address is taken there, those with internal linkage as "file.c:name", and texts
 * ("..." of a program) by what they say.  If two different objects have one name, neither is found by it. */
#ifndef NVM_STATIC_H
#define NVM_STATIC_H

#include "nvm/nvm.h"

/* NVM_STATIC_PTR(T) field;  T may be the type of a function.  For fields only, as NVM_VOLATILE_PTR (nvm.h). */
#ifndef NVM_STATIC_PTR
#ifdef __HOLDFAST_TYPES__
#define NVM_STATIC_PTR(T) __typeof__(__typeof__(T) *) __attribute__((annotate("nvm_static_ptr")))
#else
#define NVM_STATIC_PTR(T) __typeof__(__typeof__(T) *)
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nvm_static_object {
  const char *name;    /* up to 1024 bytes without control characters */
  const void *address; /* NULL: it is gone for good */
  uint64_t bytes;      /* 0 counts as 1; for a function 1 */
} nvm_static_object;
/* Announces names, all or none; copies them.  A name with the same address may be announced again.  The macros and
 * holdfast-cc do so before main().  -1: NVM_E_INVALID, NVM_E_TOO_LARGE, NVM_E_NO_MEMORY.  Threads: any. */
NVM_API int nvm_register_statics(const nvm_static_object *objects, size_t count);
NVM_API int nvm_static(const char *name, const void *address, uint64_t bytes);

/* Says, before pools are opened for change, that objects without a type (type 0, or an undescribed one) may hold
 * addresses of this program and its libraries in any of their words, at multiples of 8 bytes.  holdfast-cc
 * -fnvm-statics says it for a program, and announces the names.  A pool that is opened after that belongs to such
 * programs for good:
 *
 *   each word that lies in an image (a program or library) of the process before, which is elsewhere now, is taken for
 *   a static pointer, found by name, or by place in the same build; if an object is gone, the pool is refused with its
 *   name.  In the image that makes this call everything has a name: a word that leads to none of it is no address, and
 *   stays
 *   a program that does not say this is refused (NVM_E_ADDRESS), with the names of both; one that opens read-only, as
 *   the holdfast command does, or with NVM_TYPES_IGNORE, finds such words unchanged
 *
 * A number that happens to be such an address would be changed, so nothing is taken for one below 4 GiB: a program that
 * is linked with -no-pie is refused the pool of another build.  Images need a build id (--build-id).  Committed objects
 * are put right; addresses that the program keeps elsewhere are its own matter.
 *
 * Cost of an open at other addresses: all objects without a type are read once, and again to be stored, in parallel
 * parts.  Under `setarch -R` a program is loaded where it was, and an open of the same build costs nothing. */
NVM_API void nvm_statics_in_untyped(int may);

/* An object of a program that static pointers of a pool lead to. */
typedef struct nvm_static_info {
  const char *name;  /* NULL: it has none */
  const char *build; /* build id and path of the program or library, with a space between; NULL: not known */
  uint64_t fields;   /* that lead there */
} nvm_static_info;
/* Calls visit(info, argument) for each object, and each image without a name, that fields of the pool lead to; last for
 * fields whose target is unknown (both NULL); until it returns non-zero.  Returns that value, which should be positive,
 * since a failure gives -1.  Looks at every object of the pool.  No transaction of any thread may be open in the pool
 * (NVM_E_TX_OPEN). */
NVM_API int nvm_pool_each_static(NVM_POOL *pool, int (*visit)(const nvm_static_info *info, void *argument),
                                 void *argument);

#ifdef __cplusplus
}
#endif

/* NVM_STATIC_OBJECT(object); NVM_STATIC_FUNCTION(function);  once in a program, outside of functions, after it was
 * declared: announces it under its name, where holdfast-cc does not.  ..._AS: under another name. */
#if defined(__GNUC__) && !defined(NVM_STATIC_OBJECT)
#define NVM_STATIC_JOINED_(n) nvm_static_##n
#define NVM_STATIC_JOINED(n) NVM_STATIC_JOINED_(n)
#define NVM_STATIC_(name, address, bytes, n)                                 \
  __attribute__((constructor(101))) static void NVM_STATIC_JOINED(n)(void) { \
    (void)nvm_static(name, (const void *)(address), bytes);                  \
  }                                                                          \
  struct nvm_static_object
#define NVM_STATIC_OBJECT_AS(name, object) NVM_STATIC_(name, &(object), sizeof(object), __COUNTER__)
#define NVM_STATIC_FUNCTION_AS(name, function) NVM_STATIC_(name, (uintptr_t)(function), 1, __COUNTER__)
#define NVM_STATIC_OBJECT(object) NVM_STATIC_OBJECT_AS(#object, object)
#define NVM_STATIC_FUNCTION(function) NVM_STATIC_FUNCTION_AS(#function, function)
#endif
#endif
