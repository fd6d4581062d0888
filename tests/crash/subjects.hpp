// Subjects of the explorer: a small pool on a medium, a scenario, recovery and oracle.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "../random_seed.hpp"
#include "player.hpp"

namespace nvm::tests {

struct crash_shape {
  unsigned page_shift = 10;
  std::uint64_t size_pages = 40;
  std::uint64_t capacity_pages = 40;  // a sixteenth is kept for logs: space::keep_pages_for_logs()
  std::uint32_t lanes = 2;
  std::uint64_t lane_bytes = 1024;
  std::uint64_t ring_bytes = 16 * 1024;  // ssd
};

using scenario_steps = std::function<void(player&)>;

// A new pool of the shape: the content of its memory, or of its file.
[[nodiscard]] std::vector<std::byte> new_image(const crash_shape& shape, kind_of_medium kind);

[[nodiscard]] explore::subject subject_on(kind_of_medium kind, std::string name, scenario_steps steps,
                                          const crash_shape& shape = {});
// From the bytes that a crash has left.
[[nodiscard]] explore::subject subject_from(kind_of_medium kind, std::string name, scenario_steps steps,
                                            std::vector<std::byte> image);

// The models that fit a medium; ssd obliges by promises.
[[nodiscard]] explore::options options_for(explore::model m);
[[nodiscard]] inline kind_of_medium medium_of(explore::model m) {
  return m == explore::model::ssd ? kind_of_medium::image : kind_of_medium::direct;
}

// The image that a process leaves which does this to a new pool on direct media and loses nothing.
[[nodiscard]] std::vector<std::byte> image_after(const scenario_steps& steps);

// Images that crashes of `s` may leave and that `wanted` picks, at most `most`, before their recovery.
[[nodiscard]] std::vector<std::vector<std::byte>> crashed_images(
    const explore::subject& s, explore::options o, const explore::mutation& m, std::size_t most,
    const std::function<bool(const explore::machine&, const explore::window&)>& wanted);

}  // namespace nvm::tests
