#include "engine/structures.hpp"
#include "media/media.hpp"

namespace nvm::engines {

template result<std::unique_ptr<structure_side>> make_structure_side(any_image&, std::byte*, structure_pages&,
                                                                     const structure_side::told*,
                                                                     const structure_settings&) noexcept;

}  // namespace nvm::engines
