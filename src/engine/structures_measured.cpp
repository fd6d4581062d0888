#define NVM_INLINES_LITTLE 1
#include "engine/media_stacks.hpp"
#include "engine/structures.hpp"

namespace nvm::engines {

template result<std::unique_ptr<structure_side>> make_structure_side(measured_direct_stack::medium_type&, std::byte*,
                                                                     structure_pages&) noexcept;

}  // namespace nvm::engines
