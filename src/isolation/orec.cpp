#include "isolation/orec.hpp"

namespace nvm::isolation {

// Static and without a constructor: zero.
alignas(line_bytes) orec orec_table[std::size_t{1} << orec_bits];

}  // namespace nvm::isolation
