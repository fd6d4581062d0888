// What is inlined whatever a compiler thinks of it: the ways of an operation from fence to fence.
//
// Only where pools are used in earnest: it takes a compiler minutes.  It is left to the compiler under sanitizers,
// where each store is recorded, and in sources compiled with NVM_INLINES_LITTLE (src/engine/CMakeLists.txt).
#pragma once

#if defined(NVM_RECORDED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef NVM_INLINES_LITTLE
#define NVM_INLINES_LITTLE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#undef NVM_INLINES_LITTLE
#define NVM_INLINES_LITTLE 1
#endif
#endif

#ifdef NVM_INLINES_LITTLE
#define NVM_INLINE  // an attribute list has nothing against it
#define NVM_FLATTEN
#else
#define NVM_INLINE gnu::always_inline
// And all that it calls, in one function.
#ifndef NVM_FLATTEN
#define NVM_FLATTEN [[gnu::flatten]]
#endif
#endif
