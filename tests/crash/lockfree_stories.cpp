#include "lockfree_stories.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace nvm::tests {
namespace {

using enum shape_of_structure;
using player = lockfree_player;

void first_structure(player& p) {
  p.create("a", words_list);
  p.insert("a", 5, 50);
  p.remove("a", 5);
}

// Enough that generations are freed and their places used again.
void churn(player& p, const char* name) {
  for (const std::uint64_t key : {20, 10, 30}) p.insert(name, key, key * 2);
  p.look_up(name, 10);
  p.insert(name, 10, 7);
  p.replace(name, 10, 99);
  p.replace(name, 11, 99);
  p.remove(name, 20);
  p.remove(name, 20);
  p.look_up(name, 20);
  p.put(name, 20, 21);
  p.put(name, 20, 22);
  p.remove(name, 10);
  p.put(name, 30, 31);
  for (const std::uint64_t key : {5, 15}) p.put(name, key, key);
  p.remove(name, 5);
  p.put(name, 5, 55);
  p.settle();
  p.remove(name, 30);
}
void list_lives(player& p) {
  p.create("list", words_list);
  p.on_machine().explore_from_here();
  churn(p, "list");
}
void hash_lives(player& p) {
  p.create("hash", words_hash, 2);
  p.on_machine().explore_from_here();
  churn(p, "hash");
}

// Keys that begin alike, values of several classes of nodes.
template <shape_of_structure Shape>
void bytes_live(player& p) {
  p.create("bytes", Shape, 2);
  p.on_machine().explore_from_here();
  p.insert("bytes", 0x101, long_value(1, 0));
  p.insert("bytes", 0x102, long_value(2, 100));
  p.insert("bytes", 0x103, long_value(3, 700));
  p.insert("bytes", 0x201, long_value(4, 30));
  p.look_up("bytes", 0x102);
  p.replace("bytes", 0x102, long_value(5, 101));
  p.replace("bytes", 0x103, long_value(6, 10));
  p.remove("bytes", 0x101);
  p.put("bytes", 0x101, long_value(7, 650));
  p.remove("bytes", 0x102);
  p.put("bytes", 0x100, long_value(8, 300));
}

// Nodes that take pages of their own, and pages that get another use.
void runs_come_and_go(player& p) {
  p.create("runs", bytes_list);
  p.on_machine().explore_from_here();
  p.insert("runs", 1, long_value(1, 4200));
  p.insert("runs", 2, long_value(2, 4200));
  p.insert("runs", 3, long_value(3, 4200));
  p.remove("runs", 1);
  p.remove("runs", 2);
  p.put("runs", 4, long_value(4, 9000));
  p.replace("runs", 3, long_value(5, 6000));
  p.remove("runs", 4);
  p.remove("runs", 3);
  p.put("runs", 6, long_value(6, 8000));
  p.put("runs", 7, long_value(7, 40));
}

void one_is_dropped(player& p) {
  p.create("one", words_hash, 2);
  p.create("other", words_list);
  for (std::uint64_t key = 1; key < 4; ++key) {
    p.insert("one", key, key);
    p.insert("other", key, key);
  }
  p.remove("one", 2);
  p.on_machine().explore_from_here();
  p.drop("one");
  p.insert("other", 9, 9);
  p.create("next", words_list);
  p.insert("next", 1, 1);
  p.drop("other");
  p.create("other", bytes_hash);
  p.insert("other", 4, long_value(4, 40));
  p.remove("next", 1);
}

// What a structure had is at the disposal of the next.
void dropped_again_and_again(player& p) {
  for (std::uint64_t round = 0; round < 12; ++round) {
    p.on_machine().explore_from_here();
    p.create("list", words_list);
    for (std::uint64_t key = 1; key < 4; ++key) p.insert("list", key, round);
    p.remove("list", 2);
    p.drop("list");
  }
}

// Two arrays more, and cells put in by inserting, replacing and removing.
void table_grows(player& p) {
  p.create("hash", words_hash, 1);
  for (std::uint64_t key = 1; key <= 8; ++key) p.insert("hash", key, key);
  p.on_machine().explore_from_here();
  p.fill_up("hash");
  p.insert("hash", 20, 20);
  for (std::uint64_t key = 1; key <= 4; ++key) p.replace("hash", key, key + 100);
  p.fill_up("hash");
  p.insert("hash", 21, 21);
  for (std::uint64_t key = 1; key <= 8; ++key) p.remove("hash", key);
  for (std::uint64_t key = 30; key <= 34; ++key) p.insert("hash", key, key);
  p.look_up("hash", 20);
}
// The array takes pages where something else was.
void table_grows_into_used_pages(player& p) {
  p.create("runs", bytes_list);
  p.create("hash", words_hash, 1);
  for (std::uint64_t key = 1; key <= 3; ++key) p.insert("hash", key, key);
  std::uint64_t last = 0;
  while (p.try_put("runs", last + 1, value_bytes(4500, std::byte{0x58}))) ++last;
  for (std::uint64_t key = 1; key <= last; ++key) p.remove("runs", key);
  p.on_machine().explore_from_here();
  p.fill_up("hash");
  p.insert("hash", 20, 20);
  for (std::uint64_t key = 30; key <= 33; ++key) p.insert("hash", key, key);
}

// More areas than a table keeps, freed by and by.
void areas_leave(player& p) {
  p.create("bytes", bytes_list);
  for (std::uint64_t key = 1; key <= 15; ++key) p.insert("bytes", key, long_value(key, 900));
  p.on_machine().explore_from_here();
  for (std::uint64_t key = 16; key <= 19; ++key) p.insert("bytes", key, long_value(key, 900));
  for (std::uint64_t key = 1; key <= 19; key += 2) p.remove("bytes", key);
  p.insert("bytes", 1, long_value(1, 900));
  for (std::uint64_t key = 2; key <= 18; key += 4) p.replace("bytes", key, long_value(key + 100, 40));
}

// Somebody is inside for long, so that nothing is freed, and no area leaves.
void table_of_areas_grows(player& p) {
  p.create("bytes", bytes_list);
  for (std::uint64_t key = 1; key <= 135; ++key) p.insert("bytes", key, long_value(key, 900));
  p.on(1);
  p.look_up("bytes", 1);
  p.enter("bytes");
  p.on(0);
  for (std::uint64_t key = 1; key <= 122; ++key) p.remove("bytes", key);
  p.on_machine().explore_from_here();
  for (std::uint64_t key = 123; key <= 132; ++key) p.remove("bytes", key);
  p.on(1);
  p.leave("bytes");
  p.on(0);
  p.remove("bytes", 133);
  p.insert("bytes", 1, long_value(1, 900));
  p.remove("bytes", 134);
}

// Threads take turns in one another's neighbourhood; the fences of one complete nothing of the other.
void threads_take_turns(player& p) {
  p.create("list", words_list);
  p.create("hash", words_hash, 1);
  p.on_machine().explore_from_here();
  for (const char* name : {"list", "hash"}) {
    p.on(0);
    for (const std::uint64_t key : {10, 20, 30}) p.insert(name, key, key);
    p.on(1);
    p.look_up(name, 20);
    p.insert(name, 15, 15);
    p.remove(name, 10);
    p.on(0);
    p.look_up(name, 10);
    p.insert(name, 10, 11);
    p.remove(name, 15);
    p.on(1);
    p.replace(name, 20, 21);
    p.look_up(name, 15);
  }
  p.on(0);
  p.fill_up("hash");
  p.insert("hash", 40, 40);
  p.on(1);
  for (const std::uint64_t key : {1, 2, 3, 4, 5, 6}) p.insert("hash", key, key);
  p.on(0);
  p.settle();
  p.on(1);
  p.remove("hash", 40);
}

// Threads come and go, and leave what they had reserved to the next.
void threads_end(player& p) {
  p.create("list", words_list);
  p.on_machine().explore_from_here();
  for (std::uint64_t key = 1; key <= 9; ++key) p.insert("list", key, key);
  for (unsigned round = 0; round < 3; ++round) {
    p.on(round);
    for (std::uint64_t key = 20; key <= 22; ++key) p.put("list", key, round * 10 + key);
    p.remove("list", 4 * round + 1);
    p.end_thread();
  }
}

void closed_and_opened(player& p) {
  p.create("list", words_list);
  p.create("hash", bytes_hash, 1);
  for (std::uint64_t key = 1; key <= 4; ++key) {
    p.insert("list", key, key);
    p.insert("hash", key, long_value(key, 80));
  }
  p.remove("list", 3);
  p.on_machine().explore_from_here();
  p.remove("hash", 2);
  p.replace("list", 4, 40);
  p.close();
  p.reopen();
  p.insert("list", 3, 33);
  p.replace("hash", 1, long_value(9, 500));
  p.remove("list", 1);
  p.close();
}

// As after a crash that lost nothing: what a process has left in caches is not durable yet.  After so many removals.
template <std::uint64_t Removals>
void dies_and_goes_on(player& p) {
  p.create("list", words_list);
  p.create("hash", words_hash, 1);
  for (std::uint64_t key = 1; key <= 5; ++key) {
    p.insert("list", key, key);
    p.insert("hash", key, key);
  }
  p.fill_up("hash");
  p.insert("hash", 6, 6);
  for (std::uint64_t key = 2; key < 2 + Removals; ++key) p.remove("list", key);
  p.settle();
  p.reopen();
  p.on_machine().explore_from_here();
  for (std::uint64_t key = 6; key <= 9; ++key) {
    p.insert("list", key, key);
    p.insert("hash", key, key);
  }
  p.remove("list", 6);
  p.remove("hash", 3);
  p.remove("list", 5);
}

// Whoever asks for the directory first makes it durable for all.
void one_makes_the_directory(player& p) {
  p.on(1);
  p.need_directory();
  p.on(0);
  p.create("list", words_list);
  p.insert("list", 1, 1);
}

// Pages that one thread gives back become part of a larger run of another one.
void runs_change_hands(player& p) {
  p.create("runs", bytes_list);
  p.insert("runs", 900, long_value(9, 40));
  p.on(1);
  p.insert("runs", 901, long_value(9, 40));
  p.on(0);
  std::uint64_t last = 0;
  while (p.try_put("runs", last + 1, long_value(last + 1, 4500))) ++last;
  p.on_machine().explore_from_here();
  p.remove("runs", 3);
  p.remove("runs", 4);
  p.on(1);
  (void)p.try_put("runs", 902, long_value(4, 9000));
}

// No room for what is wanted: nothing is lost, nothing leaks.
void pool_is_full(player& p) {
  p.create("bytes", bytes_list);
  std::uint64_t key = 1;
  while (p.try_put("bytes", key, long_value(key, 3000))) ++key;
  p.on_machine().explore_from_here();
  (void)p.try_put("bytes", 1000, long_value(key, 20000));
  p.remove("bytes", 1);
  p.remove("bytes", 2);
  (void)p.try_put("bytes", 1001, long_value(1001, 3000));
  (void)p.try_put("bytes", 3, long_value(1002, 3000));
}

}  // namespace

const std::vector<lockfree_story>& lockfree_stories() {
  static const std::vector<lockfree_story> all{
      {"the first structure", first_structure},
      {"a list lives", list_lives},
      {"a hash table lives", hash_lives},
      {"a list of bytes lives", bytes_live<bytes_list>},
      {"a hash table of bytes lives", bytes_live<bytes_hash>},
      {"runs come and go", runs_come_and_go},
      {"one is dropped", one_is_dropped},
      {"dropped again and again", dropped_again_and_again},
      {"a table grows", table_grows},
      {"a table grows into used pages", table_grows_into_used_pages, 104},
      {"areas leave", areas_leave},
      {"the table of areas grows", table_of_areas_grows, 240, false, true},
      {"threads take turns", threads_take_turns},
      {"threads end", threads_end},
      {"closed and opened", closed_and_opened},
      {"it dies and goes on", dies_and_goes_on<3>},
      {"it dies after freeing", dies_and_goes_on<2>},
      {"one makes the directory", one_makes_the_directory},
      {"runs change hands", runs_change_hands},
      {"the pool is full", pool_is_full, 64},
  };
  return all;
}
const lockfree_story& lockfree_story_named(const char* name) {
  for (const lockfree_story& s : lockfree_stories()) {
    if (std::strcmp(s.name, name) == 0) return s;
  }
  std::fprintf(stderr, "no story '%s'\n", name);
  std::abort();
}

const std::vector<lockfree_variant>& lockfree_variants() {
  static const std::vector<lockfree_variant> all{
      {},
      {.name = "one_at_a_time", .all_at_once = false, .recovery = lockfree::recovery_method::search},
      {.name = "link_cache", .link_cache = true, .recovery = lockfree::recovery_method::traversal},
      {.name = "ssd", .image = true},
  };
  return all;
}

}  // namespace nvm::tests
