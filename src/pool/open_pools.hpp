// The pools that this process has open: found by address, closed at exit, poisoned in a forked child.
//
// Finding is one shift and one load: a directory with an entry for each granule of the address window names the pool
// whose slot holds it.  Everything else goes through one mutex, which fork() takes too: no file is opened or closed
// between the parent's memory and the child's.
//
// In a child: descriptors are closed (the lock stays the parent's); an access to the pool's addresses ends the child
// with a message (platform/forked_memory.hpp); pool_file::forked() is true.  The child may open pools of its own.
#pragma once

#include <mutex>

#include "platform/platform.hpp"

namespace nvm {

class pool_file;

namespace open_pools {

// Prepares exit and fork handling; called before the first pool of the process, later calls have no effect.
[[nodiscard]] status start() noexcept;

// Held while a descriptor comes or goes and while the list is walked. The last of pool/'s locks in the lock order.
[[nodiscard]] std::mutex& guard() noexcept;

// Members of a pool_file that only this part may touch.
struct access;

// All four under guard().  A pool_file is listed from before its file is opened until after it is closed.
void list(pool_file& pool) noexcept;
void unlist(pool_file& pool) noexcept;
// Listed pool, other than `self`, with this file or this uuid; null: none.
[[nodiscard]] const pool_file* same_file(const pool_file& self, std::uint64_t device, std::uint64_t inode) noexcept;
[[nodiscard]] const pool_file* same_uuid(const pool_file& self, const std::uint8_t* uuid) noexcept;

// Adds the addresses of a mapped pool to those that can be found, and removes them.
void publish(pool_file& pool) noexcept;
void withdraw(pool_file& pool) noexcept;

// Sets the call at exit, once for each pool that is still open and not a parent process's, newest first. `close` closes
// the pool, and may destroy it.
void set_exit_hook(void (*close)(pool_file& pool) noexcept) noexcept;

}  // namespace open_pools

// Open pool of this process whose capacity holds `p`; null: none.  Lock-free.  The caller must know that the pool is
// not being closed meanwhile.
[[nodiscard]] pool_file* find_pool(const void* p) noexcept;

}  // namespace nvm
