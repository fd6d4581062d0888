#include "isolation/orec.hpp"

namespace nvm::isolation {

alignas(line_bytes) constinit orec orec_table[std::size_t{1} << orec_bits] = {};

}  // namespace nvm::isolation
