#include "logheap/logheap.hpp"
#include "logheap/mapping/skip_list_mapping.hpp"
#include "logheap/rewrite.hpp"
#include "media/media.hpp"

namespace nvm::logheap {

template class heap<any_direct, skip_list_mapping>;

}  // namespace nvm::logheap
