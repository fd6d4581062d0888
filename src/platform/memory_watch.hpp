// Memory debuggers that may watch this process: Valgrind's memcheck, and AddressSanitizer in a program that was
// compiled with it, even if the library was not.
//
// They are told which bytes of a pool belong to no object, so that they report accesses to them: the unused end of an
// object's room, and freed objects.  Headers stay accessible.  Memory outside of the address window, where images of
// tests and of recovery lie, is left out.  A library that is itself compiled with AddressSanitizer tells nothing: its
// own copies of lines and pages would be reported.
//
// Cost without a debugger: one load and one branch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nvm::platform {

namespace memory_watch {

enum class watcher : std::uint8_t { not_asked, none, sanitizer, memcheck };
// relaxed at every read: each thread that finds not_asked gets the same answer.
inline constinit std::atomic<watcher> found{watcher::not_asked};
watcher ask() noexcept;

[[nodiscard]] inline bool active() noexcept {
  watcher w = found.load(std::memory_order_relaxed);
  if (w == watcher::not_asked) [[unlikely]]
    w = ask();
  return w != watcher::none;
}

void set_accessible(const void* p, std::size_t bytes, bool accessible) noexcept;

// The bytes belong to an object, or may be used for one.
inline void accessible(const void* p, std::size_t bytes) noexcept {
  if (active()) [[unlikely]]
    set_accessible(p, bytes, true);
}
// The bytes belong to no object.
inline void inaccessible(const void* p, std::size_t bytes) noexcept {
  if (active()) [[unlikely]]
    set_accessible(p, bytes, false);
}
// Addresses without memory, after the end of a mapped file: memcheck would touch each page when it looks for leaks.
inline void nothing_there(const void* p, std::size_t bytes) noexcept {
  if (active() && found.load(std::memory_order_relaxed) == watcher::memcheck) [[unlikely]]
    set_accessible(p, bytes, false);
}
// An object of `bytes` bytes begins at p, in a room of `room` bytes.
inline void object(const std::byte* p, std::size_t bytes, std::size_t room) noexcept {
  if (!active()) [[likely]]
    return;
  set_accessible(p, bytes, true);
  set_accessible(p + bytes, room - bytes, false);
}

}  // namespace memory_watch

// Whether this process runs under Valgrind, which shadows reserved memory.
[[nodiscard]] bool under_valgrind() noexcept;
// Whether the program was compiled with ThreadSanitizer, which keeps most addresses for itself.
[[nodiscard]] bool with_thread_sanitizer() noexcept;

}  // namespace nvm::platform
