// libFuzzer's door to hostile files of pools of every engine, through the C interface: check, open, work, close, check.
#include "pool_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<nvm::fuzz::bytes> files = [] {
    std::vector<nvm::fuzz::bytes> all;
    for (const nvm::fuzz::pool_file_image& i : nvm::fuzz::pool_file_images()) all.push_back(i.file);
    return all;
  }();
  nvm::fuzz::use_file(nvm::fuzz::edited(files, {data, size}, true));
  return 0;
}
