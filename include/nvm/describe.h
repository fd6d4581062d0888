/* Holdfast: what programs say of their durable types besides NVM_STRUCT and NVM_PTR (nvm.h, "types").
 *
 * With holdfast-cc: which member of a union counts, and functions that tell pointers (below).  With other compilers of
 * C11 that have GNU attributes whole layouts; C++ has nvm/describe.hpp:
 *
 *   struct node { struct node *next; struct node *parent; char name[32]; double weights[]; };
 *   NVM_DESCRIBE(struct node, NVM_POINTER(next, struct node), NVM_WEAK(parent, struct node), NVM_ARRAY(name),
 *                NVM_FLEXIBLE(weights));
 *
 * stands once in a program, outside of functions, and announces the type before main(): the same layout, byte for byte,
 * as holdfast-cc would find for the NVM_STRUCT (nvm.h, "types").  Relocation and collection know nothing of a field
 * that is left out, so all fields have to be there, by ascending offset, structures inside as
 * NVM_FIELD(inside.member). */
#ifndef NVM_DESCRIBE_H
#define NVM_DESCRIBE_H

#include "nvm/nvm.h"

/* ---- unions ------------------------------------------------------------------------------------------------------ */

/* NVM_UNION_TAG(expression): says which member of a union with pointers counts, in a field or after the word `union`:
 *
 *   NVM_STRUCT value {
 *     int kind;
 *     union { long number; NVM_PTR(struct node) node; } u NVM_UNION_TAG(kind == is_node);
 *   };
 *
 * The expression is the number of the member, from 0; with any other number there are no pointers in the union.  It is
 * made of integer fields of the structure that the union is in (a.b, bit-fields too), numbers, enumerators and the
 * operators of C without assignments, and is calculated with 64 bits and a sign.  It goes into the pool with the
 * layout. */
#ifndef NVM_UNION_TAG
#ifdef __HOLDFAST_TYPES__
#define NVM_UNION_TAG_(...) __attribute__((annotate("nvm_union_tag:" #__VA_ARGS__)))
#define NVM_UNION_TAG(...) NVM_UNION_TAG_(__VA_ARGS__)
#else
#define NVM_UNION_TAG(...)
#endif
#endif
#ifdef __cplusplus
extern "C" {
#endif

typedef struct nvm_field_description {
  const char *name; /* as in nvm_field_info, and the next five as well */
  uint64_t offset, bytes, count;
  uint32_t kind; /* enum nvm_field_kind */
  uint32_t inner;
  const char *target; /* pointers: name of the type pointed to, "struct" may be in front; NULL or "void": any.
                             NVM_FIELD_BY_VISITOR: as NVM_VISIT names it */
  const char *tag;    /* NVM_FIELD_UNION: the tag as a pool has it (docs/format.md); else NULL */
} nvm_field_description;
typedef struct nvm_type_description {
  const char *name; /* "struct node" describes node, and announces the other name as well */
  uint64_t size;
  uint32_t align;
  uint32_t field_count;
  const nvm_field_description *fields;
} nvm_type_description;
/* Announces a layout; copies what it is given.  -1: NVM_E_INVALID, NVM_E_NO_MEMORY, NVM_E_CORRUPT with what cannot be,
 * or NVM_E_TYPE_MISMATCH if the id has another layout in this program; until the process ends, pools then open with
 * NVM_TYPES_IGNORE only, and say the same. */
NVM_API int nvm_describe_type(const nvm_type_description *type);

/* ---- visitors ---------------------------------------------------------------------------------------------------- */

/* Visitors, for what no layout says: which words of an object are pointers follows from a list, a bit in a pointer or a
 * function of the program.  A visitor of a structure or union tells all pointers in one of them:
 *
 *   static void visit_slot(const void *object, nvm_visit *visit) {
 *     const struct slot *s = object;
 *     if (slot_is_node(s)) nvm_visit_field(visit, &s->u.node, NVM_FIELD_POINTER);
 *   }
 *   NVM_VISIT(struct slot, visit_slot);
 *
 * NVM_VISIT stands after the type, before all that contains it, in a header that all who use the type include.  It is
 * what lets holdfast-cc accept the type; a pool with objects of it needs this program, or another one with the visitor,
 * to be relocated or collected.  A visitor reads nothing but the bytes that it is given, which may be a copy elsewhere,
 * stores nothing and calls nothing else of the library.  Threads: any, several at a time. */
typedef struct nvm_visit nvm_visit;
typedef void (*nvm_visitor)(const void *object, nvm_visit *visit);
/* A pointer at the address `field`, inside of the structure: NVM_FIELD_POINTER, _WEAK_POINTER or _STATIC_POINTER. */
NVM_API void nvm_visit_field(nvm_visit *visit, const void *field, enum nvm_field_kind kind);
/* Announces the visitor of a type; NVM_VISIT does so before main().  -1: NVM_E_INVALID, NVM_E_NO_MEMORY. */
NVM_API int nvm_register_visitor(uint32_t type_id, nvm_visitor function);
/* ---- undescribed types ------------------------------------------------------------------------------------------- */

/* Calls visit(type_id, objects, visitor_of, argument) for each type of committed objects whose pointers cannot be told,
 * by ascending id, until it returns non-zero; returns that value, which should be positive, since a failure gives -1.
 * visitor_of 0: the pool has no layout of the type, and does not say that such objects are bytes (enum nvm_untyped);
 * else the type whose visitor (NVM_VISIT) this program lacks.  Texts of nvm_strdup() and key-value stores are known to
 * the library.  Reads every object's header.  No transaction of any thread may be open in the pool. */
NVM_API int nvm_pool_each_undescribed(NVM_POOL *pool,
                                      int (*visit)(uint32_t type_id, uint64_t objects, uint32_t visitor_of,
                                                   void *argument),
                                      void *argument);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__) && !defined(NVM_VISIT)
#define NVM_VISIT_NAME_(n) nvm_visit_##n
#define NVM_VISIT_NAME(n) NVM_VISIT_NAME_(n)
#define NVM_VISIT_(T, function, n)                                        \
  __attribute__((constructor(101))) static void NVM_VISIT_NAME(n)(void) { \
    (void)nvm_register_visitor(NVM_TYPE_ID(T), function);                 \
  }                                                                       \
  struct nvm_visit
#define NVM_VISIT(T, function) NVM_VISIT_(T, function, __COUNTER__)
#endif

/* ---- descriptions in C ------------------------------------------------------------------------------------------- */

#ifndef __cplusplus

#define NVM_DESCRIBED_(f) (((const nvm_described *)0)->f)
#ifdef __SIZEOF_INT128__
#define NVM_WIDE_KINDS_ __int128 : NVM_FIELD_SIGNED, unsigned __int128 : NVM_FIELD_UNSIGNED,
#else
#define NVM_WIDE_KINDS_
#endif
/* clang-format off */
#define NVM_KIND_(x) _Generic((x),                                                                                     \
  _Bool: NVM_FIELD_BOOL, char: NVM_FIELD_CHAR,                                                                         \
  signed char: NVM_FIELD_SIGNED, short: NVM_FIELD_SIGNED, int: NVM_FIELD_SIGNED, long: NVM_FIELD_SIGNED,               \
  long long: NVM_FIELD_SIGNED, unsigned char: NVM_FIELD_UNSIGNED, unsigned short: NVM_FIELD_UNSIGNED,                  \
  unsigned: NVM_FIELD_UNSIGNED, unsigned long: NVM_FIELD_UNSIGNED, unsigned long long: NVM_FIELD_UNSIGNED,             \
  NVM_WIDE_KINDS_ float: NVM_FIELD_FLOAT, double: NVM_FIELD_FLOAT, long double: NVM_FIELD_FLOAT)
#define NVM_PLACE_(name, outer, f, element, count, kind, target)                                                       \
  {name, offsetof(nvm_described, f) - (outer), sizeof(NVM_DESCRIBED_(element)), count, kind, 0, target, NULL}
#define NVM_COUNT_(f, element) (sizeof(NVM_DESCRIBED_(f)) / sizeof(NVM_DESCRIBED_(element)))
/* clang-format on */

/* A number, character, boolean or enumeration; an array of them, of one and of two dimensions; a flexible one. */
#define NVM_FIELD(f) NVM_PLACE_(#f, 0, f, f, 1, NVM_KIND_(NVM_DESCRIBED_(f)), NULL)
#define NVM_ARRAY(f) NVM_PLACE_(#f, 0, f, f[0], NVM_COUNT_(f, f[0]), NVM_KIND_(NVM_DESCRIBED_(f[0])), NULL)
#define NVM_TABLE(f) NVM_PLACE_(#f, 0, f, f[0][0], NVM_COUNT_(f, f[0][0]), NVM_KIND_(NVM_DESCRIBED_(f[0][0])), NULL)
#define NVM_FLEXIBLE(f) NVM_PLACE_(#f, 0, f, f[0], 0, NVM_KIND_(NVM_DESCRIBED_(f[0])), NULL)
/* Pointers to objects of the pool, or an array of them: NVM_PTR, NVM_WEAK_PTR; into the program: NVM_STATIC_PTR, to
 * functions as to void; any other pointer; a flexible array. */
#define NVM_POINTER(f, to) NVM_POINTER_(f, NVM_FIELD_POINTER, to)
#define NVM_WEAK(f, to) NVM_POINTER_(f, NVM_FIELD_WEAK_POINTER, to)
#define NVM_STATIC(f, to) NVM_POINTER_(f, NVM_FIELD_STATIC_POINTER, to)
#define NVM_PLAIN(f, to) NVM_POINTER_(f, NVM_FIELD_VOLATILE_POINTER, to)
#define NVM_FLEXIBLE_POINTER(f, to) NVM_PLACE_(#f, 0, f, f[0], 0, NVM_FIELD_POINTER, #to)
#define NVM_POINTER_(f, kind, to) \
  {#f, offsetof(nvm_described, f), sizeof(void *), sizeof(NVM_DESCRIBED_(f)) / sizeof(void *), kind, 0, #to, NULL}
/* A union without pointers, and anything else that has none; an array of them. */
#define NVM_BYTES(f) NVM_PLACE_(#f, 0, f, f, 1, NVM_FIELD_BYTES, NULL)
#define NVM_BYTES_ARRAY(f) NVM_PLACE_(#f, 0, f, f[0], NVM_COUNT_(f, f[0]), NVM_FIELD_BYTES, NULL)
/* A field of any type that is zero after each open, and stored to without a log; an array of them: NVM_RESET
 * (nvm/malloc.h); a flexible array.  NVM_RESET_FIELD(a.b) for one inside of a structure. */
#define NVM_RESET_FIELD(f) NVM_PLACE_(#f, 0, f, f, 1, NVM_FIELD_RESET, NULL)
#define NVM_RESET_ARRAY(f) NVM_PLACE_(#f, 0, f, f[0], NVM_COUNT_(f, f[0]), NVM_FIELD_RESET, NULL)
#define NVM_FLEXIBLE_RESET(f) NVM_PLACE_(#f, 0, f, f[0], 0, NVM_FIELD_RESET, NULL)
/* Neighbouring bit-fields: where they begin, how many bytes they share, "kind:0+3|on:3+1" by first bit and width. */
#define NVM_BITS(at, bytes, names) {names, at, bytes, 1, NVM_FIELD_BYTES, 0, NULL, NULL}
/* An array of structures, whose elements have so many fields; these follow, as NVM_INNER, NVM_INNER_POINTER
 * and NVM_INNER_RESET. */
#define NVM_STRUCTURES(f, fields) \
  {#f,                            \
   offsetof(nvm_described, f),    \
   sizeof(NVM_DESCRIBED_(f[0])),  \
   NVM_COUNT_(f, f[0]),           \
   NVM_FIELD_STRUCTURE,           \
   fields,                        \
   NULL,                          \
   NULL}
#define NVM_INNER(f, member)                                                          \
  NVM_PLACE_(#f "." #member, offsetof(nvm_described, f), f[0].member, f[0].member, 1, \
             NVM_KIND_(NVM_DESCRIBED_(f[0].member)), NULL)
#define NVM_INNER_POINTER(f, member, to) \
  NVM_PLACE_(#f "." #member, offsetof(nvm_described, f), f[0].member, f[0].member, 1, NVM_FIELD_POINTER, #to)
#define NVM_INNER_RESET(f, member) \
  NVM_PLACE_(#f "." #member, offsetof(nvm_described, f), f[0].member, f[0].member, 1, NVM_FIELD_RESET, NULL)
/* A structure, or an array of them, whose pointers the visitor of its type tells (NVM_VISIT).  So many fields follow
 * that say to people what lies in one: NVM_INNER of an array, NVM_WITHIN of one structure. */
#define NVM_VISITED(f, type, fields)         \
  {#f,                                       \
   offsetof(nvm_described, f),               \
   sizeof(type),                             \
   sizeof(NVM_DESCRIBED_(f)) / sizeof(type), \
   NVM_FIELD_BY_VISITOR,                     \
   fields,                                   \
   #type,                                    \
   NULL}
#define NVM_WITHIN(f, member)                                                                                        \
  NVM_PLACE_(#f "." #member, offsetof(nvm_described, f), f.member, f.member, 1, NVM_KIND_(NVM_DESCRIBED_(f.member)), \
             NULL)

#define NVM_DESCRIBE(type, ...) NVM_DESCRIBE_1(type, __COUNTER__, __VA_ARGS__)
#define NVM_DESCRIBE_1(type, n, ...) NVM_DESCRIBE_2(type, n, __VA_ARGS__)
#define NVM_DESCRIBE_2(type, n, ...)                                                                      \
  __attribute__((constructor(101))) static void nvm_describe_##n(void) {                                  \
    typedef type nvm_described;                                                                           \
    static const nvm_field_description fields[] = {__VA_ARGS__};                                          \
    static const nvm_type_description described = {#type, sizeof(nvm_described), _Alignof(nvm_described), \
                                                   sizeof fields / sizeof fields[0], fields};             \
    (void)nvm_describe_type(&described);                                                                  \
  }                                                                                                       \
  struct nvm_type_description
#endif
#endif
