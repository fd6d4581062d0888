// The checker of transactions over several keys: each anomaly as the smallest history that has it.
#include "explore/list_history.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nvm::explore {
namespace {

using numbers = std::vector<std::uint64_t>;

list_access append(std::uint64_t key, std::uint64_t element) { return {key, true, element, {}}; }
list_access read(std::uint64_t key, numbers list) { return {key, false, 0, std::move(list)}; }

// All at the same time, unless said otherwise.
list_transaction did(std::uint64_t number, std::vector<list_access> accesses, std::uint64_t begun = 0,
                     std::uint64_t ended = 100) {
  return {number, fate::committed, begun, ended, std::move(accesses)};
}
list_transaction with(fate f, list_transaction t) {
  t.fate = f;
  return t;
}

std::string found(const std::vector<list_transaction>& history) { return check_list_history(history).value_or(""); }
bool finds(const std::vector<list_transaction>& history, const std::string& words) {
  const std::string text = found(history);
  EXPECT_NE(text.find(words), std::string::npos) << "expected '" << words << "', found '" << text << "'";
  return !text.empty();
}

TEST(list_history, lets_serializable_ones_pass) {
  EXPECT_EQ(found({}), "");
  EXPECT_EQ(found({did(1, {append(1, 10), append(2, 11)}), did(2, {read(1, {10}), append(1, 20), read(1, {10, 20})}),
                   did(3, {read(1, {10, 20}), read(2, {11})}), did(4, {read(1, {}), read(2, {})})}),
            "");
  // Each misses the other's append, of different keys: one after the other in real time, too.
  EXPECT_EQ(found({did(1, {read(1, {}), append(2, 10)}, 0, 1), did(2, {read(2, {10}), append(1, 20)}, 2, 3)}), "");
}

TEST(list_history, finds_what_was_rolled_back_and_seen) {
  EXPECT_TRUE(finds({with(fate::rolled_back, did(1, {append(1, 10)})), did(2, {read(1, {10})})}, "G1a"));
  EXPECT_EQ(found({with(fate::rolled_back, did(1, {append(1, 10)})), did(2, {read(1, {})})}), "");
}

TEST(list_history, finds_what_nobody_wrote_or_is_there_twice) {
  EXPECT_TRUE(finds({did(1, {read(1, {10})})}, "never appended"));
  EXPECT_TRUE(finds({did(1, {append(2, 10)}), did(2, {read(1, {10})})}, "never appended"));
  EXPECT_TRUE(finds({did(1, {append(1, 10)}), did(2, {read(1, {10, 10})})}, "twice"));
}

TEST(list_history, finds_lists_that_disagree) {
  EXPECT_TRUE(
      finds({did(1, {append(1, 10)}), did(2, {append(1, 20)}), did(3, {read(1, {10, 20})}), did(4, {read(1, {20})})},
            "neither is the beginning"));
}

TEST(list_history, finds_what_was_seen_half) {
  // Between two appends of one transaction (G1b), and of two keys only one.
  EXPECT_TRUE(finds({did(1, {append(1, 10), append(1, 11)}), did(2, {read(1, {10})}), did(3, {read(1, {10, 11})})},
                    "G-single"));
  EXPECT_TRUE(
      finds({did(1, {append(1, 10), append(2, 11)}), did(2, {read(1, {10}), read(2, {})}), did(3, {read(2, {11})})},
            "G-single"));
}

TEST(list_history, finds_lost_updates_and_write_skew) {
  EXPECT_TRUE(
      finds({did(1, {read(1, {}), append(1, 10)}), did(2, {read(1, {}), append(1, 20)}), did(3, {read(1, {10, 20})})},
            "G-single"));
  EXPECT_TRUE(finds({did(1, {read(1, {}), append(2, 10)}), did(2, {read(2, {}), append(1, 20)}),
                     did(3, {read(1, {20})}), did(4, {read(2, {10})})},
                    "G2"));
}

TEST(list_history, finds_orders_that_contradict_each_other) {
  EXPECT_TRUE(finds({did(1, {append(1, 10), append(2, 11)}), did(2, {append(1, 20), append(2, 21)}),
                     did(3, {read(1, {10, 20})}), did(4, {read(2, {21, 11})})},
                    "G0"));
  EXPECT_TRUE(finds({did(1, {append(1, 10), read(2, {21})}), did(2, {append(2, 21), read(1, {10})})}, "G1c"));
}

TEST(list_history, finds_reads_of_the_past) {
  EXPECT_TRUE(
      finds({did(1, {append(1, 10)}, 0, 1), did(2, {read(1, {})}, 2, 3), did(3, {read(1, {10})}, 4, 5)}, "real time"));
  EXPECT_EQ(found({did(1, {append(1, 10)}, 0, 3), did(2, {read(1, {})}, 2, 4), did(3, {read(1, {10})}, 5, 6)}), "");
}

TEST(list_history, wants_what_was_acknowledged_before_a_crash) {
  // Nobody has ever seen element 10, and who looked later would have.
  EXPECT_TRUE(finds({did(1, {append(1, 10)}, 0, 1), did(2, {read(1, {})}, 11, 12)}, "real time"));
  EXPECT_TRUE(finds({did(1, {append(1, 10)}, 0, 1), did(2, {append(1, 20)}, 2, 3), did(3, {read(1, {10})}, 11, 12)},
                    "real time"));
}

TEST(list_history, takes_what_a_crash_cut_off_whole_or_not_at_all) {
  const list_transaction cut = with(fate::cut_off, did(1, {append(1, 10), append(2, 11)}, 0, 10));
  EXPECT_EQ(found({cut, did(2, {read(1, {}), read(2, {})}, 11, 12)}), "");
  EXPECT_EQ(found({cut, did(2, {read(1, {10}), read(2, {11})}, 11, 12)}), "");
  EXPECT_TRUE(finds({cut, did(2, {read(1, {10}), read(2, {})}, 11, 12)}, "cycle"));
  // It does not come back later.
  EXPECT_TRUE(finds({cut, did(2, {read(1, {})}, 11, 12), did(3, {read(1, {10})}, 13, 14)}, "real time"));
}

}  // namespace
}  // namespace nvm::explore
