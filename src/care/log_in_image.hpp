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
  std::uint64_t aligned = 0;         // objects with more than natural alignment
  std::uint64_t object_bytes = 0;    // asked for
  std::uint64_t dropped_blocks = 0;  // of transactions that had not committed
};

// On a private copy of a pool whose space is sound: reads the whole log, then calls tell(offset, finding) for each
// fault.  errc::no_memory: it could not.
[[nodiscard]] status check_log(pool_file& file,
                               const std::function<void(std::uint64_t offset, const char* finding)>& tell,
                               log_summary& summary);

// keyed::salvage() in a log-structured pool, with as much of the log as can be read.
[[nodiscard]] status salvage_in_log(pool_file& file, std::string_view store, const keyed::salvage_report& report);

// The pool's space is sound.  If blocks of the log do not hold, the log is written anew with everything that can be
// read: in a pool that was closed, all that it had; in another one, the results of recovery and entries of such blocks
// that are proved.  Bytes that fail their check are kept as they are.  Then the heap is as after a clean close.  Notes
// say which bytes were kept so, and which were lost.  They name a block by `offset`, from the start of the file (0: its
// chunk's header is gone), and an object by `object`, its address in home space; a note about an object's header has
// both.  errc::corrupt: it cannot be read, or sound contents would change; no_memory, no_space.  `salvages`: entries of
// blocks whose contents do not hold count, where they are proved.  `aligned`: objects that are left with more than
// natural alignment.  `address`: of the pool's start, by stored pointers; 0: they do not agree.  Counts of references
// follow these pointers.
[[nodiscard]] status repair_log(std::byte* base, const geometry& g, bool closed, bool salvages, std::uint64_t address,
                                const std::function<void(const repair_note&)>& note, std::uint64_t& aligned);

}  // namespace nvm::care
