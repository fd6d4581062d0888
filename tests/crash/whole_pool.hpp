// A pool of the C interface on the machine's image: barrier transactions, key-value stores and regions as programs use
// them, crashed.
//
// Only what opens files is left out: recovery, engine, transactions and stores are those of the library.
#pragma once

#include <memory>

#include "engine/region_side.hpp"
#include "ground.hpp"
#include "nvm/nvm.h"

namespace nvm::tests {

// Where such a pool lies: inside the window, because barrier transactions ask whether an address is durable.
[[nodiscard]] void* place_of_whole_pools() noexcept;

// How pools on such a medium get their regions; null: they have none, and a test that needs none links none.
template <media Any>
using region_maker = result<std::unique_ptr<engines::region_side>> (*)(Any&, std::byte*, region_pages&,
                                                                       engines::region_wishes) noexcept;
template <media Any>
inline region_maker<Any> make_regions = nullptr;

class whole_pool {
 public:
  virtual ~whole_pool() = default;
  [[nodiscard]] virtual NVM_POOL* handle() noexcept = 0;
  [[nodiscard]] virtual std::byte* base() noexcept = 0;
  // Brings the log home; nothing for undo on direct media.
  virtual status checkpoint() = 0;
  // Everything at rest and home; the pool is of no use afterwards.  Without it the pool ends as a crash would end it
  // that lost nothing.
  virtual status close() = 0;
  [[nodiscard]] virtual std::uint64_t grown_bytes() const noexcept = 0;
  // ssd: times that an append found the ring full.
  [[nodiscard]] virtual std::uint64_t stalls() const noexcept = 0;
};

// nullptr with last_message().  `kind` is plain(): what the engine below is.
[[nodiscard]] std::unique_ptr<whole_pool> open_whole(explore::machine& m, kind_of_medium kind);

}  // namespace nvm::tests
