// libFuzzer's door to calls about regions with hostile arguments.
#include "door.hpp"
#include "region_calls.hpp"

extern "C" int NVM_FUZZER(region_calls)(const std::uint8_t* data, std::size_t size);
extern "C" int NVM_FUZZER(region_calls)(const std::uint8_t* data, std::size_t size) {
  nvm::fuzz::call_regions({data, size});
  return 0;
}
