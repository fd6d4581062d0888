// The stories about the log-structured heap.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "logheap_player.hpp"

namespace nvm::tests {

using logheap::home_t;

namespace {
// The cleaner's second pass fills a chunk in the middle of which the first one has ended, and goes on in another: what
// was saved is believed with the end of both.
void close_behind_an_old_end(logheap_player& p, bool cleaner_goes_on) {
  // Two to a chunk.
  std::vector<home_t> all;
  for (int i = 0; i < 6; ++i) all.push_back(p.put(432, 1 + i));
  const home_t last = p.put(24, 7);
  (void)p.commit([&](auto& t) {
    for (const std::size_t i : {0, 2, 4}) t.release(all[i]);
  });
  if (p.clean_once(1, true) != 1 || p.clean_once(2, true) != 2) std::abort();
  // Nothing lives after the old end any more, but its entries are counted.
  p.release(all[3]);
  p.release(all[5]);
  if (cleaner_goes_on && p.clean_once(0, false) != 0) std::abort();
  p.close_and_open();
  p.store(last, 24, 0x41);
}
// The second pass splits its copy over the rest of a chunk and another one, and can move the slot, not the contents.
void move_half_of_it_and_close(logheap_player& p) {
  const home_t first = p.put(432, 1);
  (void)p.put(432, 2);
  const home_t second = p.put(200, 3);
  (void)p.put(650, 4);
  const home_t last = p.put(24, 5);
  p.release(first);
  if (p.clean_once(1, true) != 1) std::abort();
  p.release(second);
  if (p.clean_without_nodes(1) != 0) std::abort();
  p.close_and_open();
  p.store(last, 24, 0x41);
}
// The cleaner copies more than a chunk holds; what it has copied from is used again.
void fill_a_chunk_and_go_on(logheap_player& p) {
  std::vector<home_t> all;
  for (int i = 0; i < 6; ++i) all.push_back(p.put(432, 1 + i));
  const home_t last = p.put(24, 7);
  (void)p.commit([&](auto& t) {
    for (const std::size_t i : {0, 2, 4}) t.release(all[i]);
  });
  if (p.clean_once(8, true) != 3) std::abort();
  p.store(last, 24, 0x41);
}
// Home space has room for two superblocks: what comes is where the one before was, and of another size.
void change_sizes(logheap_player& p) {
  const home_t stays = p.put(900, 1);
  for (int round = 0; round < 2; ++round) {
    std::vector<home_t> small;
    for (int i = 0; i < 3; ++i) small.push_back(p.put(24, 2 + i));
    p.store(small[1] + 8, 8, 0x21);
    (void)p.commit([&](auto& t) {
      for (const home_t at : small) t.release(at);
    });
    const home_t large = p.put(600, 0x31 + round);
    p.store(large + 100, 300, 0x41 + round);
    p.store(stays, 200, 0x51 + round);
    p.release(large);
  }
}
}  // namespace

const std::vector<logheap_story>& logheap_stories() {
  static const std::vector<logheap_story> all{
      {"a heap is made",
       [](logheap_player& p) {
         const home_t a = p.put(24, 1);
         p.store(a, 8, 2);
       },
       40, true},
      {"objects come, change and go",
       [](logheap_player& p) {
         const home_t a = p.put(40, 1);
         const home_t b = p.put(100, 2);
         p.store(a + 8, 16, 3);
         (void)p.commit([&](auto& t) {
           t.store(a, 8, 4);
           t.store(b + 50, 50, 5);
         });
         p.release(a);
         const home_t c = p.put(40, 6);
         p.store(c, 40, 7);
       }},
      {"a transaction has blocks in three logs",
       [](logheap_player& p) {
         const home_t a = p.put(64, 1);
         const home_t b = p.put(64, 2);
         (void)p.commit([&](auto& t) {
           const home_t c = t.allocate(80);
           t.store(c, 80, 3);
           t.store(a, 64, 4);
           t.release(b);
         });
         p.store(a, 8, 5);
       }},
      {"entries are split over chunks",
       [](logheap_player& p) {
         const home_t a = p.put(1500, 1);
         p.store(a + 100, 1300, 2);
         (void)p.commit([&](auto& t) {
           t.store(a, 900, 3);
           const home_t b = t.allocate(700);
           t.store(b, 700, 4);
         });
       }},
      {"two threads commit in turns",
       [](logheap_player& p) {
         const home_t a = p.put(64, 1);
         p.on(1);
         const home_t b = p.put(64, 2);
         p.on(0);
         p.store(b, 32, 3);
         p.on(1);
         p.store(a, 32, 4);
         (void)p.commit([&](auto& t) {
           t.store(a + 32, 32, 5);
           t.release(b);
         });
       }},
      {"chunks in which nothing lives are cleaned",
       [](logheap_player& p) {
         const home_t a = p.put(600, 1);
         for (int i = 2; i < 8; ++i) p.store(a, 600, i);
         if (p.clean(false) == 0) std::abort();
         p.store(a, 300, 9);
       }},
      {"what lives in chunks is moved",
       [](logheap_player& p) {
         const home_t a = p.put(200, 1);
         const home_t b = p.put(200, 2);
         for (int i = 3; i < 9; ++i) {
           p.store(a + 8 * static_cast<home_t>(i), 120, i);
           p.store(b, 180, i + 16);
         }
         p.on(1);
         p.store(a, 10, 3);
         p.on(0);
         if (p.clean(true) == 0) std::abort();
         p.store(b, 20, 9);
         p.release(a);
       }},
      // Design, section 7: the chunk of one block of a transaction is recycled, and the other block's peer is gone.
      {"a block's peer is cleaned away",
       [](logheap_player& p) {
         const home_t a = p.put(400, 1);
         const home_t b = p.put(400, 2);
         p.on(1);
         // A block in the update log, another one in the deallocation log, which takes no more.
         (void)p.commit([&](auto& t) {
           t.store(a, 300, 3);
           t.release(b);
         });
         for (int i = 4; i < 8; ++i) p.store(a, 400, i);
         if (p.clean(true) == 0) std::abort();
       }},
      // And: a tombstone goes before what it hides.
      {"a tombstone outlives what it hides",
       [](logheap_player& p) {
         const home_t x = p.put(500, 1);
         std::vector<home_t> small;
         const home_t keep = p.put(300, 2);  // in the chunk of the first allocation
         p.release(x);
         // The tombstone's chunk fills up with others.
         (void)p.commit([&](auto& t) {
           for (int i = 0; i < 20; ++i) small.push_back(t.allocate(16));
         });
         for (int round = 0; round < 4; ++round) {
           (void)p.commit([&](auto& t) {
             for (const home_t s : small) t.release(s);
             small.clear();
           });
           (void)p.commit([&](auto& t) {
             for (int i = 0; i < 20; ++i) small.push_back(t.allocate(16));
           });
         }
         (void)p.clean(true);
         p.store(keep, 8, 3);
       },
       64},
      {"a heap is closed before anything else is done",
       [](logheap_player& p) {
         p.close_and_open();
         (void)p.put(50, 1);
         (void)p.clean_once(1, true);
       }},
      {"a heap is closed and opened",
       [](logheap_player& p) {
         const home_t a = p.put(300, 1);
         const home_t b = p.put(50, 2);
         p.store(a, 100, 3);
         p.close_and_open();
         p.store(b, 50, 4);
         p.release(a);
         p.close_and_open();
         (void)p.put(20, 5);
       }},
      // What is saved lies in another chunk than the next commit takes first.
      {"what was saved is of no use any more",
       [](logheap_player& p) {
         const home_t a = p.put(600, 1);
         for (int i = 2; i < 8; ++i) p.store(a, 600, i);
         (void)p.clean(true);
         p.close_and_open();
         p.store(a, 300, 9);
       }},
      {"a cleaner's chunk is closed behind an old end", [](logheap_player& p) { close_behind_an_old_end(p, false); },
       64},
      {"a cleaner that has nothing to do leaves a chunk for good",
       [](logheap_player& p) { close_behind_an_old_end(p, true); }, 64},
      {"a cleaner moves half of what it has copied, and the heap is closed", move_half_of_it_and_close, 64},
      {"copies go bad at any moment", fill_a_chunk_and_go_on, 64, false, 65536, false, true},
      {"home addresses go to objects of another size", change_sizes, 40, false, 2048},
      {"home addresses go to objects of another size, by several threads and after a close",
       [](logheap_player& p) {
         change_sizes(p);
         p.close_and_open();
         p.on(1);
         const home_t a = p.put(100, 7);
         p.release(a);
         p.on(2);
         (void)p.put(400, 8);
       },
       40, false, 2048},
      // Nearly all of its only chunk lives, so that nothing is cleaned after it was sealed.
      {"a thread's log is sealed by an allocation of another that comes to nothing",
       [](logheap_player& p) {
         p.on(1);
         const home_t small = p.put(16, 1);
         (void)p.put(700, 2);
         p.release(small);
         p.on(2);
         p.fail_to_allocate(600);
         p.on(3);
         p.close_and_open();
       },
       40, false, 2048, true},
      {"chunks are taken by one thread and filled by another",
       [](logheap_player& p) {
         p.fail_to_commit();
         p.on(1);
         (void)p.put(100, 1);
       }},
      {"a heap is opened without having been closed",
       [](logheap_player& p) {
         const home_t a = p.put(300, 1);
         p.store(a, 100, 2);
         p.end_and_open();
         p.store(a + 50, 100, 3);
         p.end_and_open();
         p.release(a);
       }},
      {"committers are killed",
       [](logheap_player& p) {
         const home_t a = p.put(64, 1);
         home_t b = p.put(64, 2);
         for (unsigned point = 1;; ++point) {
           home_t c = 0;
           const bool killed = p.commit_killed(point, [&](auto& t) {
             c = t.allocate(80);
             t.store(c, 80, static_cast<int>(point));
             t.store(a, 64, static_cast<int>(point));
             t.release(b);
           });
           if (p.model().contains(c)) b = c;
           if (!killed) break;
           p.store(a, 8, 5);
           (void)p.clean(true);
         }
       },
       96},
      {"cleaners are killed",
       [](logheap_player& p) {
         const home_t a = p.put(200, 1);
         const home_t b = p.put(200, 2);
         for (unsigned point = 1;; ++point) {
           for (int i = 3; i < 9; ++i) {
             p.store(a + 8 * static_cast<home_t>(i), 120, i);
             p.store(b, 180, i + 16);
           }
           if (!p.clean_killed(point)) break;
           for (unsigned thread = 0; thread < 3; ++thread) {
             p.on(thread);
             p.store(a, 8, static_cast<int>(point));
           }
         }
       },
       96},
  };
  return all;
}
const logheap_story& logheap_story_named(const char* name) {
  for (const logheap_story& s : logheap_stories()) {
    if (std::strcmp(s.name, name) == 0) return s;
  }
  std::fprintf(stderr, "no story is called %s\n", name);
  std::abort();
}

}  // namespace nvm::tests
