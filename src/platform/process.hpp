// This process: its id, its actions at fork, random bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "base/base.hpp"

namespace nvm::platform {

[[nodiscard]] std::int64_t process_id() noexcept;

// Whether a process of this id exists, as far as this one may see it.
[[nodiscard]] bool process_exists(std::int64_t pid) noexcept;

// Functions around fork(): `before` and `parent` in the parent, `child` in the child before fork() returns there.  The
// child may call only what is safe after fork in a threaded program.  They stay for ever.
[[nodiscard]] status at_fork(void (*before)() noexcept, void (*parent)() noexcept, void (*child)() noexcept) noexcept;

// Bytes of memory that the group of processes around this one may have (cgroups, as a container sees them); 0: no
// limit.
[[nodiscard]] std::uint64_t memory_limit() noexcept;

// Fills the buffer from the kernel's generator.
[[nodiscard]] status random_bytes(void* out, std::size_t bytes) noexcept;

// Prints where the code before the return address `code` is: its function, if the dynamic linker knows it, its file and
// the offset there, and the command that makes file and line of them.
void print_place(std::FILE* to, const void* code) noexcept;
// Prints which calls led here, a line for each: the file that the code is of, the offset in it, the address.
void print_calls(std::FILE* to) noexcept;

}  // namespace nvm::platform
