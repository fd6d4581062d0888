// libFuzzer's door to hostile regions in files of pools, used and repaired, through the C interface.
#include "region_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const nvm::fuzz::bytes file = nvm::fuzz::edited(nvm::fuzz::region_file_images(), {data, size}, true);
  nvm::fuzz::use_regions(file);
  nvm::fuzz::mend_regions(file);
  return 0;
}
