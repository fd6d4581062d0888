// libFuzzer's door to hostile images of pools: lanes, on direct media.
#include "hostile.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nvm::fuzz::use_direct(nvm::fuzz::edited(nvm::fuzz::direct_images(), {data, size}));
  return 0;
}
