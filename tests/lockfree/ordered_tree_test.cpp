// Search trees: what every structure owes.
#include "ordered.hpp"

namespace nvm::lockfree::testing {
namespace {

NVM_ORDERED_SUITE(tree_of_words, trees, words);
NVM_ORDERED_SUITE(tree_of_bytes, trees, bytes);

}  // namespace
}  // namespace nvm::lockfree::testing
