// Small files of pools with sets of regions: in slots of several sizes and in pages, written and not.
#pragma once

#include "edits.hpp"

namespace nvm::fuzz {

// By medium and engine: as a crash left them, then closed.
[[nodiscard]] const std::vector<bytes>& region_file_images();

// Checks the file, opens the pool, reads all regions, changes, makes and drops some, closes it and checks again; aborts
// the process where a promise is broken: a pool in which the check finds nothing can be worked with and stays so.
// False: it was refused.
bool use_regions(const bytes& file);
// Repairs a copy (mended_files.hpp), which then has regions of known numbers alone, and can be worked with.
bool mend_regions(const bytes& file);

}  // namespace nvm::fuzz
