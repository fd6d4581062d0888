// libFuzzer's door to store logs of pmemcheck: any text is read or refused with a reason, and accepted stores stay
// inside the image that goes with it. The first byte chooses the image and the name of the file.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "door.hpp"
#include "recorded.hpp"

#include "crash_test/pmemcheck.hpp"

extern "C" int NVM_FUZZER(pmemcheck)(const std::uint8_t* data, std::size_t size);
extern "C" int NVM_FUZZER(pmemcheck)(const std::uint8_t* data, std::size_t size) {
  using namespace nvm;
  if (size == 0) return 0;
  constexpr std::uint64_t image_max = 1 << 20;
  // An image longer than what is taken is refused, too.
  static constexpr std::uint64_t sizes[] = {0, 16, 4096, 5000, image_max, image_max + 1};
  static constexpr std::string_view names[] = {"", "/pool", "/other"};
  const std::string_view log{reinterpret_cast<const char*>(data) + 1, size - 1};
  std::string problem;
  const auto r =
      crash_test::read_pmemcheck(log, std::vector<std::byte>(sizes[data[0] % std::size(sizes)], std::byte{0x55}),
                                 names[data[0] / std::size(sizes) % std::size(names)], problem, image_max);
  if (r.has_value() == !problem.empty()) std::abort();
  if (r) {
    fuzz::require_recording(*r, image_max);
    if (r->sessions.size() != 1) std::abort();
  }
  return 0;
}
