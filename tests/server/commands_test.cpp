// What commands do and answer, against the volatile store: memcached's semantics, one guarantee a test.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conversation.hpp"

namespace nvm::server {
namespace {

std::string value_of(std::string_view key, std::string_view value, unsigned flags = 0) {
  return "VALUE " + std::string{key} + " " + std::to_string(flags) + " " + std::to_string(value.size()) + "\r\n" +
         std::string{value} + "\r\nEND\r\n";
}

std::uint64_t stat(conversation& say, const std::string& name, const std::string& report = "stats") {
  const std::string all = say(report + "\r\n");
  const std::size_t at = all.find("STAT " + name + " ");
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << name << " in " << report;
    return ~std::uint64_t{0};
  }
  return std::stoull(all.substr(at + name.size() + 6));
}

TEST(storage, answers_each_mode) {
  conversation say;
  EXPECT_EQ(say("get a\r\n"), "END\r\n");
  EXPECT_EQ(say("replace a 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
  EXPECT_EQ(say("append a 0 0 1\r\nx\r\n"), "NOT_STORED\r\n");
  EXPECT_EQ(say("add a 5 0 1\r\nx\r\n"), "STORED\r\n");
  EXPECT_EQ(say("add a 0 0 1\r\ny\r\n"), "NOT_STORED\r\n");
  EXPECT_EQ(say("get a\r\n"), value_of("a", "x", 5));
  EXPECT_EQ(say("append a 9 0 2\r\n12\r\n"), "STORED\r\n");
  EXPECT_EQ(say("prepend a 9 0 2\r\n00\r\n"), "STORED\r\n");
  EXPECT_EQ(say("get a\r\n"), value_of("a", "00x12", 5)) << "joining keeps the flags";
  EXPECT_EQ(say("replace a 1 0 3\r\nnew\r\n"), "STORED\r\n");
  EXPECT_EQ(say("get a\r\n"), value_of("a", "new", 1));
  EXPECT_EQ(say("delete a\r\ndelete a\r\n"), "DELETED\r\nNOT_FOUND\r\n");
}

TEST(storage, says_nothing_with_noreply) {
  conversation say;
  EXPECT_EQ(say("set a 0 0 1 noreply\r\nx\r\nadd a 0 0 1 noreply\r\ny\r\nincr a 1 noreply\r\ntouch a 0 noreply\r\n"
                "delete b noreply\r\nverbosity 0 noreply\r\nmn\r\n"),
            "MN\r\n");
  EXPECT_EQ(say("get a\r\n"), value_of("a", "x"));
  EXPECT_EQ(say("flush_all noreply\r\nget a\r\n"), "END\r\n");
}

TEST(storage, takes_a_broken_value_for_commands_as_memcached_does) {
  conversation say;
  EXPECT_EQ(say("set a 0 0 4\r\ninsert\r\n"), "CLIENT_ERROR bad data chunk\r\nERROR\r\n");
  EXPECT_EQ(say("get a\r\n"), "END\r\n");
}

TEST(storage, keeps_no_old_value_when_the_new_one_is_too_large) {
  settings s = conversation::debugging();
  s.item_bytes_max = 2048;
  conversation say{s};
  const std::string big(3000, 'b');
  EXPECT_EQ(say("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
  EXPECT_EQ(say("set a 0 0 3000\r\n" + big + "\r\nget a\r\n"), "SERVER_ERROR object too large for cache\r\nEND\r\n");
  EXPECT_EQ(stat(say, "store_too_large"), 1U);
  EXPECT_EQ(say("set a 0 0 1500\r\n" + std::string(1500, 'c') + "\r\n"), "STORED\r\n");
  EXPECT_EQ(say("append a 0 0 1500\r\n" + std::string(1500, 'c') + "\r\n"), "NOT_STORED\r\n");
}

// New items are marked as used, so all are when the limit is met for the first time; fetched ones are so twice.
TEST(storage, evicts_where_the_limit_is_met_for_the_first_time) {
  for (const bool fetched : {false, true}) {
    settings s = conversation::debugging();
    s.memory_bytes = std::uint64_t{4} << 20;
    conversation say{s};
    const std::string value(400, 'v');
    for (int i = 0; i < 20'000; ++i) {
      const std::string key = "key" + std::to_string(i);
      ASSERT_EQ(say("set " + key + " 0 0 400\r\n" + value + "\r\n"), "STORED\r\n") << i;
      if (fetched) {
        ASSERT_EQ(say("get " + key + "\r\n"), value_of(key, value));
      }
    }
    EXPECT_GT(stat(say, "evictions"), 10'000U);
    EXPECT_LE(stat(say, "memory_bytes", "stats holdfast"), s.memory_bytes);
    EXPECT_GT(stat(say, "memory_bytes", "stats holdfast"), s.memory_bytes / 2);
  }
}

TEST(numbers, beyond_their_type_are_cut_as_memcached_cuts_them) {
  conversation say;
  EXPECT_EQ(say("debugtime p\r\n"), "OK\r\n");  // what is left of a time to live does not fall
  EXPECT_EQ(say("set a 4294967301 0 1\r\nx\r\nget a\r\n"), "STORED\r\n" + value_of("a", "x", 5));
  EXPECT_EQ(say("set a 18446744073709551615 0 1 noreply\r\ny\r\nget a\r\n"), value_of("a", "y", 4294967295U));
  EXPECT_EQ(say("set a -0 4294967296 4294967297\r\nz\r\nmg a t v\r\n"), "STORED\r\nVA 1 t-1\r\nz\r\n");
  EXPECT_EQ(say("ms a 1 F4294967296\r\n5\r\nmg a f\r\nincr a -0\r\n"), "HD\r\nHD f0\r\n5\r\n");
  EXPECT_EQ(say("set a 0 0 3\r\n 13\r\nincr a 1\r\nget a\r\n"), "STORED\r\n14\r\n" + value_of("a", "14 "));
  EXPECT_EQ(say(std::string{"set a 0 0 4\r\n13\0x\r\nincr a 1\r\n", 29}), "STORED\r\n14\r\n");
  EXPECT_EQ(say("touch a 18446744073709551616\r\n"), "CLIENT_ERROR invalid exptime argument\r\n");
  const std::string gone = say("mg a T-1 t\r\n");
  EXPECT_TRUE(gone.starts_with("HD t42949672")) << gone;
}

TEST(refusals, come_after_the_value_that_they_throw_away) {
  conversation say;
  EXPECT_EQ(say("set a 0 0 2000000\r\n" + std::string(1'000'000, 'v')), "");
  EXPECT_EQ(say(std::string(1'000'000, 'v') + "\r\nmn\r\n"), "SERVER_ERROR object too large for cache\r\nMN\r\n");
  EXPECT_EQ(say("ms a 2 M!\r\n"), "");
  EXPECT_EQ(say("xx\r\n"), "CLIENT_ERROR invalid mode for ms M token\r\n");
  EXPECT_EQ(say("set a 0 0 2000000 noreply\r\n" + std::string(2'000'000, 'v') + "\r\nmn\r\n"), "MN\r\n");
}

TEST(refusals, name_the_error_that_memcached_names) {
  conversation say;
  const std::string opaque = " O" + std::string(32, 'o');
  EXPECT_EQ(say("ms a 1 Mx" + opaque + "\r\nx\r\n"), "CLIENT_ERROR invalid mode for ms M token\r\n");
  EXPECT_EQ(say("ma a Mx" + opaque + "\r\n"), "CLIENT_ERROR invalid mode for ma M token\r\n");
  EXPECT_EQ(say("mg a Tx Fx\r\n"), "CLIENT_ERROR bad token in command line format\r\n");
  EXPECT_EQ(say("mg a Fx Mxx\r\n"), "CLIENT_ERROR incorrect length for M token\r\n");
  EXPECT_EQ(say("mg a Tx ~\r\n"), "CLIENT_ERROR invalid flag\r\n");
  EXPECT_EQ(say("lru mode flat\r\nlru mode x\r\nlru temp_ttl 5\r\n"), "OK\r\nERROR\r\nOK\r\n");
  EXPECT_EQ(say("lru_crawler disable\r\nlru_crawler crawl all\r\nlru_crawler enable\r\n"),
            "OK\r\nCLIENT_ERROR lru crawler disabled\r\nOK\r\n");
  EXPECT_EQ(say("set " + std::string(17'000, 'k') + " 0 0 1\r\n"), "");
  EXPECT_TRUE(say.ended);
}

TEST(cas, stores_only_over_what_the_client_has_seen) {
  conversation say;
  EXPECT_EQ(say("cas a 0 0 1 1\r\nx\r\n"), "NOT_FOUND\r\n");
  EXPECT_EQ(say("set a 0 0 1\r\nx\r\n"), "STORED\r\n");
  const std::string got = say("gets a\r\n");
  const std::string id = got.substr(12, got.find('\r') - 12);
  EXPECT_EQ(say("cas a 0 0 1 " + id + "9\r\ny\r\n"), "EXISTS\r\n");
  EXPECT_EQ(say("cas a 0 0 1 " + id + "\r\ny\r\n"), "STORED\r\n");
  EXPECT_EQ(say("cas a 0 0 1 " + id + "\r\nz\r\n"), "EXISTS\r\n");
  EXPECT_EQ(say("get a\r\n"), value_of("a", "y"));
  EXPECT_EQ(stat(say, "cas_hits"), 1U);
  EXPECT_EQ(stat(say, "cas_badval"), 2U);
  EXPECT_EQ(stat(say, "cas_misses"), 1U);
}

TEST(arithmetic, counts_as_memcached_does) {
  conversation say;
  EXPECT_EQ(say("incr n 1\r\n"), "NOT_FOUND\r\n");
  EXPECT_EQ(say("set n 3 0 2\r\n10\r\nincr n 5\r\ndecr n 6\r\n"), "STORED\r\n15\r\n9\r\n");
  EXPECT_EQ(say("get n\r\n"), value_of("n", "9 ", 3)) << "a shorter number keeps its place";
  EXPECT_EQ(say("incr n 1\r\ndecr n 100\r\n"), "10\r\n0\r\n");
  EXPECT_EQ(say("set n 0 0 20\r\n18446744073709551615\r\nincr n 1\r\n"), "STORED\r\n0\r\n");
  EXPECT_EQ(say("set t 0 0 4\r\ntext\r\nincr t 1\r\n"),
            "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
  EXPECT_EQ(say("set t 0 0 0\r\n\r\nincr t 1\r\n"),
            "STORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
}

TEST(expiry, ends_an_item_at_its_second) {
  conversation say;
  EXPECT_EQ(say("debugtime p\r\nset a 0 3 1\r\nx\r\n"), "OK\r\nSTORED\r\n");
  EXPECT_EQ(say("debugtime 2\r\nget a\r\n"), "OK\r\n" + value_of("a", "x"));
  EXPECT_EQ(say("debugtime 1\r\nget a\r\n"), "OK\r\nEND\r\n");
  EXPECT_EQ(say("add a 0 0 1\r\ny\r\nget a\r\n"), "STORED\r\n" + value_of("a", "y"));
  EXPECT_EQ(say("set a 0 -1 1\r\nx\r\nget a\r\n"), "STORED\r\nEND\r\n");
  EXPECT_EQ(say("set a 0 2592001 1\r\nx\r\nget a\r\n"), "STORED\r\nEND\r\n")
      << "more than 30 days is a date, long past";
  EXPECT_EQ(stat(say, "get_expired"), 3U);
  EXPECT_EQ(stat(say, "reclaimed"), 2U);
}

TEST(expiry, moves_with_touch_and_gat) {
  conversation say;
  EXPECT_EQ(say("debugtime p\r\ntouch a 1\r\n"), "OK\r\nNOT_FOUND\r\n");
  EXPECT_EQ(say("set a 0 1 1\r\nx\r\ntouch a 100\r\n"), "STORED\r\nTOUCHED\r\n");
  EXPECT_EQ(say("debugtime 50\r\ngat 0 a b\r\n"), "OK\r\n" + value_of("a", "x"));
  EXPECT_EQ(say("debugtime 1000\r\nget a\r\n"), "OK\r\n" + value_of("a", "x"));
  EXPECT_EQ(say("gat -1 a\r\nget a\r\n"), value_of("a", "x") + "END\r\n");
  EXPECT_EQ(stat(say, "touch_hits"), 3U);
  EXPECT_EQ(stat(say, "touch_misses"), 2U);
}

// A session that another client forestalls, by a change of the same wish that may not be durable yet.
class forestalled final : public item_session {
 public:
  explicit forestalled(item_session& inner) noexcept : inner_{inner} {}
  bool enter() noexcept override { return inner_.enter(); }
  void leave() noexcept override { inner_.leave(); }
  look find(std::string_view key, item& found) noexcept override { return inner_.find(key, found); }
  update_result update(std::string_view key, decision& by) noexcept override { return inner_.update(key, by); }
  bool change_state(const item& of, item_state& expected, item_state wanted, bool durable) noexcept override {
    if (std::exchange(is_next, false)) {
      item_state seen = expected;
      EXPECT_TRUE(inner_.change_state(of, seen, wanted, false));
    }
    const bool changed = inner_.change_state(of, expected, wanted, durable);
    made_durable = made_durable || (changed && durable);
    return changed;
  }
  [[nodiscard]] position reached() const noexcept override { return inner_.reached(); }

  bool is_next = false;
  bool made_durable = false;

 private:
  item_session& inner_;
};

TEST(expiry, is_durable_before_it_is_acknowledged_whoever_has_set_it) {
  conversation say{conversation::debugging(), 1'000'000'000};
  forestalled session{say.session()};
  environment& shared = say.shared();
  executor other{shared, shared.stats.add_worker(), session};
  const auto expect_durable = [&](std::string_view text, std::string_view begin) {
    command c;
    reply_buffer out;
    session.made_durable = false;
    EXPECT_TRUE(session.enter());
    other.look_at_clock();
    ASSERT_EQ(parse(text, {}, c).what, parsed::answer::command);
    other.execute(c, out);
    out.settle();
    const std::string answer{out.room(0) - out.pending(), out.pending()};
    session.leave();
    EXPECT_TRUE(answer.starts_with(begin)) << text << answer;
    EXPECT_TRUE(session.made_durable) << text;
  };
  for (const bool forestalls : {true, false}) {
    // The second time it finds the expiry that it shall set.
    for (const auto& [text, begin] : {std::pair{"touch a 100\r\n", "TOUCHED"}, std::pair{"gat 200 a\r\n", "VALUE"},
                                      std::pair{"mg a T300\r\n", "HD"}}) {
      ASSERT_EQ(say(forestalls ? "set a 0 0 1\r\nx\r\n" : "mn\r\n"), forestalls ? "STORED\r\n" : "MN\r\n");
      if (!forestalls) expect_durable(text, begin);
      session.is_next = forestalls;
      expect_durable(text, begin);
    }
  }
  // Who is not asked to renew an item says that another client is.
  ASSERT_EQ(say("set a 0 50 1\r\nx\r\n"), "STORED\r\n");
  session.is_next = true;
  expect_durable("mg a R100\r\n", "HD Z");
}

TEST(flush_all, ends_what_was_stored_before_it_and_nothing_else) {
  conversation say;
  EXPECT_EQ(say("debugtime p\r\nset a 0 0 1\r\nx\r\nflush_all\r\nget a\r\nset a 0 0 1\r\ny\r\nget a\r\n"),
            "OK\r\nSTORED\r\nOK\r\nEND\r\nSTORED\r\n" + value_of("a", "y"));
  EXPECT_EQ(say("flush_all 5\r\nset b 0 0 1\r\nz\r\nget b\r\n"), "OK\r\nSTORED\r\n" + value_of("b", "z"));
  EXPECT_EQ(say("debugtime 5\r\n"), "OK\r\n");
  EXPECT_EQ(say("get a b\r\nadd b 0 0 1\r\nn\r\nget b\r\n"), "END\r\nSTORED\r\n" + value_of("b", "n"));
}

// As workers do at the beginning of a round.
TEST(flush_all, that_was_put_off_spares_what_is_stored_after_it) {
  conversation first;
  constexpr std::uint32_t begin = 1'000'000'000;
  constexpr int threads = 4;
  for (std::uint32_t round = 1; round <= 50; ++round) {
    ASSERT_TRUE(first.store()->flush_all(begin + round, begin));
    std::barrier together{threads};
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, key = "k" + std::to_string(t)] {
        conversation say{conversation::debugging(), first.store(), begin + round};
        together.arrive_and_wait();
        EXPECT_EQ(say("set " + key + " 0 0 1\r\nx\r\n"), "STORED\r\n");
      });
    }
    for (std::thread& w : workers) w.join();
    conversation say{conversation::debugging(), first.store(), begin + round};
    for (int t = 0; t < threads; ++t) {
      const std::string key = "k" + std::to_string(t);
      ASSERT_EQ(say("get " + key + "\r\n"), value_of(key, "x")) << "in round " << round;
    }
  }
}

TEST(flush_all, can_be_disabled) {
  settings s = conversation::debugging();
  s.flush_command = false;
  conversation say{s};
  EXPECT_EQ(say("flush_all\r\n"), "CLIENT_ERROR flush_all not allowed\r\n");
}

TEST(memory, is_made_by_evicting_what_nobody_uses) {
  settings s = conversation::debugging();
  s.memory_bytes = 4U << 20;
  conversation say{s};
  const std::string value(10'000, 'v');
  constexpr int popular = 40;  // a tenth of what has room, so that any order of the items meets some of them early
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(say("set k" + std::to_string(i) + " 0 0 10000\r\n" + value + "\r\n"), "STORED\r\n");
    for (int k = 0; k < std::min(i, popular); ++k) say("get k" + std::to_string(k) + "\r\n");
  }
  EXPECT_GT(stat(say, "evictions"), 500U);
  EXPECT_LE(stat(say, "bytes"), 4U << 20);
  for (int k = 0; k < popular; ++k) {
    const std::string key = "k" + std::to_string(k);
    EXPECT_TRUE(say("get " + key + "\r\n") == value_of(key, value)) << "in use all the time";
  }
  EXPECT_EQ(say("get k999\r\n"), value_of("k999", value));
}

// Otherwise a store that is full of them has room for a few items.
TEST(memory, of_damaged_items_is_used_again) {
  if (medium_of_test() != "shm") return;  // whose file is what the server sees
  settings s = conversation::debugging();
  s.memory_bytes = 4U << 20;
  conversation say{s};
  const std::string mark = "here is a value that is damaged soon";
  const std::string value = mark + std::string(10'000 - mark.size(), 'v');
  int items = 0;
  while (stat(say, "evictions") == 0) {
    ASSERT_EQ(say("set k" + std::to_string(items++) + " 0 0 10000\r\n" + value + "\r\n"), "STORED\r\n");
  }
  std::fstream file{std::string{say.store()->place()}, std::ios::in | std::ios::out | std::ios::binary};
  const std::string all{std::istreambuf_iterator<char>{file}, {}};
  file.clear();
  int damaged = 0;
  for (std::size_t at = 0; (at = all.find(mark, at)) != std::string::npos; ++at, ++damaged) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put('H');
  }
  file.flush();
  ASSERT_GE(damaged, items - 1);
  EXPECT_EQ(say("get k" + std::to_string(items - 1) + "\r\n"), "END\r\n");
  for (int i = 0; i < 2 * items; ++i) {
    ASSERT_EQ(say("set n" + std::to_string(i) + " 0 0 10000\r\n" + value + "\r\n"), "STORED\r\n") << i;
  }
  EXPECT_LE(stat(say, "bytes"), 4U << 20);
  int there = 0;
  for (int i = 0; i < 2 * items; ++i) there += say("get n" + std::to_string(i) + "\r\n") != "END\r\n" ? 1 : 0;
  EXPECT_GT(there, items / 2);
}

TEST(memory, that_may_not_be_evicted_is_refused) {
  settings s = conversation::debugging();
  s.memory_bytes = 4U << 20;
  s.evictions = false;
  conversation say{s};
  const std::string value(100'000, 'v');
  std::string answer;
  for (int i = 0; i < 50 && answer.empty(); ++i) {
    const std::string a = say("set k" + std::to_string(i) + " 0 0 100000\r\n" + value + "\r\n");
    if (a != "STORED\r\n") answer = a;
  }
  EXPECT_EQ(answer, "SERVER_ERROR out of memory storing object\r\n");
  EXPECT_EQ(say("get k0\r\n"), value_of("k0", value));
  EXPECT_EQ(stat(say, "evictions"), 0U);
}

TEST(meta, gets_what_its_flags_ask_for_in_their_order) {
  conversation say;
  EXPECT_EQ(say("debugtime p\r\nset foo 5 90 2\r\nho\r\n"), "OK\r\nSTORED\r\n");
  EXPECT_EQ(say("mg foo\r\n"), "HD\r\n");
  EXPECT_EQ(say("mg foo t s v f k O123\r\n"), "VA 2 t90 s2 f5 kfoo O123\r\nho\r\n");
  EXPECT_EQ(say("mg none k Oq\r\nmg none k q\r\nmn\r\n"), "EN knone Oq\r\nMN\r\n");
  EXPECT_EQ(say("mg foo t T30 t\r\n"), "CLIENT_ERROR duplicate flag\r\n");
  EXPECT_EQ(say("mg foo t T30\r\nmg foo t\r\n"), "HD t90\r\nHD t30\r\n");
}

TEST(meta, tells_of_earlier_access) {
  conversation say;
  EXPECT_EQ(say("debugtime p\r\nms a 1\r\nx\r\n"), "OK\r\nHD\r\n");
  EXPECT_EQ(say("mg a u h\r\nmg a h\r\nmg a h l\r\n"), "HD h0\r\nHD h0\r\nHD h1 l0\r\n");
  EXPECT_EQ(say("debugtime 7\r\nmg a l\r\n"), "OK\r\nHD l7\r\n");
}

TEST(meta, asks_exactly_one_client_to_fill_a_gap) {
  conversation say;
  EXPECT_EQ(say("debugtime p\r\n"), "OK\r\n");  // what is left of a time to live does not fall
  EXPECT_EQ(say("mg a N30 v t s\r\n"), "VA 0 t30 s0 W\r\n\r\n");
  EXPECT_EQ(say("mg a N30 v\r\n"), "VA 0 Z\r\n\r\n");
  EXPECT_EQ(say("ms a 2 T120\r\nhi\r\nmg a N30 v\r\n"), "HD\r\nVA 2\r\nhi\r\n");
  EXPECT_EQ(say("mg a R130 v\r\nmg a R130 v\r\n"), "VA 2 W\r\nhi\r\nVA 2 Z\r\nhi\r\n");
}

TEST(meta, serves_stale_items_and_asks_one_client_to_renew_them) {
  conversation say;
  EXPECT_EQ(say("debugtime p\r\n"), "OK\r\n");  // what is left of a time to live does not fall
  EXPECT_EQ(say("set a 0 0 3\r\nmoo\r\nmd a I T30\r\n"), "STORED\r\nHD\r\n");
  EXPECT_EQ(say("mg a t v\r\nmg a v\r\n"), "VA 3 t30 X W\r\nmoo\r\nVA 3 Z X\r\nmoo\r\n");
  EXPECT_EQ(say("ms a 1 T90 C0\r\nf\r\n"), "EX\r\n");
  EXPECT_EQ(say("ms a 1 I T90 C1\r\nf\r\nmg a t v\r\n"), "HD\r\nVA 1 t30 Z X\r\nf\r\n");
  EXPECT_EQ(say("ms a 1 T90\r\ng\r\nmg a t v\r\n"), "HD\r\nVA 1 t90\r\ng\r\n");
}

TEST(meta, sets_in_every_mode) {
  conversation say;
  EXPECT_EQ(say("ms a 1 MR\r\nx\r\nms a 1 ME\r\nx\r\nms a 1 ME\r\ny\r\n"), "NS\r\nHD\r\nNS\r\n");
  EXPECT_EQ(say("ms a 1 MA\r\n2\r\nms a 1 MP\r\n0\r\nmg a v\r\n"), "HD\r\nHD\r\nVA 3\r\n0x2\r\n");
  EXPECT_EQ(say("ms a 1 q\r\nz\r\nms a 1 k O1\r\nz\r\n"), "HD ka O1\r\n");
  EXPECT_EQ(say("ms b 1 C7\r\nz\r\n"), "NF\r\n");
}

TEST(meta, counts) {
  conversation say;
  EXPECT_EQ(say("ma n\r\nma n N0 J13 v t\r\nma n v\r\nma n MD D20 v\r\n"),
            "NF\r\nVA 2 t-1\r\n13\r\nVA 2\r\n14\r\nVA 1\r\n0\r\n");
  EXPECT_EQ(say("ma n q\r\nma n C99999\r\nmn\r\n"), "EX\r\nMN\r\n");
}

TEST(meta, keeps_binary_keys) {
  conversation say;
  EXPECT_EQ(say("ms AAEC 2 b k\r\nhi\r\nmg AAEC b v k\r\nmg AAEC v\r\n"), "HD kAAEC b\r\nVA 2 kAAEC b\r\nhi\r\nEN\r\n");
  EXPECT_EQ(say("md AAEC b\r\nmg AAEC b\r\n"), "HD\r\nEN\r\n");
}

TEST(a_long_reply, comes_whole_and_in_order) {
  conversation say;
  const std::string value(100'000, 'v');
  std::string keys;
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_EQ(say("set " + key + " 0 0 100000\r\n" + value + "\r\n"), "STORED\r\n");
    keys += " " + key;
    expected += "VALUE " + key + " 0 100000\r\n" + value + "\r\n";
  }
  EXPECT_EQ(say("get" + keys + "\r\n"), expected + "END\r\n");
}

TEST(administration, answers) {
  conversation say;
  EXPECT_EQ(say("verbosity 1\r\n"), "OK\r\n");
  EXPECT_EQ(say("shutdown\r\n"), "ERROR: shutdown not enabled\r\n");
  EXPECT_EQ(say("cache_memlimit 2\r\n"), "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n");
  EXPECT_EQ(say("cache_memlimit 16\r\n"), "OK\r\n");
  EXPECT_EQ(stat(say, "limit_maxbytes"), 16U << 20);
  EXPECT_EQ(say("slabs automove x\r\n"), "CLIENT_ERROR bad command line format\r\n");
  EXPECT_EQ(say("slabs reassign 1 2\r\n"), "CLIENT_ERROR slab reassignment disabled\r\n");
  EXPECT_EQ(say("watch\r\n"), "CLIENT_ERROR watch commands not allowed\r\n");
  EXPECT_EQ(say("lru_crawler enable\r\n"), "ERROR failed to start lru crawler thread\r\n");
  EXPECT_EQ(say("stats bogus\r\n"), "ERROR\r\n");
  EXPECT_TRUE(say("version\r\n").starts_with("VERSION 1.6.18"));
  EXPECT_EQ(say("quit\r\nget a\r\n"), "");
  EXPECT_TRUE(say.ended);
}

TEST(statistics_, count_items_by_size_and_forget_on_reset) {
  conversation say;
  EXPECT_EQ(say("set a 0 0 3\r\nabc\r\nset b 0 0 1000\r\n" + std::string(1000, 'x') + "\r\nget a b c\r\n").substr(0, 8),
            "STORED\r\n");
  EXPECT_EQ(stat(say, "curr_items"), 2U);
  EXPECT_EQ(stat(say, "get_hits"), 2U);
  EXPECT_EQ(stat(say, "get_misses"), 1U);
  EXPECT_EQ(stat(say, "items:1:number", "stats items"), 1U);
  EXPECT_EQ(stat(say, "1:used_chunks", "stats slabs"), 1U);
  EXPECT_EQ(stat(say, "active_slabs", "stats slabs"), 2U);
  EXPECT_EQ(stat(say, "64", "stats sizes"), 1U);
  EXPECT_EQ(say("stats cachedump 1 10\r\n"), "ITEM a [3 b; 0 s]\r\nEND\r\n");
  EXPECT_EQ(say("stats reset\r\n"), "RESET\r\n");
  EXPECT_EQ(stat(say, "get_hits"), 0U);
  EXPECT_EQ(stat(say, "curr_items"), 2U);
}

}  // namespace
}  // namespace nvm::server
