// Lists and hash tables with keys and values of any size.
#include "ordered.hpp"

namespace nvm::lockfree::testing {
namespace {

NVM_ORDERED_SUITE(list_of_bytes, lists, bytes);
NVM_ORDERED_SUITE(hash_table_of_bytes, hash_tables, bytes);
NVM_ORDERED_SUITE(list_of_words, lists, words);
NVM_ORDERED_SUITE(hash_table_of_words, hash_tables, words);

}  // namespace
}  // namespace nvm::lockfree::testing
