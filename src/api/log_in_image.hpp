// The log-structured heap in a private image of a pool: its full check, and its repair.
#pragma once

#include <cstdint>
#include <functional>

#include "api/repair.hpp"
#include "pool/pool.hpp"

namespace nvm::api {

struct log_summary {
  std::uint64_t objects = 0;
  std::uint64_t object_bytes = 0;    // asked for
  std::uint64_t dropped_blocks = 0;  // of transactions that had not committed
};

// On a private copy of a pool whose space is sound: reads the whole log, then calls tell(offset, finding) for each
// fault.  errc::no_memory: it could not.
[[nodiscard]] status check_log(pool_file& file,
                               const std::function<void(std::uint64_t offset, const char* finding)>& tell,
                               log_summary& summary);

// The pool's space is sound.  Where blocks of the log do not hold, they are cut out of it; objects that are nothing
// without them are freed.  Then the heap is as after a clean close.  Says what was lost: of objects that are left, what
// a lost transaction had stored into them; of others, all.  Notes name a block by `offset`, from the start of the file
// (0: its chunk's header is gone), and an object by `object`, its address in home space; an object that is freed is in
// no block that holds, and has that address for both.  errc::corrupt: it cannot be read, or something that recovery
// finds in the damaged log would change; no_memory, no_space.
[[nodiscard]] status repair_log(std::byte* base, const geometry& g,
                                const std::function<void(const repair_note&)>& note);

}  // namespace nvm::api
