// Small files of pools with contents other than objects: lock-free structures of every kind, key-value stores of the
// plainer indexes, a type map.
#pragma once

#include "edits.hpp"

namespace nvm::fuzz {

// By medium, and by whether links are durable: as a crash left them, then closed.
[[nodiscard]] const std::vector<bytes>& structure_file_images();

// Checks the file, opens the pool, looks at everything in it, works with it, drops some, closes it and checks again;
// aborts the process where a promise is broken: a pool in which the check finds nothing can be worked with and stays
// so, and no walk is longer than the file.
// False: it was refused.
bool use_structures(const bytes& file);

}  // namespace nvm::fuzz
