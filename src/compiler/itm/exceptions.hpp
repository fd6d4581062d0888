// C++ exceptions in compiled transactions: which of them a rolled-back level has to drop.
#pragma once

#include <cstddef>

#include "compiler/itm/transaction.hpp"

namespace nvm::itm {

// A level is rolled back: exceptions beyond the marks were never made, thrown or caught.
void drop_exceptions(thread_state& t, std::size_t exceptions_mark, std::size_t caught_mark) noexcept;
// The transaction has committed: its exceptions are ordinary ones from now on.
void keep_exceptions(thread_state& t) noexcept;

}  // namespace nvm::itm
