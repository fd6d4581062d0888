// libFuzzer's door to hostile lock-free structures, stores and type maps in files of pools, through the C interface.
#include "structure_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nvm::fuzz::use_structures(nvm::fuzz::edited(nvm::fuzz::structure_file_images(), {data, size}, true));
  return 0;
}
