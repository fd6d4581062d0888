// Counts the calls by which this process waits for a device: fsync, fdatasync, msync(MS_SYNC), sync_file_range with a
// wait, and pwrite to a descriptor opened with O_DSYNC or O_SYNC (so LMDB writes its meta page).
//
// The functions are defined here and call the C library's: the executable's definition comes first in the search order
// of the dynamic linker, so the calls of every library in the process are counted, on every thread.
#pragma once

#include <cstdint>

namespace nvm::bench {

// Durable waits since the process started.
std::uint64_t durable_waits() noexcept;
// Bytes that the process has caused to be written to devices, as the system counts them: pages that it has made dirty,
// once for each time that they were clean. 0: the system does not tell.
std::uint64_t device_bytes() noexcept;

}  // namespace nvm::bench
