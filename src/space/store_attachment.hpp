// One attachment of an object store: what a call is told that works in it and may come too late.
#pragma once

#include <cstdint>

namespace nvm {

class open_store;  // space/open_store.hpp

struct store_attachment {
  open_store* store = nullptr;  // another store's, maybe, once this attachment has ended
  std::uint64_t number = 0;     // open_store::attachment()
};

}  // namespace nvm
