// Hostile pool images: what must hold for whatever an image became that a crash has left and edits have changed.
#pragma once

#include "edits.hpp"

namespace nvm::fuzz {

// A pool on direct media (lanes) or on an image medium (log ring), in the states that a crash left.
[[nodiscard]] const std::vector<bytes>& direct_images();
[[nodiscard]] const std::vector<bytes>& ring_images();

// A log-structured heap, open and closed.
[[nodiscard]] const std::vector<bytes>& log_images();

// Opens, walks, checks and writes the image as nvm_pool_open() and its callers would.  Aborts the process where a
// promise is broken: a pool in which the full check finds nothing stays so under use.
// False: it was refused.
bool use_direct(const bytes& image);
bool use_ring(bytes image);
// The log-structured heap too: what recovery has found stays, whatever is done then and however often it is opened,
// unless somebody has forged blocks that no heap would have written.  `forged`: somebody may have.
bool use_log(const bytes& image, bool forged = true);

}  // namespace nvm::fuzz
