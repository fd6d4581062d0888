#include "logheap/logheap.hpp"
#include "logheap/rewrite.hpp"
#include "media/media.hpp"
#include "plain_mapping.hpp"

namespace nvm::logheap {

template class heap<any_direct, testing::plain_mapping>;

}  // namespace nvm::logheap
