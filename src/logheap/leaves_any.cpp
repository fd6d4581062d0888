#include "logheap/logheap.hpp"
#include "logheap/mapping/leaf_mapping.hpp"
#include "logheap/rewrite.hpp"
#include "media/media.hpp"

namespace nvm::logheap {

template class heap<any_direct, leaf_mapping>;

}  // namespace nvm::logheap
