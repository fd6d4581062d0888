// Key-value stores that a check finds damaged, made anew in their pool from their readable entries.
#pragma once

#include <string>

#include "care/notes.hpp"

namespace nvm::care {

// Mends the pool at `path`, which no process has open, and whose check finds damage only in stores and their directory,
// which is made anew first (mend_directory.hpp).  A store that is damaged gets another header and index with the
// entries that salvage reads; objects that only the damaged index led to are freed.  An entry that cannot be read is
// told as lost, by its key as far as that can be read.  A store whose index is unknown loses its name, and is told as
// lost.
//
// On an error the file may hold anything: it is a copy, which the caller gives up.  Cost: reads the whole pool; memory
// for all entries of the damaged stores.  May throw std::bad_alloc.
[[nodiscard]] status mend_stores(const std::string& path, const told_notes& tell);

}  // namespace nvm::care
