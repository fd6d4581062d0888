// Tracer: writes the trace of this process.
//
// HOLDFAST_RECORD names the file, which must not exist: of several processes that inherit the variable the first one is
// recorded.  HOLDFAST_RECORD_BYTES limits it (default 1 GiB); beyond that the program runs on unrecorded.
//
// Threads.  Records have one total order, made by a lock; each carries the number of its thread.  A store is reported
// after it was made. If threads order their accesses by locks, the recorded order is that of the stores; for racing
// stores to one word it is the order of the reports.  A forked child is not recorded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nvm/record.h"

namespace nvm::recording {

// A trace is being written.
[[nodiscard]] bool on() noexcept;

// Writes the pool's present bytes to the trace; from then on stores to the pool are reported.
void pool_opened(const void* base, std::uint64_t capacity_bytes, std::uint64_t file_bytes, const char* path) noexcept;
void pool_closed(const void* base, std::uint64_t file_bytes) noexcept;

void flush(const void* p, std::size_t bytes, const char* file, std::uint32_t line) noexcept;
void fence(const char* label) noexcept;

void tx_begin(const void* base) noexcept;
void tx_end(const void* base, bool committed) noexcept;
void logged(const void* p, std::size_t bytes) noexcept;
void fresh(const void* p, std::size_t bytes) noexcept;

}  // namespace nvm::recording
