// Names of stores survive a crash at any point while they are made, moved, dropped or tidied, recovery crashed too,
// over each engine, medium and model: each recovered pool has the names and the dying stores of before or after the
// transaction that was cut, its catalogue and trie are whole, and every object is one of their nodes.
//
// Method: transactions of the C interface's pool on the explorer's memory, as the library runs its own; the oracle
// reads the image by the trie's full check, and compares with the objects that the page map and the extents have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "api/pool_object.hpp"
#include "base/plant.hpp"
#include "scenarios.hpp"
#include "space/space.hpp"
#include "store/store.hpp"
#include "today.hpp"
#include "whole_pool.hpp"

namespace nvm::tests {
namespace {

using explore::explore;
using explore::fault;
using explore::machine;
using explore::model;
using explore::pass;
using explore::report;
using explore::subject;
using explore::verdict;
using explore::window;
using transaction = stores::names_transaction<tx::open_transaction>;

struct named_stores {
  std::map<std::string, std::uint64_t> names;
  std::set<std::uint64_t> dying;
  std::uint64_t next_number = 0;  // 0: there is no catalogue
  std::string fault;

  [[nodiscard]] std::uint64_t digest() const {
    std::uint64_t d = mix_seed(0x6E616D6573, next_number);
    for (const auto& [name, page] : names) d += checksum(name.data(), name.size(), mix_seed(page, 1));
    for (const std::uint64_t page : dying) d += mix_seed(page, 0x64796E67);
    return d;
  }
};

// Nodes and objects are the same, or the fault says which is not.
std::string compare(const std::byte* base, const geometry& g, std::map<std::uint64_t, std::uint64_t> nodes) {
  std::string wrong;
  (void)for_each_object(base, g, [&](std::uint64_t at, std::uint64_t, layout::object_layout l) {
    layout::object_header h;
    std::memcpy(&h, base + at, sizeof h);
    const auto node = nodes.find(at + sizeof h);
    if (l != layout::object_layout::typed || node == nodes.end()) {
      wrong = "the object at offset " + std::to_string(at) + " is no node";
    } else if (layout::object_size(h) != node->second) {
      wrong = "the node at offset " + std::to_string(at) + " has another size than its object";
    } else {
      nodes.erase(node);
    }
    return wrong.empty();
  });
  if (wrong.empty() && !nodes.empty())
    wrong = "node at offset " + std::to_string(nodes.begin()->first) + " is no object";
  return wrong;
}

named_stores read_names(const std::byte* base, std::size_t available) {
  named_stores out;
  const pool_state whole = state_of(base, available);
  if (!whole.fault.empty()) return {{}, {}, 0, whole.fault};
  const geometry g = geometry_of(*pick_superblock(base, available));
  const auto place = read_anchor_word(base, g, anchor_word::catalogue);
  if (!place) return {{}, {}, 0, last_message()};
  std::map<std::uint64_t, std::uint64_t> nodes;
  if (*place != 0) {
    stores::names_reader m{{const_cast<std::byte*>(base), g.data_offset, g.size_bytes()}};
    stores::trie_check how;
    how.tell = [&](std::uint64_t at, const char* what) { out.fault = std::string{what} + ", " + std::to_string(at); };
    how.meet = [&](std::uint64_t at, std::uint64_t bytes, std::uint32_t) { nodes[at] = bytes; };
    how.name = [&](std::string_view name, std::uint64_t page) { out.names.emplace(name, page); };
    const auto sum = check_catalogue(m, *place, how);
    if (!sum) return {{}, {}, 0, last_message()};
    out.next_number = sum->next_number;
    out.dying = {sum->dying.begin(), sum->dying.end()};
  }
  if (out.fault.empty()) out.fault = compare(base, g, std::move(nodes));
  return out;
}

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "story of names: %s failed: %s\n", what, last_message());
  std::abort();
}

// Each call is a transaction, an operation of the explorer.
class namer {
 public:
  namer(machine& m, explore::digest_history& history, kind_of_medium kind)
      : machine_{m}, history_{history}, kind_{kind} {
    model_ = read_names(m.base(), m.size());
    must(model_.fault.empty(), model_.fault.c_str());
    history_.clear();
    history_.state(model_.digest());
    open();
  }
  void found(unsigned burst_names) {
    change([&](transaction& m) -> status {
      const auto made = make_catalogue(m, burst_names);
      if (!made) return made.error();
      const geometry g = shape();
      model_.next_number = 1;
      return name_catalogue(
          m, {anchor_word_at(g, 0, anchor_word::catalogue), anchor_word_at(g, 1, anchor_word::catalogue)}, made->place);
    });
  }
  void make(const std::vector<std::string>& names) {
    change([&](transaction& m) -> status {
      for (const std::string& name : names) {
        const auto number = take_number(m, catalogue());
        if (!number) return number.error();
        const std::uint64_t page = 4096 * std::uint64_t{*number};
        if (status s = enter_name(m, catalogue(), name, page); !s) return s;
        model_.names[name] = page;
        ++model_.next_number;
      }
      return {};
    });
  }
  void drop(const std::string& name) {
    change([&](transaction& m) -> status {
      const auto page = drop_name(m, catalogue(), name);
      if (!page) return page.error();
      model_.dying.insert(*page);
      model_.names.erase(name);
      return {};
    });
  }
  void rename(const std::string& name, const std::string& new_name) {
    change([&](transaction& m) -> status {
      const auto replaced = move_name(m, catalogue(), name, new_name);
      if (!replaced) return replaced.error();
      if (*replaced != 0) model_.dying.insert(*replaced);
      model_.names[new_name] = model_.names.at(name);
      model_.names.erase(name);
      return {};
    });
  }
  // A store's last batch.
  void finish(std::uint64_t page, const std::string& name) {
    change([&](transaction& m) -> status {
      if (status s = end_dying(m, catalogue(), page); !s) return s;
      model_.dying.erase(page);
      return trie_tidy(m, catalogue().root_at(), name, catalogue().burst_names);
    });
  }
  // In vain: the transaction is rolled back.
  void make_in_vain(const std::string& name) {
    machine_.op_begin();
    const status s = api::in_own_transaction(pool_->handle(), [&](tx::open_transaction& t) -> status {
      transaction m{t, bytes()};
      must(enter_name(m, catalogue(), name, 77 * 4096).has_value(), "a name");
      must(m.finish().has_value(), "the words of a name");
      return fail(errc::busy, "in vain");
    });
    must(s.error() == errc::busy, "a transaction in vain");
    history_.state(model_.digest());
    machine_.op_end();
  }
  void reopen() {
    pool_.reset();
    open();
  }
  void checkpoint() { must(pool_->checkpoint().has_value(), "a checkpoint"); }
  void close() {
    machine_.op_begin();
    must(pool_->close().has_value(), "closing");
    history_.state(model_.digest());
    machine_.op_end();
  }
  [[nodiscard]] const named_stores& now() const noexcept { return model_; }

 private:
  void open() {
    pool_ = open_whole(machine_, kind_);
    must(pool_ != nullptr, "opening");
  }
  [[nodiscard]] geometry shape() const { return pool_->handle()->file->geometry(); }
  [[nodiscard]] stores::pool_bytes bytes() const { return {pool_->base(), shape().data_offset, shape().size_bytes()}; }
  [[nodiscard]] stores::catalogue_place catalogue() const {
    const auto place = read_anchor_word(pool_->base(), shape(), anchor_word::catalogue);
    must(place && *place != 0, "finding the catalogue");
    stores::names_reader m{bytes()};
    const auto c = stores::read_catalogue(m, *place);
    must(c.has_value(), "reading the catalogue");
    return *c;
  }
  template <class Body>
  void change(Body&& body) {
    machine_.op_begin();
    const status s = api::in_own_transaction(pool_->handle(), [&](tx::open_transaction& t) -> status {
      transaction m{t, bytes()};
      if (status done = body(m); !done) return done;
      return m.finish();
    });
    must(s.has_value(), "a transaction");
    history_.state(model_.digest());
    machine_.op_end();
  }

  machine& machine_;
  explore::digest_history& history_;
  kind_of_medium kind_;
  std::unique_ptr<whole_pool> pool_;
  named_stores model_;
};

using steps = void (*)(namer&);

// ---- stories --------------------------------------------------------------------------------------------------------

std::string numbered(unsigned i) { return "tenant/" + std::to_string(i); }

void names_come_and_go(namer& n) {
  n.found(4);
  n.make({"a"});
  n.make({"b", "c"});
  n.drop("a");
  n.make_in_vain("d");
  n.make({"a"});
  n.drop("b");
  n.drop("c");
  n.drop("a");
  n.make({"z"});
}
void of_four(namer& n) {
  n.found(3);
  n.make({numbered(1), numbered(2), numbered(3)});
}
// A container bursts, another level below it, and its prefix is parted in the middle and at its end.
void a_container_bursts(namer& n) {
  n.make({numbered(4)});
  n.make({numbered(41), numbered(42)});
  n.make({numbered(43)});
  n.make({"ten"});
  n.make({"tenant/"});
  n.make({"tenant"});
  n.make({numbered(5), numbered(6), numbered(7)});
}
void of_many(namer& n) {
  n.found(3);
  for (unsigned i = 0; i < 24; i += 6) {
    n.make({numbered(i), numbered(i + 1), numbered(i + 2), numbered(i + 3), numbered(i + 4), numbered(i + 5)});
  }
  n.make({"tenant/", "x"});
}
// Names go until their nodes are empty; what is left becomes one container again.
void nodes_are_pruned(namer& n) {
  for (unsigned i = 10; i < 20; ++i) {
    const std::uint64_t page = n.now().names.at(numbered(i));
    n.drop(numbered(i));
    if (i % 2 == 1) n.finish(page, numbered(i));
  }
  while (!n.now().dying.empty()) n.finish(*n.now().dying.begin(), numbered(19));
  for (unsigned i = 0; i < 8; ++i) n.drop(numbered(i));
  n.drop("tenant/");
  n.drop("x");
}
void names_take_the_place_of_others(namer& n) {
  n.rename(numbered(1), "other");
  n.rename("other", numbered(2));
  n.rename(numbered(2), "tenant/2/and/further");
  n.rename(numbered(20), "x");
  n.rename("x", "x1");
  n.make({numbered(1), "x"});
  for (const std::uint64_t page : std::set<std::uint64_t>{n.now().dying}) n.finish(page, "x1");
}
// Nodes of many lines, which do not fit into records; they burst by their bytes.
void names_are_long(namer& n) {
  n.found(35);
  const auto name = [](unsigned i) {
    return std::string(12 * i, 'l') + std::string(200 - 10 * i, 'm') + std::to_string(i);
  };
  for (unsigned i = 0; i < 6; ++i) n.make({name(i), name(i) + "+"});
  n.make({name(6), name(7), name(8), name(9), name(9) + "+", name(9) + "-"});
  n.drop(name(3));
  n.rename(name(4), name(3));
}
void processes_follow_each_other(namer& n) {
  n.make({"one"});
  n.reopen();
  n.drop("one");
  n.checkpoint();
  n.make({"two"});
  n.close();
  n.reopen();
  n.rename("two", numbered(3));
}

struct story {
  const char* name;
  steps before;
  steps run;
  unsigned thin = 1;
};
void nothing(namer&) {}
const story all_stories[] = {
    {"names come and go", nothing, names_come_and_go},
    {"a container bursts", of_four, a_container_bursts},
    {"nodes are pruned", of_many, nodes_are_pruned, 4},
    {"names take the place of others", of_many, names_take_the_place_of_others, 2},
    {"names are long", nothing, names_are_long, 2},
    {"processes follow each other", of_many, processes_follow_each_other, 2},
};
const story& named_story(const char* name) {
  return *std::find_if(std::begin(all_stories), std::end(all_stories),
                       [&](const story& s) { return std::strcmp(s.name, name) == 0; });
}

const crash_shape shape{10, 128, 128, 2, 8192, 64 * 1024};

std::vector<std::byte> image_after_names(kind_of_medium kind, const std::function<void(namer&)>& before) {
  const std::vector<std::byte> fresh = new_image(shape, kind);
  machine m(fresh.size(), is_image(kind) ? nullptr : place_of_whole_pools());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  explore::digest_history history;
  namer n{m, history, kind};
  before(n);
  n.close();
  return {m.base(), m.base() + m.size()};
}

verdict live_on(machine& m, kind_of_medium kind) {
  explore::digest_history history;
  namer n{m, history, kind};
  if (n.now().next_number == 0) n.found(35);
  n.make({"life goes on", "\xFF"});
  const std::uint64_t page = n.now().names.at("\xFF");
  n.drop("\xFF");
  if (n.now().dying.size() < layout::dying_stores_max) n.finish(page, "\xFF");
  n.drop("life goes on");
  n.close();
  const named_stores after = read_names(m.base(), m.size());
  return after.fault.empty() ? pass() : fault("working on: " + after.fault);
}

subject subject_from(kind_of_medium kind, std::string name, std::function<void(namer&)> run,
                     const std::function<void(namer&)>& before) {
  auto history = std::make_shared<explore::digest_history>();
  subject s;
  s.name = std::move(name);
  s.image = image_after_names(kind, before);
  if (!is_image(kind)) s.at = place_of_whole_pools();
  s.run = [run = std::move(run), history, kind](machine& m) {
    namer n{m, *history, kind};
    run(n);
  };
  s.recover = [kind](machine& m) -> verdict {
    const status done = recover_image(m, kind);
    return done ? pass() : fault(last_message());
  };
  s.oracle = [history](machine& m, const window& w) -> verdict {
    const named_stores found = read_names(m.base(), m.size());
    if (!found.fault.empty()) return fault(found.fault);
    return history->check(found.digest(), w);
  };
  s.after = [kind](machine& m, const window&) { return live_on(m, kind); };
  return s;
}
subject subject_of(const story& s, kind_of_medium kind) { return subject_from(kind, s.name, s.run, s.before); }

explore::options options_of(model m, unsigned thin) {
  explore::options o = options_for(m);
  o.promise_at_op_end = true;  // a transaction that returned is durable on every medium
  o.nested_every = 64 * thin;
  o.after_every = 128 * thin;
  o.full_points_max = 4;
  return o;
}
model widest_model_of(const kind_of_medium& k) { return is_image(k) ? model::ssd : model::torn8; }

// ---- tests ----------------------------------------------------------------------------------------------------------

struct names_case {
  story of;
  kind_of_medium on;
  model under;
};
std::vector<names_case> cases() {
  std::vector<names_case> all;
  for (const story& s : all_stories) {
    for (const model m : each_model) {
      for (const auto& kind : kinds_that([&](const auto& k) {
             return !is_stm(k) && (k.part.key_values.has(m) || (is_mnemosyne(k) && k.part.sequences.has(m)));
           })) {
        all.push_back({s, kind, m});
      }
    }
  }
  return all;
}

class names_crash : public testing::TestWithParam<names_case> {};
TEST_P(names_crash, leaves_whole_transactions) {
  const names_case& c = GetParam();
  const report r = explore_today(subject_of(c.of, c.on), options_of(c.under, c.of.thin));
  EXPECT_TRUE(r.clean()) << r.text();
  std::printf("%s\n", r.text().c_str());
}
INSTANTIATE_TEST_SUITE_P(stories, names_crash, testing::ValuesIn(cases()), [](const auto& i) {
  return identifier(i.param.of.name) + "_" + name_of(i.param.under) + "_" + name_of(i.param.on);
});

TEST(names, at_random_leave_whole_transactions) {
  for (const auto& kind : {kind_of_medium::direct, kind_of_medium::redo, kind_of_medium::image}) {
    const std::uint64_t seed = seed_from_environment() * 31 + kind.name.size();
    const auto run = [seed](namer& n) {
      std::mt19937_64 random{seed};
      n.found(2 + static_cast<unsigned>(random() % 4));
      for (unsigned i = 0; i < 40; ++i) {
        const std::string name = numbered(static_cast<unsigned>(random() % 30));
        const bool is_there = n.now().names.contains(name);
        if (!is_there) {
          n.make({name});
        } else if (random() % 3 == 0) {
          n.rename(name, numbered(static_cast<unsigned>(30 + random() % 9)));
        } else {
          n.drop(name);
        }
        if (n.now().dying.size() > 3) n.finish(*n.now().dying.begin(), name);
      }
    };
    const report r = explore(subject_from(kind, "random names of seed " + std::to_string(seed), run, nothing),
                             options_of(widest_model_of(kind), 4));
    EXPECT_TRUE(r.clean()) << r.text();
  }
}

bool finds(const story& s, const kind_of_medium& on, plant bug, const explore::mutation& without = {}) {
  const subject told = subject_of(s, on);
  explore::options o = options_of(widest_model_of(on), s.thin);
  o.print_violations = false;
  o.after_every = 0;  // in a pool that is damaged nobody lives
  planted_bug = bug;
  const bool found = explore(told, o, without).finds_violation();
  planted_bug = plant::none;
  return found;
}

TEST(names_faults, words_stored_past_their_transaction_are_found) {
  for (const auto& kind : {kind_of_medium::direct, kind_of_medium::redo, kind_of_medium::image}) {
    EXPECT_TRUE(finds(named_story("a container bursts"), kind, plant::store_past_barriers)) << name_of(kind);
    EXPECT_TRUE(finds(named_story("nodes are pruned"), kind, plant::store_past_barriers)) << name_of(kind);
  }
}

// Names have no fence of their own: those of the engines are missed through them.
TEST(names_faults, fences_that_are_missing_are_found) {
  const story& s = named_story("names come and go");
  for (const char* label : {"undo/E1", "undo/E2", "undo/E3"}) {
    EXPECT_TRUE(finds(s, kind_of_medium::direct, plant::none, explore::without(edge{label}))) << label;
  }
  for (const char* label : {"redo/E1", "redo/E2"}) {
    EXPECT_TRUE(finds(named_story("names are long"), kind_of_medium::redo, plant::none, explore::without(edge{label})))
        << label;
  }
  EXPECT_TRUE(finds(s, kind_of_medium::image, plant::none, explore::without(edge{"image/E1"})));
}

}  // namespace
}  // namespace nvm::tests
