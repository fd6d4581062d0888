#define NVM_INLINES_LITTLE 1
#include "api/media_stacks.hpp"
#include "api/structures.hpp"

namespace nvm::api {

template result<std::unique_ptr<structure_side>> make_structure_side(measured_direct_stack::meter_type&, std::byte*,
                                                                     structure_pages&) noexcept;

}  // namespace nvm::api
