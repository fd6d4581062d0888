// Histories of calls on key-value stores, with every index on every engine: threads of one process, and of processes
// that are killed again and again.
#include "../sanitized.hpp"
#include "history_rig.hpp"
#include "kv_workload.hpp"

namespace nvm::tests {
namespace {

struct store_kind {
  engine_kind engine;
  enum nvm_kv_index index;
};
std::vector<store_kind> store_kinds() {
  std::vector<store_kind> all;
  for (const auto e : {engine_kind::undo, engine_kind::undo_write_back, engine_kind::redo, engine_kind::redo_by_mark,
                       engine_kind::log, engine_kind::ssd, engine_kind::ssd_log}) {
    for (const auto i : {NVM_KV_LIST, NVM_KV_HASH, NVM_KV_BTREE, NVM_KV_RBTREE}) all.push_back({e, i});
  }
  return all;
}
class store_histories : public testing::TestWithParam<store_kind> {
 protected:
  bool ssd() const { return is_ssd(GetParam().engine); }
  basic_history_rig<history_store> rig{GetParam().engine, GetParam().index};

  void expect_one_order() {
    const auto wrong = rig.check_calls();
    EXPECT_FALSE(wrong.has_value()) << *wrong;
  }
};
INSTANTIATE_TEST_SUITE_P(on, store_histories, testing::ValuesIn(store_kinds()), [](const auto& i) {
  return std::string{name_of(i.param.engine)} + "_" + nvm_kv_index_name(i.param.index);
});

TEST_P(store_histories, of_threads_are_linearizable) {
  rig.run(rounds_of_build(ssd() ? 100 : 3000));
  rig.look_at_everything();
  expect_one_order();
}

#if !defined(NVM_THREADS_ONLY)
TEST_P(store_histories, keep_what_was_acknowledged_through_kills) {
  std::mt19937_64 random{static_cast<std::uint64_t>(now())};
  constexpr unsigned kills = rounds_of_build(12U);
  for (unsigned k = 0; k < kills && !HasFailure(); ++k) {
    const auto after = std::chrono::microseconds{ssd() ? 2000 + random() % 30000 : 20 + random() % 4000};
    rig.run_and_kill(4000, after);
  }
  if (HasFailure()) return;
  rig.look_at_everything();
  expect_one_order();
  std::printf("%u kills, %zu calls, %zu cut off\n", kills, rig.calls(), rig.cut_off());
}
#endif

}  // namespace
}  // namespace nvm::tests
