// The root of a heap, its sizes and its list of chunks: foreign bytes are refused, and the message names the fault.
#include "ground.hpp"

namespace nvm::logheap {
namespace {

using testing::ground;
using testing::put_word;
using testing::root_of;
using testing::small_settings;
using testing::word_at;

// Pages of the pool that some other structure owns.
constexpr std::uint16_t another_owner = 7;
std::uint64_t run_of_another(ground<>& g) {
  return *g.pages().take_run(0, nvm::layout::slot_protocol::self_validating, another_owner, 4096);
}
TEST(log_heap_root, has_two_names_of_which_one_mends_the_other) {
  ground<> g;
  const home_t a = g.put(100, 1);
  for (const std::uint64_t name : {testing::root_word, testing::root_word + 64}) {
    std::uint64_t before = 0, after = 0;
    std::memcpy(&before, g.base() + name, 8);
    g.base()[name] ^= std::byte{4};
    ASSERT_TRUE(g.crash_and_open()) << last_message();
    EXPECT_EQ(g.look(a, 1)[0], std::byte{1});
    std::memcpy(&after, g.base() + name, 8);
    EXPECT_EQ(after, before);
  }
  for (const std::uint64_t name : {testing::root_word, testing::root_word + 64}) g.base()[name] ^= std::byte{4};
  EXPECT_EQ(g.crash_and_open().error(), errc::corrupt);
}

TEST(log_heap_root, or_list_of_chunks_that_leads_elsewhere_is_refused) {
  struct trick {
    const char* message;
    void (*play)(ground<>&);
  };
  const trick tricks[] = {
      {"a cycle",
       [](ground<>& g) {
         const std::uint64_t first = word_at(g, root_of(g) + offsetof(layout::root, first_chunk));
         const std::uint64_t second = word_at(g, first + offsetof(layout::chunk_header, next));
         put_word(g, second + offsetof(layout::chunk_header, next), first);
       }},
      {"its predecessor",
       [](ground<>& g) {
         const std::uint64_t first = word_at(g, root_of(g) + offsetof(layout::root, first_chunk));
         const std::uint64_t second = word_at(g, first + offsetof(layout::chunk_header, next));
         put_word(g, second + offsetof(layout::chunk_header, previous), second);
       }},
      {"is no chunk's", [](ground<>& g) { put_word(g, root_of(g) + offsetof(layout::root, first_chunk), 40); }},
      {"not in it",
       [](ground<>& g) {
         const std::uint64_t first = word_at(g, root_of(g) + offsetof(layout::root, first_chunk));
         put_word(g, first + offsetof(layout::chunk_header, next), 0);
       }},
      {"lies in the chunk",
       [](ground<>& g) {
         const std::uint64_t first = word_at(g, root_of(g) + offsetof(layout::root, first_chunk));
         put_word(g, first + offsetof(layout::chunk_header, next), first + 64);
       }},
      {"its use",
       [](ground<>& g) {
         const std::uint64_t first = word_at(g, root_of(g) + offsetof(layout::root, first_chunk));
         g.base()[first + offsetof(layout::chunk_header, use)] ^= std::byte{1};
       }},
      {"mark of its root", [](ground<>& g) { g.base()[root_of(g) + 3] ^= std::byte{1}; }},
      {"check of its root", [](ground<>& g) { g.base()[root_of(g) + 50] ^= std::byte{1}; }},
      {"named as its root", [](ground<>& g) { put_word(g, testing::root_word, 4096); }},
      {"named as its root", [](ground<>& g) { put_word(g, testing::root_word, root_of(g) + 64); }},
      {"named as its root", [](ground<>& g) { put_word(g, testing::root_word, run_of_another(g)); }},
      {"is no chunk's", [](ground<>& g) { put_word(g, root_of(g) + offsetof(layout::root, first_chunk), root_of(g)); }},
      {"is no chunk's",
       [](ground<>& g) { put_word(g, root_of(g) + offsetof(layout::root, first_chunk), root_of(g) + 64); }},
      {"is no chunk's",
       [](ground<>& g) { put_word(g, root_of(g) + offsetof(layout::root, first_chunk), run_of_another(g)); }},
      {"the root's word",
       [](ground<>& g) { g.base()[root_of(g) + offsetof(layout::root, first_chunk)] ^= std::byte{1}; }},
  };
  for (const trick& t : tricks) {
    ground<> g;
    g.put(100, 1);
    t.play(g);
    EXPECT_EQ(g.crash_and_open().error(), errc::corrupt) << t.message;
    EXPECT_NE(std::string{last_message()}.find(t.message), std::string::npos) << last_message();
  }
}

// Sizes that a heap cannot have, of settings or of a root.
struct bad_size {
  const char* what;
  std::uint64_t chunk_bytes, superblock_bytes, home_first, home_bytes;
};
constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr bad_size bad_sizes[] = {
    {"chunks of no power of two", 12288, 65536, gib, gib},
    {"chunks that are too small", 256, 65536, gib, gib},
    {"chunks that are too large", 2 * layout::chunk_bytes_max, 65536, gib, gib},
    {"chunks of half a page", 2048, 65536, gib, gib},
    {"superblocks of no power of two", 4096, 65536 + 512, gib, 65 * gib},
    {"superblocks that are too small", 4096, 256, gib, gib},
    {"superblocks that are too large", 4096, 2 * layout::superblock_bytes_max, gib, gib},
    {"no home space", 4096, 65536, gib, 0},
    {"half a superblock", 4096, 65536, gib, 32768},
    {"home space that begins in the middle of one", 4096, 65536, gib + 8, gib},
    {"home space that ends behind all addresses", 4096, 65536, gib, home_end},
};
template <class Sizes>
void set_sizes(Sizes& s, const bad_size& to) {
  s.chunk_bytes = to.chunk_bytes;
  s.superblock_bytes = to.superblock_bytes;
  s.home_first = to.home_first;
  s.home_bytes = to.home_bytes;
}
TEST(log_heap_root, with_impossible_sizes_is_refused_as_are_such_settings) {
  for (const bad_size& b : bad_sizes) {
    SCOPED_TRACE(b.what);
    ground<> g;
    heap_settings s = small_settings();
    set_sizes(s, b);
    ground<>::heap_type other{g.medium(), g.base(), g.pages(), s};
    EXPECT_EQ(other.create(1).error(), errc::invalid);
    EXPECT_NE(std::string{last_message()}.find("impossible sizes"), std::string::npos) << last_message();
    const std::uint64_t at = root_of(g);
    layout::root r;
    std::memcpy(&r, g.base() + at, sizeof r);
    set_sizes(r, b);
    r.check = checksum(&r, offsetof(layout::root, check), mix_seed(layout::root_magic, at));
    std::memcpy(g.base() + at, &r, sizeof r);
    EXPECT_EQ(g.crash_and_open().error(), errc::corrupt);
    EXPECT_NE(std::string{last_message()}.find("impossible sizes"), std::string::npos) << last_message();
  }
}

// Pages that are in no list of the heap are given back by an open, but not another structure's.
TEST(log_heap_root, and_list_of_chunks_say_which_pages_an_open_gives_back) {
  ground<> g;
  const home_t a = g.put(100, 1);
  const std::uint64_t others = run_of_another(g);
  const auto mine = g.pages().take_run(0, nvm::layout::slot_protocol::self_validating, layout::owner, 4096);
  ASSERT_TRUE(mine);
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  EXPECT_FALSE(g.pages().owned_at(*mine));
  const auto found = g.pages().owned_at(others);
  ASSERT_TRUE(found) << last_message();
  EXPECT_EQ(found->owner, another_owner);
  EXPECT_EQ(g.look(a, 1)[0], std::byte{1});
}

// A word that is zero holds: each of those that lead to blocks is missed, or what it has led to is found without it.
TEST(log_heap_root, or_header_of_a_chunk_with_a_word_that_is_zero_loses_nothing_unseen) {
  ground<> g;
  std::vector<home_t> homes;
  for (int i = 0; i < 60; ++i) homes.push_back(g.put(900, i));
  for (std::size_t i = 0; i < homes.size(); i += 3) g.paint(homes[i], 900, static_cast<int>(100 + i));
  while (g->clean(4, true) != 0) {
  }
  for (std::size_t i = 0; i < homes.size(); i += 4) g.paint(homes[i], 300, static_cast<int>(30 + i));
  const auto all = [&] {
    std::map<home_t, std::vector<std::byte>> contents;
    for (const auto& [home, size] : g.objects()) contents[home] = g.look(home, size);
    return contents;
  };
  std::vector<std::uint64_t> words;
  for (const std::size_t at : {offsetof(layout::root, first_chunk), offsetof(layout::root, through),
                               offsetof(layout::root, session), offsetof(layout::root, saved)}) {
    words.push_back(root_of(g) + at);
  }
  for (std::uint64_t chunk = word_at(g, words[0]); chunk != 0; chunk = word_at(g, chunk + 8)) {
    for (std::uint64_t at = 0; at < sizeof(layout::chunk_header); at += 8) words.push_back(chunk + at);
  }
  g.forget();
  const std::vector<std::byte> image(g.base(), g.base() + g.bytes());
  ASSERT_TRUE(g.crash_and_open()) << last_message();
  const auto before = all();
  ASSERT_EQ(before.size(), homes.size());
  unsigned refused = 0;
  for (const std::uint64_t at : words) {
    g.forget();
    std::memcpy(g.base(), image.data(), image.size());
    if (word_at(g, at) == 0) continue;
    std::memset(g.base() + at, 0, 8);
    const status s = g.crash_and_open();
    if (s) {
      EXPECT_TRUE(all() == before || !g.report().damaged.empty()) << "word at offset " << at << ", " << at % 4096;
    } else {
      EXPECT_EQ(s.error(), errc::corrupt) << last_message();
      ++refused;
    }
  }
  EXPECT_GT(refused, 20U);
}

}  // namespace
}  // namespace nvm::logheap
