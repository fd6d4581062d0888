#include "api/left_frames.hpp"

#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace nvm::api {
namespace {

// Not on the stack of a coroutine, whose place says nothing.
bool on_own_stack(const void* p) noexcept {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return false;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  const bool known = pthread_attr_getstack(&attributes, &lowest, &bytes) == 0;
  (void)pthread_attr_destroy(&attributes);
  const auto at = reinterpret_cast<std::uintptr_t>(p);
  return known && at - reinterpret_cast<std::uintptr_t>(lowest) < bytes;
}

[[gnu::no_sanitize_address]] const void* word_after(const char* frame) noexcept {
  return *reinterpret_cast<const void* const volatile*>(frame + sizeof(void*));
}

}  // namespace

bool is_open(const marked_frame& f, const char* later) noexcept {
  return f.frame > later && word_after(f.frame) == f.returns;
}
bool is_left(const marked_frame& f, const char* later) noexcept {
  return !is_open(f, later) && on_own_stack(f.frame) && on_own_stack(later);
}

}  // namespace nvm::api
