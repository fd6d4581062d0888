// Files of pools that are repaired.
#pragma once

#include "edits.hpp"

namespace nvm::fuzz {

// All that there are (pool_files, structure_files).
[[nodiscard]] const std::vector<bytes>& damaged_file_images();

// Repairs a copy of the file; aborts the process where a promise is broken: the file itself stays as it is; a copy that
// is left passes the check, can be opened and has all objects that were intact; of a refusal nothing is left; in a file
// that passes the check nothing is lost.
// False: it was refused.
bool mend_file(const bytes& file);

}  // namespace nvm::fuzz
