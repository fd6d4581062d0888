// Search trees: the guarantees of every structure.
#include "ordered.hpp"

namespace nvm::lockfree::testing {
namespace {

NVM_ORDERED_SUITE(tree_of_words, trees, words);
NVM_ORDERED_SUITE(tree_of_bytes, trees, bytes);

// Somebody has deleted it and gets no further.
TEST(tree, counts_no_deleted_leaf) {
  subject<trees, words> s{variants[0]};
  {
    subject<trees, words>::worker w{s};
    EXPECT_EQ(w.write(7, 7, write_rule::insert_only), written::inserted);
    auto& top = reinterpret_cast<tree_root*>(s.pool.base() + s.root)->top;
    EXPECT_TRUE(s.it->memory().may_unlink(w.in(), offset_of(top.load())));
    top.set(top.load() | gone);
  }
  (void)s.crash();
  EXPECT_EQ(s.it->count_keys(), 0U);
  subject<trees, words>::worker w{s};
  EXPECT_EQ(w.look_up(7), std::nullopt);
}
}  // namespace
}  // namespace nvm::lockfree::testing
