#include "engine/media_stacks.hpp"
#include "engine/structures.hpp"

namespace nvm::engines {

template result<std::unique_ptr<structure_side>> make_structure_side(direct_media&, std::byte*, structure_pages&,
                                                                     const structure_side::told*,
                                                                     const structure_settings&) noexcept;

}  // namespace nvm::engines
