// Descriptors of ours are never 0, 1 or 2.  The system gives the lowest free number: in a program that has closed a
// standard descriptor, as services do, a pool would get its number, and every print would write into the pool.  Every
// descriptor is therefore made here (tools/tree_rules.py, rule `descriptors`), and moved if need be.
//
// Results and errno are those of the system call; close-on-exec is set unless said otherwise.
#pragma once

namespace nvm::platform {

// Moves a descriptor to a number above 2, with the same open file description; one above 2 stays.  -1 passes with its
// errno; a descriptor that cannot be moved is closed.
[[nodiscard]] int above_standard(int descriptor) noexcept;

[[nodiscard]] int open_descriptor(const char* path, int flags, unsigned mode = 0) noexcept;
[[nodiscard]] int open_events() noexcept;                // eventfd, not blocking
[[nodiscard]] int open_user_faults(int flags) noexcept;  // userfaultfd
[[nodiscard]] int open_socket(int domain, int type, int protocol) noexcept;
[[nodiscard]] int open_socket_pair(int domain, int type, int ends[2]) noexcept;  // 0 or -1
[[nodiscard]] int open_pipe(int ends[2]) noexcept;                               // 0 or -1
[[nodiscard]] int open_empty_file(const char* name) noexcept;                    // of memory, without a byte
// Stays open over exec.
[[nodiscard]] int open_memory_file(const char* name) noexcept;

// For the main() of our programs, whose libraries open descriptors, too: opens /dev/null as each closed standard
// descriptor, in the opposite direction, so that reading or writing still fails as on a closed one.
void occupy_standard_descriptors() noexcept;

}  // namespace nvm::platform
