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

// The second thread makes nodes of several levels, the first one of one.
void skip_list_lives(player& p) {
  p.create("skip", words_skip);
  p.on_machine().explore_from_here();
  p.on(1);
  churn(p, "skip");
}
void tree_lives(player& p) {
  p.create("tree", words_tree);
  p.on_machine().explore_from_here();
  churn(p, "tree");
}
// Nodes of three levels (the first thread: of two) are replaced and removed beside each other, and what follows them.
template <unsigned Thread>
void levels_come_and_go(player& p) {
  p.create("skip", words_skip);
  p.on(Thread);
  for (const std::uint64_t key : {90, 20, 30, 40, 50, 60}) p.insert("skip", key, key);
  p.on_machine().explore_from_here();
  for (const std::uint64_t key : {70, 80, 85, 35}) p.insert("skip", key, key);
  p.replace("skip", 85, 86);
  p.replace("skip", 50, 51);
  p.remove("skip", 20);
  p.remove("skip", 85);
  p.insert("skip", 85, 87);
  p.remove("skip", 50);
  p.put("skip", 51, 52);
  for (const std::uint64_t key : {30, 40, 60, 70}) p.remove("skip", key);
}
// To the last leaf and from there; branches that leave from the root and below.
void tree_is_emptied(player& p) {
  p.create("tree", words_tree);
  p.on_machine().explore_from_here();
  p.insert("tree", 40, 40);
  p.remove("tree", 40);
  for (const std::uint64_t key : {40, 20, 60, 10, 30}) p.insert("tree", key, key + 1);
  p.replace("tree", 60, 66);
  for (const std::uint64_t key : {20, 60, 40}) p.remove("tree", key);
  p.insert("tree", 25, 25);
  for (const std::uint64_t key : {10, 30, 25}) p.remove("tree", key);
  p.insert("tree", 1, 1);
}

// Where nothing was allocated lately recovery looks for what bears a mark: leaves that were removed beside others, and
// their branches; then also for others.
template <shape_of_structure Shape>
void settled_one_loses_nodes(player& p) {
  p.create("it", Shape);
  for (const std::uint64_t key : {40, 20, 60, 10, 30}) p.insert("it", key, key + 1);
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  for (const std::uint64_t key : {60, 30}) p.remove("it", key);
  p.look_up("it", 30);
  p.replace("it", 20, 21);
  for (const std::uint64_t key : {10, 20, 40}) p.remove("it", key);
}

// Keys that begin alike, values of several classes of nodes.
template <shape_of_structure Shape>
void bytes_live(player& p) {
  p.create("bytes", Shape, 2);
  p.on_machine().explore_from_here();
  if (kind_of(Shape) == lockfree::layout::kind::skip_list) p.on(1);
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

// Pages of a dropped structure are used by the next.
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

void threads_take_turns_in_order(player& p) {
  p.create("skip", words_skip);
  p.create("tree", words_tree);
  p.on_machine().explore_from_here();
  for (const char* name : {"skip", "tree"}) {
    p.on(1);
    for (const std::uint64_t key : {10, 20, 30}) p.insert(name, key, key);
    p.on(0);
    p.look_up(name, 20);
    p.insert(name, 15, 15);
    p.remove(name, 20);
    p.on(1);
    p.look_up(name, 20);
    p.insert(name, 20, 11);
    p.insert(name, 17, 17);
    p.remove(name, 15);
    p.on(0);
    p.replace(name, 17, 21);
    p.remove(name, 10);
    p.remove(name, 17);
    p.look_up(name, 15);
  }
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
template <shape_of_structure Shape, std::uint64_t Removals>
void one_dies_and_goes_on(player& p) {
  p.create("it", Shape);
  p.on(1);
  for (const std::uint64_t key : {5, 3, 7, 2, 4, 6}) p.insert("it", key, key);
  for (std::uint64_t key = 2; key < 2 + Removals; ++key) p.remove("it", key);
  p.settle();
  p.reopen();
  p.on_machine().explore_from_here();
  for (std::uint64_t key = 8; key <= 11; ++key) p.insert("it", key, key);
  p.remove("it", 6);
  p.remove("it", 9);
  p.remove("it", 5);
}

// Killed at each write-back and each fence of an insertion, a replacement and a removal, or when it has returned, with
// the power cut at any moment after that: what the next process has seen stays.
template <shape_of_structure Shape>
void three_keys(player& p) {
  p.create("it", Shape, 2);
  p.on(3);  // whose first node in each process has two levels, in a skip list
  for (const std::uint64_t key : {5, 20, 30}) p.put("it", key, word_value(key));
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
}
template <shape_of_structure Shape>
void is_killed_inserting(player& p) {
  three_keys<Shape>(p);
  unsigned point = 1;
  while (p.put_killed(point, "it", 10 + point, 1)) ++point;
  p.put("it", 9, word_value(1));
  p.reopen();
  p.look_up("it", 9);
  p.put("it", 8, word_value(1));
  p.remove("it", 11);
}
template <shape_of_structure Shape>
void is_killed_replacing(player& p) {
  three_keys<Shape>(p);
  unsigned point = 1;
  while (p.put_killed(point, "it", 20, 100 + point)) ++point;
  p.put("it", 20, word_value(1));
  p.reopen();
  p.look_up("it", 20);
  p.put("it", 19, word_value(1));
  p.remove("it", 20);
}
template <shape_of_structure Shape>
void is_killed_removing(player& p) {
  three_keys<Shape>(p);
  for (unsigned point = 1; p.remove_killed(point, "it", 20); ++point) p.put("it", 20, word_value(point));
  p.put("it", 20, word_value(2));
  p.close();
  p.reopen();
  for (unsigned point = 1; p.remove_killed(point, "it", 20); ++point) {
    p.put("it", 20, word_value(point));
    p.close();
    p.reopen();
  }
  p.remove("it", 5);
  p.reopen();
  p.look_up("it", 5);
  p.put("it", 4, word_value(1));
}
// While cells are put in.
void table_is_killed_growing(player& p) {
  p.create("it", words_hash, 1);
  for (std::uint64_t key = 1; key <= 8; ++key) p.put("it", key, word_value(key));
  for (unsigned growth = 0; growth < 3; ++growth) {
    p.fill_up("it");
    p.put("it", 100 + growth, word_value(1));
  }
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  for (std::uint64_t key = 200; key < 212; ++key) {
    if (!p.put_killed(static_cast<unsigned>(key - 200) % 8 + 1, "it", key, 1)) p.reopen();
    p.look_up("it", key);
    p.put("it", key, word_value(2));
  }
}

void is_killed_creating(player& p) {
  p.need_directory();
  p.close();
  p.reopen();
  p.on_machine().explore_from_here();
  for (unsigned point = 1; p.create_killed(point, "it", words_hash); ++point) {
    if (p.model().contains("it")) p.drop("it");
    // Where its pages were.
    p.create("other", words_list);
    p.put("other", 1, word_value(point));
    p.drop("other");
  }
}
void is_killed_dropping(player& p) {
  three_keys<words_hash>(p);
  for (unsigned point = 1; p.drop_killed(point, "it"); ++point) {
    if (!p.model().contains("it")) p.create("it", words_hash, 2);
    p.put("it", 7, word_value(point));
  }
}

// The thread that asks for the directory first makes it durable for all.
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

// Extents in which nothing is left go back to the pool, and to nodes of other sizes.
void extents_come_back(player& p) {
  p.create("it", bytes_hash, 1);
  std::uint64_t last = 0;
  while (p.try_put("it", last + 1, long_value(last + 1, 3900))) ++last;
  for (std::uint64_t key = 1; key <= last - 8; ++key) p.remove("it", key);
  p.on_machine().explore_from_here();
  for (std::uint64_t key = last - 7; key <= last; ++key) p.remove("it", key);
  for (std::uint64_t key = 100; key < 103; ++key) p.insert("it", key, long_value(key, 40));
  p.remove("it", 101);
  (void)p.try_put("it", 103, long_value(103, 700));
  p.close();
}
// A word is a thread's, and nothing is left in its extent.
void extent_stays_under_its_thread(player& p) {
  p.create("it", bytes_hash, 1);
  p.on(1);
  p.insert("it", 200, long_value(200, 3900));
  p.on(0);
  std::uint64_t last = 0;
  while (p.try_put("it", last + 1, long_value(last + 1, 3900))) ++last;
  for (std::uint64_t key = 1; key <= last; ++key) p.remove("it", key);
  p.on_machine().explore_from_here();
  p.remove("it", 200);
  p.settle();
  p.insert("it", 201, long_value(201, 40));
  p.on(1);
  p.insert("it", 202, long_value(202, 3900));
  p.remove("it", 201);
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
      {"a skip list lives", skip_list_lives},
      {"levels come and go", levels_come_and_go<1>},
      {"two levels come and go", levels_come_and_go<0>},
      {"a tree lives", tree_lives},
      {"a tree is emptied", tree_is_emptied},
      {"a settled list loses nodes", settled_one_loses_nodes<words_list>},
      {"a settled hash table loses nodes", settled_one_loses_nodes<words_hash>},
      {"a settled skip list loses nodes", settled_one_loses_nodes<words_skip>},
      {"a settled tree loses leaves", settled_one_loses_nodes<words_tree>},
      {"a skip list of bytes lives", bytes_live<bytes_skip>},
      {"a tree of bytes lives", bytes_live<bytes_tree>},
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
      {"threads take turns in order", threads_take_turns_in_order},
      {"threads end", threads_end},
      {"closed and opened", closed_and_opened},
      {"it dies and goes on", dies_and_goes_on<3>},
      {"it dies after freeing", dies_and_goes_on<2>},
      {"a skip list dies and goes on", one_dies_and_goes_on<words_skip, 3>},
      {"a skip list dies after freeing", one_dies_and_goes_on<words_skip, 2>},
      {"a tree dies and goes on", one_dies_and_goes_on<words_tree, 3>},
      {"a tree dies after freeing", one_dies_and_goes_on<words_tree, 2>},
      {"a list is killed inserting", is_killed_inserting<words_list>, 96, false},
      {"a list is killed replacing", is_killed_replacing<words_list>, 96, false},
      {"a list is killed removing", is_killed_removing<words_list>, 96, false},
      {"a hash table is killed inserting", is_killed_inserting<words_hash>, 96, false},
      {"a hash table is killed replacing", is_killed_replacing<words_hash>, 96, false},
      {"a hash table is killed removing", is_killed_removing<words_hash>, 96, false},
      {"a skip list is killed inserting", is_killed_inserting<words_skip>, 96, false},
      {"a skip list is killed replacing", is_killed_replacing<words_skip>, 96, false},
      {"a skip list is killed removing", is_killed_removing<words_skip>, 96, false},
      {"a tree is killed inserting", is_killed_inserting<words_tree>, 96, false},
      {"a tree is killed replacing", is_killed_replacing<words_tree>, 96, false},
      {"a tree is killed removing", is_killed_removing<words_tree>, 96, false},
      {"one is killed creating", is_killed_creating, 96, false},
      {"one is killed dropping", is_killed_dropping, 96, false},
      {"a table is killed growing", table_is_killed_growing, 96, false},
      {"one makes the directory", one_makes_the_directory},
      {"runs change hands", runs_change_hands},
      {"the pool is full", pool_is_full, 64},
      {"extents come back", extents_come_back, 288},
      {"an extent stays under its thread", extent_stays_under_its_thread, 288},
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
      {.name = "in_store", .in_store = true},
      {.name = "in_store_on_ssd", .image = true, .in_store = true},
  };
  return all;
}

}  // namespace nvm::tests
