// The same maps, where each sync takes as long as that of some non-volatile memory.
#include "lockfree/pool_map.hpp"

namespace nvm::bench {
namespace {

// latency_media over a medium of its own; a pause for each batch that is waited for (log-free, section 6.1).
class slow_media : public latency_media<direct_media> {
 public:
  explicit slow_media(std::uint64_t write_ns) noexcept
      : latency_media<direct_media>{memory_, {static_cast<std::uint32_t>(write_ns), 0, 0}} {}

 private:
  direct_media memory_{isa::best_write_back()};
};
static_assert(media<slow_media>);

}  // namespace

std::unique_ptr<measured_map> make_emulated_map(const map_settings& s) {
  return make_pool_map<slow_media>(s, s.write_ns);
}

}  // namespace nvm::bench
