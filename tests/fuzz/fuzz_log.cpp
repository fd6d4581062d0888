// libFuzzer's door to hostile images of the log-structured heap.
#include "hostile.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nvm::fuzz::use_log(nvm::fuzz::edited(nvm::fuzz::log_images(), {data, size}, true));
  return 0;
}
