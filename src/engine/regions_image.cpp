#include "engine/regions.hpp"
#include "media/media.hpp"

namespace nvm::engines {

template result<std::unique_ptr<region_side>> make_region_side(any_image&, std::byte*, region_pages&,
                                                               region_wishes) noexcept;

}  // namespace nvm::engines
