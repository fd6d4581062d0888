// Reference counts survive a crash at any point of commits, of the transactions that apply their records, and of those
// that free dead objects: afterwards the graph is one that was committed, counts are those of its pointers, and every
// object that is left is referred to.
//
// Method: the C interface on a pool of the explorer, which each process opens as nvm_pool_open() does; the oracle reads
// the image with code of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <regex>

#include "../object/sample_types.hpp"
#include "api/pool_object.hpp"
#include "nvm/gc.h"
#include "nvm/stm.h"
#include "source_places.hpp"
#include "space/space.hpp"
#include "subjects.hpp"
#include "today.hpp"
#include "whole_pool.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::fault;
using explore::machine;
using explore::model;
using explore::options;
using explore::pass;
using explore::report;
using explore::subject;
using explore::verdict;
using explore::window;

struct pair {
  std::uint64_t number;
  pair* left;
  pair* right;
  pair* up;  // weak
};
constexpr std::uint32_t pair_id = layout::type_id_of("pair");

void know_types() {
  static const bool known = [] {
    using enum layout::field_kind;
    type_map_writer w;
    w.add({"pair",
           32,
           8,
           {field("number", 0, unsigned_integer, 8), field("left", 8, pointer, 8, 1, pair_id),
            field("right", 16, pointer, 8, 1, pair_id), field("up", 24, weak_pointer, 8, 1, pair_id)}});
    const auto words = w.finish();
    return nvm_register_types(words.data(), words.size() * 8) == 0;
  }();
  ASSERT_TRUE(known) << nvm_errormsg();
}

// How a kind of pool takes stores.
class writer {
 public:
  virtual ~writer() = default;
  virtual pair* make(std::uint64_t number) = 0;
  virtual void set(pair** field, pair* to) = 0;
  virtual void set_root(pair* to) = 0;
  virtual void free(pair* what) = 0;
  // `body` in a level that is rolled back.
  virtual void in_vain(const std::function<void(writer&)>& body) = 0;
};
using step = std::function<void(writer&)>;

class announced final : public writer {
 public:
  explicit announced(NVM_POOL* pool) : pool_{pool} {}
  static void run(NVM_POOL* pool, const step& body) {
    announced w{pool};
    ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
    body(w);
    ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  }
  pair* make(std::uint64_t number) override {
    auto* p = static_cast<pair*>(stored(nvm_alloc_of(sizeof(pair))));
    if (p != nullptr) *p = {number, nullptr, nullptr, nullptr};
    return p;
  }
  void set(pair** field, pair* to) override {
    ASSERT_EQ(nvm_tx_log(field, sizeof *field), 0) << nvm_errormsg();
    *field = to;
  }
  void set_root(pair* to) override { ASSERT_TRUE(transaction().set_root(offset_of(to))) << last_message(); }
  void free(pair* what) override { ASSERT_TRUE(transaction().let_go(offset_of(what))) << last_message(); }
  void in_vain(const std::function<void(writer&)>& body) override {
    ASSERT_EQ(nvm_tx_begin(pool_), 0);
    body(*this);
    ASSERT_EQ(nvm_tx_abort(pool_), 0);
  }

 private:
  tx::open_transaction& transaction() { return *api::thread_transactions::mine().in(pool_)->transaction; }
  std::uint64_t offset_of(const void* p) const {
    return p == nullptr ? 0 : static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - pool_->base());
  }
  result<std::uint64_t> nvm_alloc_of(std::uint64_t bytes) { return transaction().allocate(pair_id, bytes); }
  void* stored(const result<std::uint64_t>& at) {
    EXPECT_TRUE(at) << last_message();
    return at ? pool_->base() + *at : nullptr;
  }
  NVM_POOL* pool_;
};

class through_barriers final : public writer {
 public:
  explicit through_barriers(nvm_stm* tx) : tx_{tx} {}
  static void run(NVM_POOL* pool, const step& body) {
    const auto call = [](nvm_stm* tx, void* raw) {
      through_barriers w{tx};
      (*static_cast<const step*>(raw))(w);
      return 0;
    };
    ASSERT_EQ(nvm_stm_run(pool, call, const_cast<step*>(&body)), 0) << nvm_errormsg();
  }
  pair* make(std::uint64_t number) override {
    auto* p = static_cast<pair*>(nvm_stm_alloc(tx_, pair_id, sizeof(pair)));
    nvm_stm_store64(tx_, &p->number, number);
    for (pair** f : {&p->left, &p->right, &p->up}) set(f, nullptr);
    return p;
  }
  void set(pair** field, pair* to) override {
    nvm_stm_store64(tx_, reinterpret_cast<std::uint64_t*>(field), reinterpret_cast<std::uint64_t>(to));
  }
  void set_root(pair* to) override { nvm_stm_set_root(tx_, to); }
  void free(pair* what) override { nvm_stm_free(tx_, what); }
  void in_vain(const std::function<void(writer&)>&) override {}  // leaving a level needs a stack of its own

 private:
  nvm_stm* tx_;
};

// ---- what is done, and what it makes of the graph -------------------------------------------------------------------

using graph = std::map<std::uint64_t, std::array<std::uint64_t, 3>>;  // number -> left, right, up; 0: null

struct story_step {
  const char* name;
  std::function<void(writer&, std::map<std::uint64_t, pair*>&)> run;  // nullptr: what `call` does
  std::function<void(graph&)> model;
  // Outside of a transaction; nullptr: everything is settled.
  std::function<void(NVM_POOL*, std::map<std::uint64_t, pair*>&)> call = nullptr;
  std::function<void(graph&)> halfway = nullptr;  // what a crash may leave besides
};
std::uint64_t place_in(NVM_POOL* pool, const pair* p) {
  return static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(p) - pool->base());
}
void settle(NVM_POOL* pool) {
  object::references& counts = pool->references->counts();
  EXPECT_TRUE(counts.settle(object::references::how::at_rest)) << last_message();
  EXPECT_TRUE(pool->engine->wait(counts.sums().last_lsn)) << last_message();
}

// Object 1 is the root.
using objects = std::map<std::uint64_t, pair*>;
std::vector<story_step> strong_steps() {
  return {
      {"a root", [](writer& w, objects& o) { w.set_root(o[1] = w.make(1)); }, [](graph& g) { g[1] = {}; }},
      {"a chain of two",
       [](writer& w, objects& o) {
         o[2] = w.make(2);
         o[3] = w.make(3);
         w.set(&o[1]->left, o[2]);
         w.set(&o[2]->left, o[3]);
         w.set(&o[2]->up, o[1]);
       },
       [](graph& g) {
         g[1][0] = 2;
         g[2] = {3, 0, 1};
         g[3] = {};
       }},
      {"a second reference", [](writer& w, objects& o) { w.set(&o[1]->right, o[3]); }, [](graph& g) { g[1][1] = 3; }},
      {"an inner level in vain",
       [](writer& w, objects& o) {
         w.set(&o[3]->up, o[1]);
         w.in_vain([&](writer& inner) {
           inner.set(&o[1]->left, nullptr);
           inner.set(&o[3]->left, inner.make(9));
         });
       },
       [](graph& g) { g[3][2] = 1; }},
      {"the chain unlinked", [](writer& w, objects& o) { w.set(&o[1]->left, nullptr); },
       [](graph& g) {
         g[1][0] = 0;
         g.erase(2);
       }},
      {"settled", nullptr, [](graph&) {}},
      {"freed though it is referred to", [](writer& w, objects& o) { w.free(o[3]); }, [](graph&) {}},
      {"replaced",
       [](writer& w, objects& o) {
         o[4] = w.make(4);
         w.set(&o[4]->left, o[4]);  // and not: what is the same afterwards is no change
         w.set(&o[4]->left, nullptr);
         w.set(&o[1]->right, o[4]);
         w.set(&o[1]->up, o[4]);
       },
       [](graph& g) {
         g.erase(3);
         g[4] = {};
         g[1] = {0, 4, 4};
       }},
      {"settled", nullptr, [](graph&) {}},
      {"another root",
       [](writer& w, objects& o) {
         o[5] = w.make(5);
         w.set(&o[5]->left, o[4]);
         w.set(&o[1]->up, nullptr);
         w.set_root(o[5]);
       },
       [](graph& g) {
         g.erase(1);
         g[5] = {4, 0, 0};
       }},
      {"settled", nullptr, [](graph&) {}},
  };
}
// Objects 5 and 4 are what those have left.
std::vector<story_step> weak_steps() {
  return {
      {"a weak pointer to one that is let go",
       [](writer& w, objects& o) {
         o[6] = w.make(6);
         w.set(&o[5]->right, o[6]);
         w.set(&o[4]->up, o[6]);
         w.set(&o[6]->up, o[5]);
       },
       [](graph& g) {
         g[5][1] = g[4][2] = 6;
         g[6] = {0, 0, 5};
       }},
      {"let go", [](writer& w, objects& o) { w.set(&o[5]->right, nullptr); },
       [](graph& g) {
         g[5][1] = g[4][2] = 0;
         g.erase(6);
       }},
      {"settled, and the weak pointer is null", nullptr, [](graph&) {}},
      {"another that is held",
       [](writer& w, objects& o) {
         o[7] = w.make(7);
         w.set(&o[5]->right, o[7]);
         w.set(&o[4]->up, o[7]);
       },
       [](graph& g) {
         g[5][1] = g[4][2] = 7;
         g[7] = {};
       }},
      {"unlinked", [](writer& w, objects& o) { w.set(&o[5]->right, nullptr); },
       [](graph& g) {
         g[5][1] = g[4][2] = 0;
         g.erase(7);
       }},
      {"settled while it is held", nullptr, [](graph&) {},
       [](NVM_POOL* pool, objects& o) {
         EXPECT_TRUE(pool->held.add(place_in(pool, o[7])));
         settle(pool);
         EXPECT_EQ(o[4]->up, o[7]);
       }},
      {"linked again by the weak pointer", [](writer& w, objects& o) { w.set(&o[5]->right, o[4]->up); },
       [](graph& g) {
         g[5][1] = g[4][2] = 7;
         g[7] = {};
       }},
      {"dropped and settled", nullptr, [](graph&) {},
       [](NVM_POOL* pool, objects& o) {
         EXPECT_TRUE(pool->held.take(place_in(pool, o[7])));
         settle(pool);
       }},
  };
}
std::vector<story_step> collected_steps() {
  return {
      {"a cycle with a weak pointer to it",
       [](writer& w, objects& o) {
         w.set(&o[7]->left, o[7]);
         w.set(&o[5]->right, nullptr);
       },
       [](graph& g) {
         g[7][0] = 7;
         g[5][1] = 0;
       }},
      {"collected", nullptr,
       [](graph& g) {
         g[4][2] = 0;
         g.erase(7);
       },
       [](NVM_POOL* pool, objects&) {
         nvm_gc_options alone{};
         alone.threads = 1;
         nvm_gc_report r{};
         EXPECT_EQ(nvm_gc(pool, &alone, &r), 0) << nvm_errormsg();
         if (planted_bug != plant::none) return;
         EXPECT_EQ(r.freed_objects, 1U);
         EXPECT_EQ(r.weak_pointers, 1U);
       },
       [](graph& g) { g[4][2] = 0; }},
  };
}
const std::vector<story_step>& story() {
  static const std::vector<story_step> all = [] {
    std::vector<story_step> steps = strong_steps();
    for (const auto& more : {weak_steps(), collected_steps()}) steps.insert(steps.end(), more.begin(), more.end());
    return steps;
  }();
  return all;
}
graph after(std::uint64_t steps) {
  graph g;
  for (std::uint64_t i = 0; i < steps && i < story().size(); ++i) story()[i].model(g);
  return g;
}

// ---- processes ------------------------------------------------------------------------------------------------------

status start_counting(NVM_POOL* pool) {
  pool->types_seen = 0;
  if (status s = api::bring_types(pool); !s) return s;
  return api::start_references(pool, NVM_COLLECT_AT_REST);
}
void stop_counting(NVM_POOL* pool) {
  pool->references->finish();
  pool->references.reset();
  pool->engine->count_references(nullptr);
}

std::vector<std::byte> counted_image(kind_of_medium kind, std::uint32_t lanes = 2) {
  crash_shape shape;
  shape.lanes = lanes;
  shape.size_pages = shape.capacity_pages = 48;
  shape.lane_bytes = 2048;
  const std::vector<std::byte> fresh = new_image(shape, kind);
  machine m(fresh.size(), is_image(kind) ? nullptr : place_of_whole_pools());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  {
    const auto p = open_whole(m, kind);
    EXPECT_NE(p, nullptr) << last_message();
    const status started = start_counting(p->handle());
    EXPECT_TRUE(started) << last_message();
    if (started) stop_counting(p->handle());
    EXPECT_TRUE(p->close()) << last_message();
  }
  return {m.base(), m.base() + m.size()};
}

void play(machine& m, kind_of_medium kind, bool barriers) {
  const auto p = open_whole(m, kind);
  ASSERT_NE(p, nullptr) << last_message();
  NVM_POOL* const pool = p->handle();
  ASSERT_TRUE(start_counting(pool)) << last_message();
  std::map<std::uint64_t, pair*> objects;
  for (const story_step& s : story()) {
    m.op_begin();
    if (s.run == nullptr) {
      s.call == nullptr ? settle(pool) : s.call(pool, objects);
    } else {
      const step body = [&](writer& w) { s.run(w, objects); };
      barriers ? through_barriers::run(pool, body) : announced::run(pool, body);
    }
    m.op_end();
  }
  stop_counting(pool);
}

// ---- the oracle -----------------------------------------------------------------------------------------------------

verdict judge(const machine& m, const window& w) {
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return fault(last_message());
  const geometry g = geometry_of(*sb);
  const auto address = reinterpret_cast<std::uintptr_t>(place_of_whole_pools());
  std::map<std::uint64_t, std::uint64_t> numbers;  // payload -> number
  std::map<std::uint64_t, pair> found;             // by payload
  (void)for_each_object(m.base(), g, [&](std::uint64_t at, std::uint64_t, layout::object_layout l) {
    layout::object_header h;
    std::memcpy(&h, m.base() + at, sizeof h);
    if (l != layout::object_layout::typed || h.type != pair_id) return true;
    pair p;
    std::memcpy(&p, m.base() + at + sizeof h, sizeof p);
    numbers[at + sizeof h] = p.number;
    found[at + sizeof h] = p;
    return true;
  });
  const auto offset = [&](const pair* p) { return p == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(p) - address; };
  graph now;
  std::map<std::uint64_t, std::pair<unsigned, unsigned>> counts;
  for (const auto& [at, p] : found) {
    for (const pair* to : {p.left, p.right, p.up}) {
      if (to != nullptr && numbers.count(offset(to)) == 0) return fault("a pointer leads to no object");
    }
    if (now.count(p.number) != 0) return fault("an object is there twice");
    now[p.number] = {numbers[offset(p.left)], numbers[offset(p.right)], numbers[offset(p.up)]};
    for (const pair* to : {p.left, p.right}) {
      if (to != nullptr) ++counts[offset(to)].first;
    }
    if (p.up != nullptr) ++counts[offset(p.up)].second;
  }
  const auto root = read_root(m.base(), g);
  if (!root) return fault(last_message());
  if (*root != 0) ++counts[*root].first;
  for (const auto& [at, p] : found) {
    layout::object_header h;
    std::memcpy(&h, m.base() + at - sizeof h, sizeof h);
    const layout::reference_count c = layout::unpack_references(h.references);
    if (c == layout::reference_count{counts[at].first, counts[at].second, false}) continue;
    char text[160];
    std::snprintf(text, sizeof text, "object %lu: found %u references, %u weak ones%s, expected %u and %u", p.number,
                  c.strong, c.weak, c.dying ? ", dying" : "", counts[at].first, counts[at].second);
    return fault(text);
  }
  for (std::uint64_t n = w.promised; n <= w.started; ++n) {
    graph g2 = after(n);
    if (g2 == now) return pass();
    if (n == w.started || story()[n].halfway == nullptr) continue;
    story()[n].halfway(g2);
    if (g2 == now) return pass();
  }
  std::string text = "the graph is none that was committed:";
  for (const auto& [n, e] : now)
    text += " " + std::to_string(n) + "(" + std::to_string(e[0]) + "," + std::to_string(e[1]) + "," +
            std::to_string(e[2]) + ")";
  return fault(text + ", steps " + std::to_string(w.promised) + " to " + std::to_string(w.started));
}

subject counting(kind_of_medium kind, bool barriers) {
  know_types();
  subject s;
  s.name = std::string{"references on "} + name_of(kind) + (barriers ? ", barriers" : "");
  s.image = counted_image(kind);
  if (!is_image(kind)) s.at = place_of_whole_pools();
  s.run = [=](machine& m) { play(m, kind, barriers); };
  s.recover = [=](machine& m) -> verdict {
    const auto p = open_whole(m, kind);
    if (p == nullptr) return fault(std::string{"open: "} + last_message());
    if (status done = start_counting(p->handle()); !done) return fault(std::string{"counting: "} + last_message());
    stop_counting(p->handle());
    return p->close() ? pass() : fault(last_message());
  };
  s.oracle = [](machine& m, const window& w) { return judge(m, w); };
  return s;
}

struct way {
  kind_of_medium kind;
  bool barriers;
};
std::vector<way> ways() {
  using kind = kind_of_medium;
  return {{kind::direct, false}, {kind::direct, true},    {kind::image, false},
          {kind::redo, true},    {kind::mnemosyne, true}, {kind::mnemosyne_undo, false}};
}
std::vector<model> models_of(kind_of_medium kind) {
  if (is_image(kind)) return {model::ssd};
  return {model::x86, model::torn8};
}
options options_of(kind_of_medium kind, model under) {
  options o = options_for(under);
  o.nesting = 3;
  o.nested_every = under == model::torn8 ? 64 : under == model::ssd ? 2 : kind.log == log_kind::rings ? 128 : 16;
  o.promise_at_op_end = true;  // on ssd too: each step waits
  o.idempotence_every = 0;     // recovery is a whole process, and logs number what it does
  o.exhaustive_max = 128;
  o.random_rows = 4;
  return o;
}

class references_crash : public testing::TestWithParam<way> {};

TEST_P(references_crash, counts_agree_with_pointers_and_nothing_is_lost_or_kept) {
  const auto [kind, barriers] = GetParam();
  for (const model under : models_of(kind)) {
    const report r = explore_today(counting(kind, barriers), options_of(kind, under));
    EXPECT_TRUE(r.clean()) << r.text();
    EXPECT_EQ(r.operations, story().size());
    EXPECT_GT(r.unique_states, 50U);
    std::printf("%s\n", r.text().c_str());
  }
}
INSTANTIATE_TEST_SUITE_P(on, references_crash, testing::ValuesIn(ways()), [](const auto& i) {
  return std::string{i.param.kind.name} + (i.param.barriers ? "_barriers" : "");
});

// ---- what is wrong is found -----------------------------------------------------------------------------------------

bool finds(const subject& s, kind_of_medium kind, model under, const explore::mutation& m = {}) {
  options o = options_of(kind, under);
  o.nesting = 1;
  o.print_violations = false;
  return explore(s, o, m).finds_violation();
}
bool finds(plant bug, const way& w, model under) {
  const subject s = counting(w.kind, w.barriers);
  planted_bug = bug;
  const bool found = finds(s, w.kind, under);
  planted_bug = plant::none;
  return found;
}

TEST(references_crash, a_record_after_its_commit_is_found) {
  EXPECT_TRUE(finds(plant::record_after_commit, {kind_of_medium::direct, false}, model::x86));
}
TEST(references_crash, records_applied_twice_are_found) {
  for (const way& w : ways()) {
    const model under = is_image(w.kind) ? model::ssd : model::x86;
    EXPECT_TRUE(finds(plant::record_applied_twice, w, under)) << w.kind.name;
  }
}
TEST(references_crash, weak_pointers_that_stay_and_objects_that_die_though_they_live_again_are_found) {
  for (const plant bug : {plant::weak_not_cleared, plant::weak_cleared_last, plant::count_not_read_again}) {
    for (const way& w : ways()) {
      const model under = is_image(w.kind) ? model::ssd : model::x86;
      EXPECT_TRUE(finds(bug, w, under)) << w.kind.name << ", " << static_cast<int>(bug);
    }
  }
}
TEST(references_crash, the_activation_record_is_flushed_and_fenced_before_the_commit_record) {
  constexpr auto kind = kind_of_medium::direct;
  const subject s = counting(kind, false);
  EXPECT_TRUE(finds(s, kind, model::x86, explore::without(edge{"undo/E2"})));
  const auto lines = places_in_sources({"tx"}, std::regex{R"(each_attached_run\(\[&\].*flush)"}, true);
  ASSERT_EQ(lines.size(), 1U);
  const report r = explore(s, options_of(kind, model::x86));
  const auto met = std::find_if(r.places.begin(), r.places.end(),
                                [&](const explore::place& p) { return p.text().ends_with(lines[0].text); });
  ASSERT_NE(met, r.places.end());
  EXPECT_TRUE(finds(s, kind, model::x86, explore::without_flush(met->text())));
}

// Whether an object that was unlinked stays while a transaction is open that was open at that moment, and whether it
// goes when that ends.
void leave_under_a_transaction(kind_of_medium kind, bool& stays, bool& goes) {
  know_types();
  const std::vector<std::byte> image = counted_image(kind, 4);
  machine m(image.size(), place_of_whole_pools());
  std::memcpy(m.base(), image.data(), image.size());
  const auto p = open_whole(m, kind);
  ASSERT_NE(p, nullptr) << last_message();
  NVM_POOL* const pool = p->handle();
  ASSERT_TRUE(start_counting(pool)) << last_message();
  pair* root = nullptr;
  announced::run(pool, [&](writer& w) {
    w.set_root(root = w.make(1));
    w.set(&root->left, w.make(2));
  });
  const pair* const left = root->left;
  const auto at = static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(left) - pool->base());
  // As another thread would.
  unsigned lane = 3;
  bool parked = false;
  const auto other = pool->engine->begin(lane, parked);
  ASSERT_TRUE(other) << last_message();
  announced::run(pool, [&](writer& w) { w.set(&root->left, nullptr); });
  object::references& counts = pool->references->counts();
  for (unsigned i = 0; i < 4; ++i) EXPECT_TRUE(counts.settle(object::references::how::running)) << last_message();
  stays = static_cast<bool>(pool->engine->find(at));
  std::vector<tx::hook> none;
  (*other)->abort(none);
  if (parked) pool->engine->give_back(lane);
  EXPECT_TRUE(counts.settle(object::references::how::running)) << last_message();
  goes = !pool->engine->find(at);
  stop_counting(pool);
}
TEST(references_crash, an_object_outlives_the_transactions_that_may_know_it) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "nothing is freed while the program runs here";
  bool stays = false;
  bool goes = false;
  leave_under_a_transaction(kind_of_medium::direct, stays, goes);
  EXPECT_TRUE(stays);
  EXPECT_TRUE(goes);
  planted_bug = plant::zero_without_waiting;
  leave_under_a_transaction(kind_of_medium::direct, stays, goes);
  planted_bug = plant::none;
  EXPECT_FALSE(stays) << "the planted bug frees it under the other transaction";
}

// Whether an unlinked object stays that a transaction has linked again which was open when it was unlinked.
bool stays_where_another_has_linked_it(kind_of_medium kind) {
  know_types();
  const std::vector<std::byte> image = counted_image(kind, 4);
  machine m(image.size(), place_of_whole_pools());
  std::memcpy(m.base(), image.data(), image.size());
  const auto p = open_whole(m, kind);
  EXPECT_NE(p, nullptr) << last_message();
  NVM_POOL* const pool = p->handle();
  EXPECT_TRUE(start_counting(pool)) << last_message();
  pair* root = nullptr;
  announced::run(pool, [&](writer& w) {
    w.set_root(root = w.make(1));
    w.set(&root->left, w.make(2));
  });
  pair* const left = root->left;
  const std::uint64_t at = place_in(pool, left);
  // As another thread would.
  unsigned lane = 3;
  bool parked = false;
  const auto other = pool->engine->begin(lane, parked);
  EXPECT_TRUE(other) << last_message();
  announced::run(pool, [&](writer& w) { w.set(&root->left, nullptr); });
  object::references& counts = pool->references->counts();
  EXPECT_TRUE(counts.settle(object::references::how::running)) << last_message();
  const log::byte_range right{place_in(pool, root) + offsetof(pair, right), sizeof root->right};
  EXPECT_TRUE((*other)->announce(&right, 1)) << last_message();
  root->right = left;
  std::vector<tx::hook> none;
  EXPECT_TRUE((*other)->commit(none)) << last_message();
  if (parked) pool->engine->give_back(lane);
  for (unsigned i = 0; i < 3; ++i) EXPECT_TRUE(counts.settle(object::references::how::running)) << last_message();
  const bool stays = static_cast<bool>(pool->engine->find(at));
  stop_counting(pool);
  return stays;
}
TEST(references_crash, an_object_lives_by_a_reference_whose_record_waits_when_it_could_be_freed) {
  if (!platform::can_fence_all_threads()) GTEST_SKIP() << "nothing is freed while the program runs here";
  EXPECT_TRUE(stays_where_another_has_linked_it(kind_of_medium::direct));
  planted_bug = plant::zero_before_records;
  EXPECT_FALSE(stays_where_another_has_linked_it(kind_of_medium::direct)) << "the planted bug frees it";
  planted_bug = plant::none;
}

}  // namespace
}  // namespace nvm::tests
