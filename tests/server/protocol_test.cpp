// From bytes to commands: accepted and refused input; the pieces in which the bytes come do not matter.
#include "server/protocol.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/base64.hpp"
#include "server/numbers.hpp"

namespace nvm::server {
namespace {

constexpr std::string_view bad_format = "CLIENT_ERROR bad command line format";

command one(std::string_view text, parse_limits limits = {}) {
  command c;
  const parsed p = parse(text, limits, c);
  EXPECT_EQ(p.what, parsed::answer::command) << text;
  EXPECT_EQ(p.bytes, text.size()) << text;
  return c;
}

// The refusal of a line; the rest, if any, is not looked at.
std::string_view refusal_of(std::string_view text, parse_limits limits = {}) {
  static command c;
  const parsed p = parse(text, limits, c);
  EXPECT_EQ(p.what, parsed::answer::command) << text;
  return c.what == verb::refused ? c.refusal : "accepted";
}

TEST(parser, takes_a_set_apart) {
  const command c = one("set key 12 -1 5\r\nhe\r\no\r\n");
  EXPECT_EQ(c.what, verb::set);
  EXPECT_EQ(c.key, "key");
  EXPECT_EQ(c.flags, 12U);
  EXPECT_EQ(c.expiry, -1);
  EXPECT_EQ(c.value, "he\r\no");
  EXPECT_FALSE(c.silent);
  EXPECT_TRUE(one("set k 0 0 0 noreply\r\n\r\n").silent);
  EXPECT_EQ(one("cas k 0 0 1 18446744073709551615\r\nx\r\n").number, 18446744073709551615U);
}

TEST(parser, accepts_a_bare_newline_and_spaces_around_words) {
  EXPECT_EQ(one("get a\n").what, verb::get);
  EXPECT_EQ(one("   get    a   b  \r\n").what, verb::get);
  EXPECT_EQ(one("set  k   0 0  1  \r\nx\r\n").value, "x");
}

TEST(parser, gives_the_keys_of_a_get_one_by_one) {
  command c = one("get a  bb ccc\r\n");
  EXPECT_EQ(next_key(c.key), "a");
  EXPECT_EQ(next_key(c.key), "bb");
  EXPECT_EQ(next_key(c.key), "ccc");
  EXPECT_EQ(next_key(c.key), "");
  EXPECT_EQ(next_key(c.key), "");
  command g = one("gats 30 x y\r\n");
  EXPECT_EQ(g.what, verb::gats);
  EXPECT_EQ(g.expiry, 30);
  EXPECT_EQ(next_key(g.key), "x");
}

TEST(parser, gets_more_keys_than_a_line_has_words) {
  std::string line = "get";
  for (int i = 0; i < 10'000; ++i) line += " key" + std::to_string(i);
  line += "\r\n";
  command c = one(line);
  int keys = 0;
  while (!next_key(c.key).empty()) ++keys;
  EXPECT_EQ(keys, 10'000);
}

TEST(parser, takes_any_pieces) {
  const std::string text =
      "set a 1 2 10\r\n0123456789\r\nget a\r\nms b 3 T10 c\r\nxyz\r\nset big 0 0 2000000\r\n"
      "incr a 1\r\nms z 2 bogus\r\nhi\r\nmn\r\n";
  std::vector<verb> whole;
  const auto run = [&](std::size_t piece) {
    std::vector<verb> seen;
    std::string buffer;
    std::size_t needed = 0;
    std::size_t swallow = 0;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      buffer += text.substr(at, piece);
      for (;;) {
        const std::size_t thrown = std::min(swallow, buffer.size());
        buffer.erase(0, thrown);
        swallow -= thrown;
        if (buffer.empty() || buffer.size() < needed) break;
        command c;
        const parsed p = parse(buffer, {}, c);
        if (p.what == parsed::answer::incomplete) {
          EXPECT_GT(p.bytes, buffer.size());
          needed = p.bytes;
          break;
        }
        EXPECT_EQ(p.what, parsed::answer::command);
        needed = 0;
        seen.push_back(c.what);
        swallow = c.what == verb::refused && c.swallow > 1'000'000 ? 0 : c.swallow;
        buffer.erase(0, p.bytes);
      }
    }
    return seen;
  };
  whole = run(text.size());
  EXPECT_EQ(whole.size(), 7U);
  for (std::size_t piece = 1; piece < 40; ++piece) EXPECT_EQ(run(piece), whole) << piece;
}

TEST(parser, does_not_look_again_before_a_value_is_there) {
  command c;
  const parsed p = parse("set k 0 0 1000\r\nabc", {}, c);
  EXPECT_EQ(p.what, parsed::answer::incomplete);
  EXPECT_EQ(p.bytes, 16U + 1000 + 2);
}

TEST(parser, refuses_as_memcached_does) {
  const std::string long_key(251, 'k');
  const std::pair<std::string, std::string_view> table[] = {
      {"\r\n", "ERROR"},
      {" \n", "ERROR"},
      {"x\r\n", "ERROR"},
      {"get\r\n", "ERROR"},
      {"gets\r\n", "ERROR"},
      {"gat\r\n", "ERROR"},
      {"bogus\r\n", "ERROR"},
      {"mx a\r\n", "ERROR"},
      {"set\r\n", "ERROR"},
      {"set a 0 0\r\n", "ERROR"},
      {"set a 0 0 1 noreply more\r\n", "ERROR"},
      {"cas a 0 0 1\r\n", "ERROR"},
      {"set a x 0 1\r\n", bad_format},
      {"set a 0 x 1\r\n", bad_format},
      {"set a 0 0 x\r\n", bad_format},
      {"set a 0 0 -1\r\n", bad_format},
      {"set a -1 0 1\r\n", bad_format},
      {"set a 0 0 2147483647\r\n", bad_format},
      {"set a 0 0 4294967295\r\n", bad_format},
      {"set a 0 0 99999999999999999999999\r\n", bad_format},
      {"cas a 0 0 1 x\r\n", bad_format},
      {"set " + long_key + " 0 0 1\r\n", bad_format},
      {"get " + long_key + "\r\n", bad_format},
      {"get short " + long_key + "\r\n", bad_format},
      {"delete " + long_key + "\r\n", bad_format},
      {"incr " + long_key + " 1\r\n", bad_format},
      {"touch " + long_key + " 1\r\n", bad_format},
      {"gat x a\r\n", "CLIENT_ERROR invalid exptime argument"},
      {"touch a x\r\n", "CLIENT_ERROR invalid exptime argument"},
      {"touch a\r\n", "ERROR"},
      {"incr a\r\n", "ERROR"},
      {"incr a x\r\n", "CLIENT_ERROR invalid numeric delta argument"},
      {"incr a -1\r\n", "CLIENT_ERROR invalid numeric delta argument"},
      {"decr a 18446744073709551616\r\n", "CLIENT_ERROR invalid numeric delta argument"},
      {"delete\r\n", "ERROR"},
      {"delete a 10\r\n", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"},
      {"delete a 0 0\r\n", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"},
      {"flush_all x\r\n", "CLIENT_ERROR invalid exptime argument"},
      {"flush_all 1 2 3\r\n", "ERROR"},
      {"verbosity\r\n", "ERROR"},
      {"verbosity x\r\n", bad_format},
      {"cache_memlimit x\r\n", "ERROR"},
      {"debugtime 3\r\n", "ERROR"},
      {"mg\r\n", "ERROR"},
      {"mg " + long_key + "\r\n", bad_format},
      {"mg a z\r\n", "CLIENT_ERROR invalid flag"},
      {"mg a v v\r\n", "CLIENT_ERROR duplicate flag"},
      {"mg a Tx\r\n", "CLIENT_ERROR bad token in command line format"},
      {"mg a O" + std::string(32, 'o') + "\r\n", "CLIENT_ERROR opaque token too long"},
      {"mg abcd b\r\n", "accepted"},
      {"mg !!!! b\r\n", "CLIENT_ERROR error decoding key"},
      {"mg a v k s t f c l h u q O1 T1 N1 R1 C1 I b F1\r\n", "CLIENT_ERROR options flags are too long"},
      {"ms\r\n", "ERROR"},
      {"ms a\r\n", bad_format},
      {"ms a x\r\n", bad_format},
      {"ms a -1\r\n", bad_format},
      {"ms a 1 M\r\n", "CLIENT_ERROR incorrect length for M token"},
      {"ms a 1 MQ\r\n", "CLIENT_ERROR invalid mode for ms M token"},
      {"ms a 1 Fx\r\n", bad_format},
      {"md a z\r\n", "CLIENT_ERROR invalid or duplicate flag"},
      {"ma a Dx\r\n", "CLIENT_ERROR invalid or duplicate flag"},
      {"ma a MQ\r\n", "CLIENT_ERROR invalid mode for ma M token"},
      {"me\r\n", bad_format},
      {"set a 0 0 1\r\nxyz", "CLIENT_ERROR bad data chunk"},
      {"ms a 1\r\nxyz", "CLIENT_ERROR bad data chunk"},
  };
  for (const auto& [text, refusal] : table) EXPECT_EQ(refusal_of(text), refusal) << text;
}

TEST(parser, refuses_a_value_that_is_too_large_before_it_comes) {
  const parse_limits limits{1024, false};
  command c;
  const std::string line = "set key 0 0 1024\r\n";
  EXPECT_EQ(parse(line, limits, c).bytes, line.size());
  EXPECT_EQ(c.refusal, "SERVER_ERROR object too large for cache");
  EXPECT_EQ(c.swallow, 1026U);
  EXPECT_TRUE(c.drops_item);
  EXPECT_EQ(c.key, "key");
  EXPECT_EQ(refusal_of("add key 0 0 1024\r\n", limits), "SERVER_ERROR object too large for cache");
  EXPECT_EQ(refusal_of("ms key 1024\r\n", limits), "SERVER_ERROR object too large for cache");
}

TEST(parser, knows_how_much_of_a_refused_value_to_throw_away) {
  command c;
  EXPECT_EQ(parse("ms a 5 z\r\nhello\r\n", {}, c).bytes, 10U);
  EXPECT_EQ(c.swallow, 7U);
  EXPECT_EQ(parse("set a x 0 5\r\n", {}, c).bytes, 13U);
  EXPECT_EQ(c.swallow, 0U) << "memcached takes the value for commands then";
}

TEST(parser, hangs_up_on_what_is_no_protocol) {
  command c;
  for (const char* text : {"GET / HTTP/1.0\r\n", "PUT /x HTTP/1.1\r\n", "DELETE HTTP/1.1\r\n"}) {
    EXPECT_EQ(parse(text, {}, c).what, parsed::answer::hang_up) << text;
  }
  EXPECT_EQ(parse(std::string(2049, 'x'), {}, c).what, parsed::answer::hang_up);
  EXPECT_EQ(parse(std::string(2048, 'x'), {}, c).what, parsed::answer::incomplete);
  EXPECT_EQ(parse("get " + std::string(5000, 'x'), {}, c).what, parsed::answer::incomplete);
  EXPECT_EQ(parse("get " + std::string(get_line_bytes_max, 'x'), {}, c).what, parsed::answer::hang_up);
  EXPECT_EQ(parse(std::string(200, ' ') + "get " + std::string(3000, 'x'), {}, c).what, parsed::answer::hang_up);
}

TEST(parser, ends_a_line_at_a_zero_byte) {
  using namespace std::string_view_literals;
  command c = one("get a\0b c\r\n"sv);
  EXPECT_EQ(next_key(c.key), "a");
  EXPECT_EQ(next_key(c.key), "");
  EXPECT_EQ(refusal_of("\0get a\r\n"sv), "ERROR");
}

TEST(parser, reads_the_flags_of_meta_commands) {
  const command c = one("mg key s v q u T30 N60 R5 Oabc k\r\n");
  EXPECT_EQ(c.what, verb::meta_get);
  EXPECT_EQ(c.key, "key");
  EXPECT_TRUE(c.meta.value && c.meta.quiet && c.meta.no_access);
  EXPECT_EQ(c.meta.ttl, 30);
  EXPECT_EQ(c.meta.vivify, 60);
  EXPECT_EQ(c.meta.recache, 5);
  EXPECT_EQ(c.flag_words().size(), 9U);
  const command s = one("ms key 2 F7 C99 MA I T-1\r\nhi\r\n");
  EXPECT_EQ(s.flags, 7U);
  EXPECT_EQ(s.number, 99U);
  EXPECT_EQ(s.meta.mode, 'A');
  EXPECT_TRUE(s.meta.invalidate && s.meta.has_cas);
  EXPECT_EQ(s.meta.ttl, -1);
  EXPECT_EQ(s.value, "hi");
  const command a = one("ma key MD D22 J13 N0\r\n");
  EXPECT_EQ(a.meta.delta, 22U);
  EXPECT_EQ(a.meta.initial, 13U);
}

TEST(parser, decodes_keys_in_base64) {
  const command c = one("mg 44OG44K544OI b v k\r\n");
  EXPECT_EQ(c.key, "\xE3\x83\x86\xE3\x82\xB9\xE3\x83\x88");
  EXPECT_TRUE(c.meta.binary_key);
}

TEST(base64, gives_back_what_it_took) {
  for (std::size_t n = 1; n <= 187; ++n) {
    std::string plain;
    for (std::size_t i = 0; i < n; ++i) plain += static_cast<char>(i * 37 + n);
    char text[256];
    const std::string_view coded{text, put_base64(text, plain)};
    EXPECT_EQ(coded.size(), base64_bytes(n));
    char back[256];
    EXPECT_EQ((std::string_view{back, read_base64(coded, back)}), plain);
  }
  char back[64];
  for (const char* bad : {"", "a", "ab", "abc", "abc!", "====", "a===", "abc\x80"}) {
    EXPECT_EQ(read_base64(bad, back), 0U) << bad;
  }
  for (const char* odd : {"YWI=", "Y!W I=", "YWI=more", "YWJ=", "YW=I"}) {
    EXPECT_EQ((std::string_view{back, read_base64(odd, back)}), odd == std::string_view{"YW=I"} ? "a`" : "ab") << odd;
  }
}

TEST(numbers, of_clients_are_read_as_memcached_reads_them) {
  std::uint32_t flags = 7;
  for (const char* good :
       {"5", "+5", " 5", "\t5", "5 x", "4294967301", "18446744069414584325", "-18446744073709551611"}) {
    EXPECT_TRUE(read_client_number(good, flags)) << good;
    EXPECT_EQ(flags, 5U) << good;
  }
  EXPECT_TRUE(read_client_number("-0", flags));
  EXPECT_TRUE(read_client_number(std::string_view{"5\0x", 3}, flags));
  for (const char* bad :
       {"", "-", "+", "+-1", "-1", "1x", "x1", "0x10", "18446744073709551616", "9223372036854775808 -"}) {
    EXPECT_FALSE(read_client_number(bad, flags)) << bad;
  }
  EXPECT_EQ(flags, 5U) << "what is no number changes nothing";
  std::int32_t length = 0;
  EXPECT_TRUE(read_client_number("4294967297", length));
  EXPECT_EQ(length, 1);
  EXPECT_TRUE(read_client_number("-9223372036854775808", length));
  EXPECT_EQ(length, 0);
  EXPECT_FALSE(read_client_number("9223372036854775808", length));
  std::uint64_t delta = 0;
  EXPECT_TRUE(read_client_number("18446744073709551615", delta));
  EXPECT_EQ(delta, ~std::uint64_t{0});
}

TEST(numbers, of_the_command_line_are_not_cut_off) {
  std::uint32_t small = 7;
  EXPECT_TRUE(read_number("4294967295", small));
  EXPECT_EQ(small, 4294967295U);
  for (const char* bad : {"", "-", "+", "+-1", "4294967296", "-1", "1x", "x1", "0x10"}) {
    EXPECT_FALSE(read_number(bad, small)) << bad;
  }
  EXPECT_EQ(small, 4294967295U) << "what is no number changes nothing";
  EXPECT_TRUE(read_number("+5", small));
  EXPECT_TRUE(read_number("12 \t", small)) << "a number that became shorter has spaces behind it";
  EXPECT_EQ(small, 12U);
}

}  // namespace
}  // namespace nvm::server
