#include "kv_stories.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

namespace nvm::tests {
namespace {

void need(bool good) {
  if (!good) std::abort();
}

// Eight bytes in no order; for all but the red-black tree also texts that begin alike, some of them long, and one that
// begins another.
std::string key_of(enum nvm_kv_index index, std::uint64_t n) {
  const std::uint64_t mixed = __builtin_bswap64(n * 0x9E3779B97F4A7C15);
  const std::string number(reinterpret_cast<const char*>(&mixed), 8);
  if (index == NVM_KV_RBTREE || n % 3 == 0) return number;
  const std::string path = "/usr/share/doc/" + std::to_string(n / 3 % 4);
  return n % 3 == 1 ? path + "/" + std::to_string(n) : path + std::string(n % 11 * 8, 'x') + std::to_string(n);
}
// In the order of their numbers, so that everything happens at one end.
std::string ascending(std::uint64_t n) {
  const std::uint64_t big = __builtin_bswap64(n);
  return {reinterpret_cast<const char*>(&big), 8};
}
std::string value_of(std::uint64_t n, std::size_t bytes) { return std::string(bytes, static_cast<char>('a' + n % 26)); }

const std::string one = "one";

void with_store(kv_player& p, enum nvm_kv_index index) { p.open(one, index); }
void nothing(kv_player&, enum nvm_kv_index) {}

std::vector<kv_player::change> many(enum nvm_kv_index index, std::uint64_t from, std::uint64_t to, std::size_t bytes) {
  std::vector<kv_player::change> all;
  for (std::uint64_t n = from; n < to; ++n) all.push_back({one, key_of(index, n), value_of(n, bytes)});
  return all;
}
std::vector<kv_player::change> without(enum nvm_kv_index index, std::uint64_t from, std::uint64_t to) {
  std::vector<kv_player::change> all;
  for (std::uint64_t n = from; n < to; ++n) all.push_back({one, key_of(index, n), "", true});
  return all;
}

// The first store of a pool, and everything that can be done to an entry.
void entries_come_and_go(kv_player& p, enum nvm_kv_index index) {
  p.open(one, index);
  const auto k = [&](std::uint64_t n) { return key_of(index, n); };
  for (std::uint64_t n = 0; n < 5; ++n) p.put(one, k(n), value_of(n, 20 + 9 * n));
  p.put(one, k(1), value_of(7, 29));   // as long as it was
  p.put(one, k(2), value_of(8, 33));   // shorter, in its place
  p.put(one, k(3), value_of(9, 200));  // somewhere else
  p.put(one, k(4), value_of(4, 2));    // much shorter, somewhere else
  p.remove(one, k(0));
  p.update(one, k(3), 100, 70, 'u');
  p.update(one, k(1), 3, 1, 'v');
  p.remove(one, k(4));
  p.put(one, k(0), "");
  p.put(one, k(4), value_of(5, 64));
  p.look();
}

// Small entries one by one: a leaf is split and another, buckets fill up, a tree is balanced; then it shrinks again.
void it_grows_and_shrinks(kv_player& p, enum nvm_kv_index index) {
  const auto k = [&](std::uint64_t n) { return key_of(index, n); };
  for (std::uint64_t n = 11; n < 16; ++n) p.put(one, k(n), value_of(n, 8));
  need(p.batch(many(index, 16, 24, 8)));
  for (std::uint64_t n = 24; n < 30; ++n) p.put(one, k(n), value_of(n, 8));
  need(p.batch(without(index, 0, 20)));
  for (std::uint64_t n = 20; n < 29; ++n) p.remove(one, k(n));
  p.look();
  p.remove(one, k(29));
  p.put(one, k(1), "again");
}
void eleven(kv_player& p, enum nvm_kv_index index) {
  p.open(one, index);
  need(p.batch(many(index, 0, 11, 8)));
}

// At one end only, as a log does.
void it_grows_at_its_end(kv_player& p, enum nvm_kv_index) {
  for (std::uint64_t n = 24; n < 30; ++n) p.put(one, ascending(n), value_of(n, 12));
  for (std::uint64_t n = 0; n < 16; ++n) p.remove(one, ascending(n));
  p.look();
}
void twenty_four_in_order(kv_player& p, enum nvm_kv_index index) {
  p.open(one, index);
  std::vector<kv_player::change> all;
  for (std::uint64_t n = 0; n < 24; ++n) all.push_back({one, ascending(n), value_of(n, 12)});
  need(p.batch(all));
}

// Hundreds of entries: inner nodes are split and become one again, the table of buckets gets its next level.
void a_large_one_grows_and_shrinks(kv_player& p, enum nvm_kv_index index) {
  need(p.batch(many(index, 316, 322, 0)));
  for (std::uint64_t n = 322; n < 326; ++n) p.put(one, key_of(index, n), "");
  need(p.batch(many(index, 326, 340, 0)));
  need(p.batch(without(index, 0, 160)));
  p.remove(one, key_of(index, 161));
  need(p.batch(without(index, 170, 330)));
  p.look();
}
void hundreds(kv_player& p, enum nvm_kv_index index) {
  p.open(one, index);
  for (std::uint64_t n = 0; n < 316; n += 79) need(p.batch(many(index, n, n + 79, 0)));
}

// From nothing to many pages, and back.
void values_have_every_size(kv_player& p, enum nvm_kv_index index) {
  const std::string k = key_of(index, 1);
  p.put(one, key_of(index, 2), value_of(2, 30));
  for (const std::size_t bytes : {0, 1, 100, 4096, 4090, 5000, 17000, 9000, 40, 0}) {
    p.put(one, k, value_of(bytes, bytes));
    if (bytes > 60) p.update(one, k, bytes / 2, 33, 'm');
  }
  p.put(one, k, value_of(3, 9000));
  p.remove(one, k);
  p.look();
}

// Several stores, of several kinds, in one step.
void batches_span_stores(kv_player& p, enum nvm_kv_index index) {
  const std::string two = "two";
  for (std::uint64_t n = 0; n < 4; ++n) {
    const std::string k = key_of(index, n);
    std::vector<kv_player::change> all{{one, k, value_of(n, 50)}, {two, ascending(n), value_of(n, 150)}};
    if (n > 0) all.push_back({one, key_of(index, n - 1), "", true});
    all.push_back({two, ascending(0), value_of(n + 9, 60 + 200 * (n % 2))});
    all.push_back({one, k, value_of(n + 5, 50)});  // the same key twice
    need(p.batch(all));
  }
  p.look();
}
void two_stores(kv_player& p, enum nvm_kv_index index) {
  p.open(one, index);
  p.open("two", index == NVM_KV_HASH ? NVM_KV_BTREE : NVM_KV_HASH);
}

// Calls in a transaction of the program, with levels in it that fail.
void calls_are_part_of_a_transaction(kv_player& p, enum nvm_kv_index index) {
  p.put(one, key_of(index, 0), "zero");
  for (std::uint64_t n = 1; n < 5; ++n) {
    const std::vector<kv_player::change> all{{one, key_of(index, n), value_of(n, 40)},
                                             {one, key_of(index, n - 1), value_of(n, 90)},
                                             {"two", ascending(n), value_of(n, 20)},
                                             {one, key_of(index, 0), "", n % 2 == 1}};
    p.transaction(all, n != 3);
  }
  p.look();
}

// The pool has no room for all of a batch: nothing of it is there, and the pool goes on.
void the_pool_is_full_in_the_middle_of_a_batch(kv_player& p, enum nvm_kv_index index) {
  p.put(one, key_of(index, 0), value_of(0, 100));
  std::vector<kv_player::change> all{{one, key_of(index, 0), "", true}};
  for (std::uint64_t n = 1; n < 60; ++n) all.push_back({one, key_of(index, n), value_of(n, 1900)});
  need(!p.batch(all));
  p.look();
  // Pages of regions of one size are not those of another.
  const bool keeps_size = index == NVM_KV_REGIONS;
  p.put(one, key_of(index, 1), value_of(1, keeps_size ? 1900 : 2000));
  need(!p.batch(all));
  // Until it is full: one after the other.
  std::uint64_t n = 2;
  const std::size_t bytes = keeps_size ? 1900 : 3000;
  while (p.batch({{one, key_of(index, n), value_of(n, bytes)}})) ++n;
  need(n > 4);
  p.look();
  need(p.batch({{one, key_of(index, 1), "", true}, {one, key_of(index, 2), "", true}}));
  need(p.batch({{one, key_of(index, 90), value_of(n, bytes)}}));
  p.look();
}

// Stores are made, filled, take another's place and are dropped, one of them in several steps.
void stores_come_and_go(kv_player& p, enum nvm_kv_index index) {
  p.open("two", index);
  p.put("two", key_of(index, 1), value_of(1, 700));
  p.open("three", NVM_KV_LIST);
  p.put("three", "k", value_of(2, 40));
  p.rename("two", "three");
  p.drop("three");
  p.drop(one);
  p.open(one, index);
  p.put(one, key_of(index, 3), "new");
  p.look();
}
void two_hundred(kv_player& p, enum nvm_kv_index index) {
  p.open(one, index);
  for (std::uint64_t n = 0; n < 200; n += 50) need(p.batch(many(index, n, n + 50, n == 50 ? 90 : 0)));
}

// Two threads by turns, on the same nodes.
void two_threads_take_turns(kv_player& p, enum nvm_kv_index index) {
  for (std::uint64_t n = 0; n < 6; ++n) {
    p.put(one, key_of(index, n), value_of(n, 40));
    p.on_another_thread([&] {
      p.put(one, key_of(index, n + 20), value_of(n + 3, 40));
      if (n > 1) p.remove(one, key_of(index, n - 2));
      if (n == 3) p.update(one, key_of(index, 3), 5, 20, 'o');
    });
  }
  p.look();
}

// Processes end in order, or without a word; the next one goes on.
void processes_follow_each_other(kv_player& p, enum nvm_kv_index index) {
  for (std::uint64_t n = 0; n < 4; ++n) {
    need(p.batch({{one, key_of(index, n), value_of(n, 60)}, {one, key_of(index, n + 50), value_of(n, 10)}}));
    if (n > 0) p.remove(one, key_of(index, n - 1));
    if (n % 2 == 1) p.checkpoint();
    if (n == 2) p.close();
    p.reopen();
    p.put(one, key_of(index, n), value_of(n + 1, 60));
  }
  p.look();
}

// ---- random ---------------------------------------------------------------------------------------------------------

class random_caller {
 public:
  random_caller(kv_player& p, enum nvm_kv_index index, std::uint64_t seed) : p_{p}, index_{index}, random_{seed} {}

  void call() {
    const std::string& store = pick(4) == 0 ? two : one;
    switch (pick(16)) {
      case 0:
        return drop_or_rename();
      case 1:
        p_.close();
        return p_.reopen();
      case 2:
        return p_.reopen();
      case 3:
        return p_.checkpoint();
      case 6:
        if (!is_of_regions()) return p_.transaction(changes(1 + pick(4)), pick(3) != 0);
        [[fallthrough]];
      case 4:
      case 5:
        (void)p_.batch(changes(1 + pick(30)));
        return;
      case 7:
      case 8:
      case 9:
        if (const auto* key = some_key(store)) p_.remove(store, *key);
        return;
      case 10:
      case 11:
        return update(store);
      case 12:
        return p_.on_another_thread([&] { put(store); });
      default:
        return put(store);
    }
  }

 private:
  std::uint64_t pick(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] bool is_of_regions() const { return index_ == NVM_KV_REGIONS; }
  // Mostly small; the pool must not fill up.
  std::string some_value() { return value_of(pick(26), pick(12) == 0 ? pick(3000) : pick(120)); }
  std::string new_key() { return key_of(index_, pick(40)); }
  const std::string* some_key(const std::string& store) {
    const auto& all = p_.entries(store);
    if (all.empty()) return nullptr;
    return &std::next(all.begin(), static_cast<std::ptrdiff_t>(pick(all.size())))->first;
  }
  void put(const std::string& store) { (void)p_.batch({{store, new_key(), some_value()}}); }
  void update(const std::string& store) {
    const auto* key = some_key(store);
    if (key == nullptr) return;
    const std::size_t bytes = p_.entries(store).at(*key).size();
    if (bytes == 0) return;
    const std::size_t from = pick(bytes);
    p_.update(store, *key, from, 1 + pick(bytes - from), 'z');
  }
  std::vector<kv_player::change> changes(std::uint64_t count) {
    std::vector<kv_player::change> all;
    const bool in_two = pick(3) == 0;
    while (count-- > 0) {
      const std::string& store = (is_of_regions() ? in_two : pick(3) == 0) ? two : one;
      if (pick(3) == 0) {
        all.push_back({store, new_key(), "", true});
      } else {
        all.push_back({store, new_key(), value_of(pick(26), pick(60))});
      }
    }
    return all;
  }
  void drop_or_rename() {
    if (pick(2) == 0) {
      p_.drop(two);
    } else {
      p_.rename(one, two);
      p_.open(one, index_);
    }
    if (!p_.has(two)) p_.open(two, index_);
  }

  const std::string two = "two";
  kv_player& p_;
  enum nvm_kv_index index_;
  std::mt19937_64 random_;
};

// In an object store.
void the_first_of_an_object_store(kv_player& p, enum nvm_kv_index index) {
  p.open(one, index);
  p.put(one, key_of(index, 1), value_of(1, 40));
  p.open("two", index);
  p.drop("two");
  p.look();
}
void detached_and_attached(kv_player& p, enum nvm_kv_index index) {
  p.put(one, key_of(index, 30), value_of(1, 40));
  p.detach();
  p.remove(one, key_of(index, 30));
  p.put(one, key_of(index, 31), value_of(1, 3000));
  p.detach();
  p.look();
}
void an_object_store_goes(kv_player& p, enum nvm_kv_index index) {
  p.delete_home();
  p.make_home();
  p.open(one, index);
  p.put(one, key_of(index, 1), value_of(1, 40));
  p.delete_home();
}

const crash_shape usual{10, 192, 192, 3, 8192, 64 * 1024};
const crash_shape roomy{10, 448, 448, 3, 8192, 64 * 1024};
const crash_shape large{10, 320, 320, 3, 64 * 1024, 256 * 1024};
const crash_shape growing{10, 24, 192, 3, 8192, 64 * 1024};
const crash_shape tight{10, 72, 72, 3, 8192, 256 * 1024};

}  // namespace

const std::vector<kv_story>& kv_stories() {
  static const std::vector<kv_story> all{
      {"entries come and go", nothing, entries_come_and_go, usual},
      {"it grows and shrinks", eleven, it_grows_and_shrinks, usual},
      {"it grows at its end", twenty_four_in_order, it_grows_at_its_end, usual},
      {"a large one grows and shrinks", hundreds, a_large_one_grows_and_shrinks, large, 64},
      {"values have every size", with_store, values_have_every_size, growing},
      {"batches span stores", two_stores, batches_span_stores, usual, 1, false},
      {"calls are part of a transaction", two_stores, calls_are_part_of_a_transaction, usual, 1, false},
      {"the pool is full in the middle of a batch", with_store, the_pool_is_full_in_the_middle_of_a_batch, tight, 4},
      {"stores come and go", two_hundred, stores_come_and_go, usual, 8},
      {"two threads take turns", with_store, two_threads_take_turns, usual},
      {"processes follow each other", with_store, processes_follow_each_other, usual},
  };
  return all;
}

const kv_story& kv_story_named(const char* name) {
  for (const kv_story& s : kv_stories()) {
    if (std::strcmp(s.name, name) == 0) return s;
  }
  std::fprintf(stderr, "no story '%s'\n", name);
  std::abort();
}

explore::options options_for(const kv_story& s, explore::model m) {
  explore::options o = options_for(m);
  o.promise_at_op_end = true;  // a call that returned is durable on every medium
  o.nested_every = 32 * s.thin;
  o.after_every = 64 * s.thin;
  o.full_points_max = s.thin == 1 ? 8 : 3;
  return o;
}

const std::vector<kv_story>& kv_stories_at_home() {
  static const std::vector<kv_story> all{
      {"the first one of an object store", nothing, the_first_of_an_object_store, usual},
      {"detached and attached", eleven, detached_and_attached, usual},
      {"an object store goes with its stores", two_hundred, an_object_store_goes, usual, 8},
  };
  return all;
}

explore::subject subject_of(const kv_story& s, kind_of_medium kind, enum nvm_kv_index index, kv_home where) {
  const auto before = [&](kv_player& p) { s.before(p, index); };
  crash_shape shape = s.shape;
  // The directory of sets, their log, and extents of each size.
  if (index == NVM_KV_REGIONS)
    shape.size_pages = shape.capacity_pages += s.shape.size_pages == tight.size_pages ? 60 : 256;
  return kv_subject_from(
      kind, std::string{s.name} + ", " + nvm_kv_index_name(index),
      [steps = s.steps, index](kv_player& p) { steps(p, index); }, kv_image_after(kind, shape, before, 1, where),
      where);
}

explore::subject random_kv_subject(std::uint64_t seed, unsigned operations, kind_of_medium kind,
                                   enum nvm_kv_index index) {
  const auto before = [&](kv_player& p) {
    p.open(one, index);
    p.open("two", index);
  };
  return kv_subject_from(
      kind, "random calls of seed " + std::to_string(seed) + ", " + nvm_kv_index_name(index),
      [=](kv_player& p) {
        random_caller c{p, index, seed};
        for (unsigned i = 0; i < operations; ++i) c.call();
        p.look();
      },
      kv_image_after(kind, index == NVM_KV_REGIONS ? roomy : usual, before, seed));
}

}  // namespace nvm::tests
