#include "api/direct.hpp"

#include "api/heap_engine.hpp"
#include "api/media_stacks.hpp"

namespace nvm::api {

result<std::unique_ptr<engine>> start_on_direct(pool_file& file, std::uint32_t persist, bool measured,
                                                const latency_settings& emulated, bool background) {
  auto with = write_back_of(file, persist);
  if (!with) return with.error();
  const unsigned lanes = file.geometry().lane_count;
  if (measured) {
    return start_engine(std::make_unique<measured_direct_stack>(*with, emulated), file, lanes, background);
  }
  return start_engine(std::make_unique<direct_stack>(*with), file, lanes, background);
}

}  // namespace nvm::api
