// The stacks of direct media that pools run on.
#pragma once

#include <memory>

#include "engine/stack.hpp"
#include "engine/structure_side.hpp"
#include "media/media.hpp"
#include "nvm/nvm.h"
#include "platform/platform.hpp"
#include "pool/pool.hpp"

namespace nvm::engines {

// enum nvm_persist and the instruction it stands for.
[[nodiscard]] constexpr std::uint32_t persist_of(isa::write_back w) noexcept {
  switch (w) {
    case isa::write_back::none:
      return NVM_PERSIST_NONE;
    case isa::write_back::fence_only:
      return NVM_PERSIST_FENCE;
    case isa::write_back::clflush:
      return NVM_PERSIST_CLFLUSH;
    case isa::write_back::clflushopt:
      return NVM_PERSIST_CLFLUSHOPT;
    case isa::write_back::clwb:
      return NVM_PERSIST_CLWB;
  }
  return NVM_PERSIST_NONE;
}

// The write-back instruction of a direct medium: the requested one, checked against the processor and the medium's
// contract.
[[nodiscard]] inline result<isa::write_back> instruction_for(std::uint32_t medium, std::uint32_t persist) noexcept {
  isa::write_back w = isa::write_back::none;
  switch (persist) {
    case NVM_PERSIST_DETECT:
      w = medium == NVM_MEDIUM_DAX    ? isa::best_write_back()
          : medium == NVM_MEDIUM_AUTO ? isa::write_back::fence_only
                                      : isa::write_back::none;
      break;
    case NVM_PERSIST_NONE:
      w = isa::write_back::none;
      break;
    case NVM_PERSIST_FENCE:
      w = isa::write_back::fence_only;
      break;
    case NVM_PERSIST_CLFLUSH:
      w = isa::write_back::clflush;
      break;
    case NVM_PERSIST_CLFLUSHOPT:
      w = isa::write_back::clflushopt;
      break;
    case NVM_PERSIST_CLWB:
      w = isa::write_back::clwb;
      break;
    case NVM_PERSIST_BEST:
      w = isa::best_write_back();
      break;
    default:
      return fail(errc::invalid, "persist %u is none of enum nvm_persist", persist);
  }
  if (w > isa::write_back::fence_only && !isa::has(w)) {
    return fail(errc::medium, "this processor has no %s", isa::name_of(w));
  }
  if (medium == NVM_MEDIUM_DAX && w <= isa::write_back::fence_only) {
    return fail(errc::medium,
                "medium dax needs a write-back instruction, found persist %s: use medium auto where the "
                "platform flushes its caches itself",
                isa::name_of(w));
  }
  if (medium == NVM_MEDIUM_AUTO && w == isa::write_back::none) {
    return fail(errc::medium, "medium auto needs at least a fence, found persist none");
  }
  return w;
}

// The same for an open pool.  A read-only pool's mapping is private: its recovery reaches no medium.
[[nodiscard]] inline result<isa::write_back> write_back_of(const pool_file& file, std::uint32_t persist) noexcept {
  if (file.read_only()) return isa::write_back::none;
  return instruction_for(file.medium(), persist);
}

class direct_stack {
 public:
  explicit direct_stack(isa::write_back with) noexcept : medium_{with} {}
  direct_media& top() noexcept { return medium_; }
  static status close() noexcept { return {}; }
  static void statistics(nvm_statistics&) noexcept {}
  std::uint32_t persist() const noexcept { return persist_of(medium_.instruction()); }
  result<std::unique_ptr<structure_side>> open_structures(std::byte* base, structure_pages& pages,
                                                          const structure_settings& settings) noexcept {
    return make_structure_side(medium_, base, pages, nullptr, settings);
  }
  result<std::unique_ptr<region_side>> open_regions(std::byte* base, region_pages& pages,
                                                    region_wishes wishes) noexcept {
    return make_region_side(medium_, base, pages, std::move(wishes));
  }

 private:
  direct_media medium_;
};

// With emulated latency.
class emulated_direct_stack {
 public:
  emulated_direct_stack(isa::write_back with, latency_settings settings) noexcept
      : medium_{with}, slow_{medium_, settings} {}
  latency_media<direct_media>& top() noexcept { return slow_; }
  static status close() noexcept { return {}; }
  static void statistics(nvm_statistics&) noexcept {}
  std::uint32_t persist() const noexcept { return persist_of(medium_.instruction()); }

 private:
  direct_media medium_;
  latency_media<direct_media> slow_;
};

// With counters, too: measuring only.  May throw std::bad_alloc.
[[nodiscard]] inline std::unique_ptr<any_direct_stack> make_measured_stack(isa::write_back with,
                                                                           const latency_settings& settings) {
  return as_any<structures_here::yes>(
      std::make_unique<measured<emulated_direct_stack>>(std::make_unique<emulated_direct_stack>(with, settings)));
}

}  // namespace nvm::engines
