// The log-structured heap in a private image of a pool: its full check, and its repair.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "care/repair.hpp"
#include "kv/kv.hpp"
#include "pool/pool.hpp"

namespace nvm::care {

struct log_summary {
  std::uint64_t objects = 0;
  std::uint64_t aligned = 0;         // of these to more than natural alignment
  std::uint64_t object_bytes = 0;    // asked for
  std::uint64_t dropped_blocks = 0;  // of transactions that had not committed
};

// On a private copy of a pool whose space is sound: reads the whole log, then calls tell(offset, finding) for each
// fault.  errc::no_memory: it could not.
[[nodiscard]] status check_log(pool_file& file,
                               const std::function<void(std::uint64_t offset, const char* finding)>& tell,
                               log_summary& summary);

// keyed::salvage() in a log-structured pool, of which as much of the log counts as can be read.
[[nodiscard]] status salvage_in_log(pool_file& file, std::string_view store, const keyed::salvage_report& report);

// The pool's space is sound.  Where blocks of the log do not hold, it is written anew with everything that can be read:
// of a pool that was closed, all that it had; of another one, what recovery finds and what entries of such blocks
// prove. Bytes that fail their check are kept as they are.  Then the heap is as after a clean close.  Says what was
// kept so, and what was lost.  Notes name a block by `offset`, from the start of the file (0: its chunk's header is
// gone), and an object by `object`, its address in home space; of an object's header that is both.  errc::corrupt: it
// cannot be read, or something that is there would change; no_memory, no_space.
// `salvages`: entries of blocks whose contents do not hold count, where they are proved.  `aligned`: objects that are
// left with more than natural alignment.  `address`: what stored pointers say of the pool's start, 0: they do not
// agree; counts of references become what they say.
[[nodiscard]] status repair_log(std::byte* base, const geometry& g, bool closed, bool salvages, std::uint64_t address,
                                const std::function<void(const repair_note&)>& note, std::uint64_t& aligned);

}  // namespace nvm::care
