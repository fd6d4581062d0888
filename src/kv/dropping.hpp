// Entries of a store that is being dropped: nobody looks anything up in it any more.
#pragma once

#include "kv/operations.hpp"

namespace nvm::keyed {

// Frees some entries, and what of the index leads to nothing then.  What is left can be freed by further calls, in this
// process or a later one; it is walked, and counted right, but not fit for look-ups: nodes of a tree may have few
// children or none, and lead to no neighbour.  `from` begins as nothing and moves on; `ended`: none is left.
[[nodiscard]] status free_some(operation& op, fetch_from& from, unsigned& freed, bool& ended);

}  // namespace nvm::keyed
