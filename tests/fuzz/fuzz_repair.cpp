// libFuzzer's door to repair of any file of a pool: the file stays as it is, and the copy, if there is one, is sound.
#include "mended_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nvm::fuzz::mend_file(nvm::fuzz::edited(nvm::fuzz::damaged_file_images(), {data, size}, true));
  return 0;
}
