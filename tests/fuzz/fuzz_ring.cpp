// libFuzzer's door to hostile images of pools: log ring, on an image medium.
#include "hostile.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nvm::fuzz::use_ring(nvm::fuzz::edited(nvm::fuzz::ring_images(), {data, size}));
  return 0;
}
