// On an image medium a change is durable when the log is: a thread that has read it knows how far. Also for reads of an
// unfinished insertion whose link another thread has made durable for its own key.
#include <functional>

#include "ground.hpp"

namespace nvm::lockfree::testing {
namespace {

// Captures are numbered; something may be done in the middle of one.
struct numbering_medium : ordered_media {
  static constexpr bool atomic_batches = true;
  void flush(const void* p, std::size_t bytes, site = site::here()) noexcept {
    ++captured;
    if (!on_link || bytes != sizeof(link)) return;
    const link_word w = static_cast<const link*>(p)->load();
    if ((w & pending) == 0) return;
    const auto what = std::exchange(on_link, {});
    what();
  }
  [[nodiscard]] lsn_t last_lsn() noexcept { return captured; }

  lsn_t captured = 0;
  std::function<void()> on_link;  // a link with a mark was captured; once
};
static_assert(media<numbering_medium>);

template <template <class> class Shape>
void expect_reader_knows() {
  using pool_type = ground<numbering_medium>;
  using subject = durable<numbering_medium, Shape>;
  pool_type pool{pool_geometry(64, 4096), domain_settings{}};
  const auto made = [&] {
    if constexpr (std::is_same_v<Shape<node_memory<numbering_medium>>,
                                 word_hash_table<node_memory<numbering_medium>>>) {
      return make_hash(pool, "subject", 1);
    } else {
      return pool.names().create(
          "subject", layout::kind::list, 0, 0, [&](std::uint16_t owner) -> result<std::uint64_t> {
            using shape_type = typename subject::shape_type;
            auto run = pool.places().take_run(0, nvm::layout::slot_protocol::epoch, owner, shape_type::root_bytes);
            if (run) shape_type::make_root(pool.base() + *run);
            return run;
          });
    }
  }();
  ASSERT_TRUE(made) << last_message();
  subject it{pool.shared(), *made, true};
  typename subject::session inserter{pool.join()}, neighbour{pool.join()}, reader{pool.join()};
  const auto put = [&](auto& s, std::uint64_t key) {
    ASSERT_TRUE(it->write(s, key, key, write_rule::insert_only)) << last_message();
  };
  // Some of them are neighbours, also in a hash table.
  for (std::uint64_t key = 100; key < 400; key += 10) put(inserter, key);
  unsigned met = 0;
  for (std::uint64_t key = 103; key < 400; key += 10) {
    lsn_t link_captured = 0;
    pool.medium().on_link = [&] {
      link_captured = pool.medium().captured;
      for (std::uint64_t beside = key - 2; beside <= key + 2; ++beside) {
        if (beside != key) put(neighbour, beside);
      }
      if (!it->look_up(reader, key, [](const node_head*) {})) return;
      ++met;
      EXPECT_GE(reader.lsn(), link_captured) << "of key " << key;
    };
    put(inserter, key);
    // By the next round the reader knows no more than it has to.
    reader.thread().client.lsn = 0;
  }
  EXPECT_GT(met, 20U);
}

TEST(dependence, of_a_reader_includes_an_insertion_in_a_list_that_its_neighbour_has_settled) {
  expect_reader_knows<word_list>();
}
TEST(dependence, of_a_reader_includes_an_insertion_in_a_hash_table_that_its_neighbour_has_settled) {
  expect_reader_knows<word_hash_table>();
}
TEST(dependence, of_a_reader_includes_an_insertion_in_a_skip_list_that_its_neighbour_has_settled) {
  expect_reader_knows<word_skip_list>();
}
TEST(dependence, of_a_reader_includes_an_insertion_in_a_tree_that_its_neighbour_has_settled) {
  expect_reader_knows<word_tree>();
}

}  // namespace
}  // namespace nvm::lockfree::testing
