#include "lockfree/pool_map.hpp"

namespace nvm::bench {

std::unique_ptr<measured_map> make_durable_map(const map_settings& s) {
  return make_pool_map<direct_media>(s, isa::best_write_back());
}

}  // namespace nvm::bench
