#include "api/media_stacks.hpp"
#include "api/structures.hpp"

namespace nvm::api {

template result<std::unique_ptr<structure_side>> make_structure_side(direct_media&, std::byte*,
                                                                     structure_pages&) noexcept;

}  // namespace nvm::api
