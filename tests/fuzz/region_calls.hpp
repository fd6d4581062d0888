// Calls of nvm/region.h with hostile arguments, one after the other, beside a model of them.
#pragma once

#include <cstdint>
#include <span>

namespace nvm::fuzz {

// Each call is five bytes: what, which region, which of many offsets and sizes.  Aborts the process where a call does
// not do what the model says: a call that is refused has changed nothing.  Calls that were not refused.
std::uint64_t call_regions(std::span<const std::uint8_t> input);

}  // namespace nvm::fuzz
