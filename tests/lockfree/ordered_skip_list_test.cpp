// Skip lists: the guarantees of every structure, and those of their levels.
#include "ordered.hpp"

namespace nvm::lockfree::testing {
namespace {

NVM_ORDERED_SUITE(skip_list_of_words, skip_lists, words);
NVM_ORDERED_SUITE(skip_list_of_bytes, skip_lists, bytes);

// Somebody has deleted it and gets no further.
TEST(skip_list, counts_no_deleted_node) {
  subject<skip_lists, words> s{variants[0]};
  {
    subject<skip_lists, words>::worker w{s};
    for (std::uint64_t k = 0; k < 10; ++k) EXPECT_EQ(w.write(k, k, write_rule::insert_only), written::inserted);
    auto& first = reinterpret_cast<skip_root*>(s.pool.base() + s.root)->first;
    // Of the nodes that are in the bottom only: their heads say where they begin.
    link_word at = first.load();
    while (offset_of(at) % 64 != 8) at = reinterpret_cast<node_head*>(s.pool.base() + offset_of(at))->next.load();
    EXPECT_TRUE(s.it->memory().may_unlink(w.in(), offset_of(at) - 8));
    auto& own = reinterpret_cast<node_head*>(s.pool.base() + offset_of(at))->next;
    own.set(own.load() | gone);
  }
  (void)s.crash();
  EXPECT_EQ(s.it->count_keys(), 9U);
  subject<skip_lists, words>::worker w{s};
  EXPECT_EQ(w.all().size(), 9U);
}
// A crash between the unlinking of a node at the bottom and that above: what is still linked above is freed by
// recovery, and nothing leads there any more.
TEST(skip_list, forgets_nodes_that_a_crash_has_left_above) {
  using tested = subject<skip_lists, words>;
  for (const recovery_method method : {recovery_method::search, recovery_method::traversal}) {
    tested s{variants[0]};
    {
      tested::worker w{s};
      for (std::uint64_t key = 0; key < 200; ++key) {
        ASSERT_EQ(w.write(key, key, write_rule::insert_only), written::inserted);
      }
    }
    std::byte* const base = s.pool.base();
    auto& root = *reinterpret_cast<skip_root*>(base + s.root);
    // All that is in level 1: neighbours, too.
    std::set<std::uint64_t> dead;
    for (link_word w = (&root.first - 1)->load(); w != 0;) {
      dead.insert(offset_of(w));
      link* n = reinterpret_cast<link*>(base + offset_of(w));
      w = (n - 1)->load();
    }
    ASSERT_GT(dead.size(), 10U);
    std::size_t alive = 200 - dead.size();
    link* before = &root.first;
    for (link_word w = before->load(); w != 0;) {
      link* n = reinterpret_cast<link*>(base + offset_of(w));
      const link_word next = n->load();
      if (dead.contains(offset_of(w))) {
        before->set(next);
        const auto height = (offset_of(w) % 64) / 8;
        ASSERT_NE(height, 0U);
        for (unsigned i = 0; i < height; ++i) (n - i)->set((n - i)->load() | gone);
      } else {
        before = n;
      }
      w = next;
    }
    EXPECT_GE(s.crash(method).freed, dead.size());
    for (const link& l : root.upper) EXPECT_EQ(l.load(), 0U);
    tested::worker w{s};
    EXPECT_EQ(w.all().size(), alive);
  }
}

}  // namespace
}  // namespace nvm::lockfree::testing
