// Forced inlining of the code that an operation runs between two fences.
//
// A compiler needs minutes for it.  So inlining is left to the compiler under sanitizers, in code whose stores are
// recorded, and in sources compiled with NVM_INLINES_LITTLE (src/engine/CMakeLists.txt).
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
#define NVM_INLINE  // an attribute list may be empty
#define NVM_FLATTEN
#else
#define NVM_INLINE gnu::always_inline
// Inlines everything that the function calls.
#ifndef NVM_FLATTEN
#define NVM_FLATTEN [[gnu::flatten]]
#endif
#endif
