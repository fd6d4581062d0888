// Each fence, sync and flush of the protocols is necessary: without it some scenario fails.  Each label of the sources
// is known here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ostream>
#include <regex>
#include <set>

#include "edge_survivors.hpp"
#include "scenarios.hpp"
#include "today.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::mutation;
using explore::mutation_report;
using explore::options;
using explore::subject;

// ---- scenarios that start from what a crash left -------------------------------------------------------------------

// Life after recovery on all lanes, with logs, allocations and frees of what was there.
void work_goes_on(player& p) {
  for (std::uint8_t round = 0; round < 3; ++round) {
    for (unsigned lane = 0; lane < 2; ++lane) {
      const auto objects = p.committed().objects;
      auto t = p.begin(lane);
      for (const auto& [at, content] : objects) {
        t->write(at, 0, std::min<std::uint64_t>(content.size(), 24), static_cast<std::uint8_t>(0xA0 + round));
      }
      t->alloc(40, 0xB0);
      if (objects.size() > 2) t->free(objects.begin()->first);
      t->commit();
    }
  }
}

// One lane takes over what the other did last: nothing of that may be made again.
void one_lane_goes_on(player& p, unsigned lane) {
  const auto objects = p.committed().objects;
  auto t = p.begin(lane);
  for (const auto& [at, content] : objects) t->free(at);
  t->commit();
  auto u = p.begin(lane);
  for (const auto& [at, content] : objects) u->alloc(content.size(), 0xC0);
  u->commit();
}

// Starts for each kind of work that recovery may find: taken evenly from all states of the scenario.
void add_crashed(std::vector<subject>& to, const char* scenario, scenario_steps then, model m, std::size_t count) {
  const subject origin = subject_of(named(scenario), medium_of(m));
  std::uint64_t states = 0;
  (void)crashed_images(origin, options_for(m), {}, 0, [&](auto&, auto&) { return ++states, false; });
  const std::uint64_t every = states / count + 1;
  std::uint64_t k = 0;
  for (auto& image :
       crashed_images(origin, options_for(m), {}, count, [&](auto&, auto&) { return ++k % every == 0; })) {
    to.push_back(subject_from(medium_of(m), std::string{"after a crash while "} + scenario, then, image));
  }
}

void close_at_once(player& p) { p.close(); }

bool is_plain_on_memory(const kind_of_medium& k) { return !is_stm(k) && !is_image(k); }
std::optional<layout::superblock> shape_of(const explore::machine& m) {
  const auto sb = pick_superblock(m.base(), m.size());
  return sb ? std::optional{*sb} : std::nullopt;
}

// Some commit record of the pool came whole but for its generation.
bool lacks_a_generation(const explore::machine& m, const explore::window& w) {
  const auto sb = shape_of(m);
  if (!sb || w.promised == w.started) return false;
  for (unsigned lane = 0; lane < sb->lane_count; ++lane) {
    for (unsigned slot = 0; slot < layout::commit_slots; ++slot) {
      const std::uint64_t lane_at = sb->log_offset + lane * sb->lane_bytes;
      const std::uint64_t at = lane_at + layout::commit_slot_at(slot);
      layout::commit_record c;
      std::memcpy(&c, m.base() + at, sizeof c);
      if (c.generation != 0 || c.checksum == 0) continue;
      std::vector<std::byte> whole(m.base(), m.base() + m.size());
      c.generation = slot;
      std::memcpy(whole.data() + at, &c, sizeof c);
      if (log::commit_at(whole.data(), lane_at, slot, tx::pool_key(sb->uuid)) != nullptr) return true;
    }
  }
  return false;
}
// A log had overflowed.
bool has_log_runs(const explore::machine& m, const explore::window&) {
  const auto sb = shape_of(m);
  if (!sb) return false;
  space_summary found;
  (void)check_space(m.base(), geometry_of(*sb), nullptr, found);
  return found.log_runs != 0;
}
// Only recoveries store commit records in what follows: one of them was being written.
bool has_a_torn_commit(const explore::machine& m, const explore::window&) {
  const auto sb = shape_of(m);
  if (!sb) return false;
  const geometry g = geometry_of(*sb);
  const tx::pool_targets targets{m.base(), g};
  for (unsigned i = 0; i < g.lane_count; ++i) {
    if (log::lane_reader{m.base(), g, tx::pool_key(sb->uuid), i, targets}.damaged(true)) return true;
  }
  return false;
}
// The first record of lane 0's log came whole but for its generation.
bool has_a_torn_log(const explore::machine& m, const explore::window&) {
  const auto sb = shape_of(m);
  if (!sb) return false;
  const std::uint64_t at = sb->log_offset + layout::lane_body_at;
  layout::record_header r;
  std::memcpy(&r, m.base() + at, sizeof r);
  if (r.generation != 0 || r.checksum == 0) return false;
  std::vector<std::byte> whole(m.base(), m.base() + m.size());
  const std::uint64_t key = log::body_key(tx::pool_key(sb->uuid), 0);
  for (r.generation = 1; r.generation < 8; ++r.generation) {
    std::memcpy(whole.data() + at, &r, sizeof r);
    if (log::record_at(whole.data(), at, whole.size(), r.generation, key) != nullptr) return true;
  }
  return false;
}

using picture = bool (*)(const explore::machine&, const explore::window&);
void add_pictured(std::vector<subject>& to, const char* what, picture wanted, const char* scenario, scenario_steps then,
                  std::size_t count) {
  const subject origin = subject_of(named(scenario), kind_of_medium::direct);
  for (auto& image : crashed_images(origin, options_for(model::torn8), {}, count, wanted)) {
    to.push_back(subject_from(kind_of_medium::direct, what + (" while " + std::string{scenario}), then, image));
  }
}

std::vector<subject> subjects_on(model m) {
  std::vector<subject> all;
  for (const scenario& s : all_scenarios()) {
    if (m == model::ssd ? s.on_ssd : s.on_direct) all.push_back(subject_of(s, medium_of(m)));
    if (m == model::ssd || !s.on_direct) continue;
    for (const auto& kind : kinds_that([](const auto& k) { return is_plain_on_memory(k) && is_redo(k); })) {
      all.push_back(subject_of(s, kind));
    }
  }
  if (m != model::ssd) {
    // Of each recovery; the others are as long, and show no more.
    for (const auto& kind : kinds_that([](const auto& k) { return k.part.recovers_alone; })) {
      all.push_back(subject_of(named("committers are killed"), kind));
    }
    all.push_back(subject_of(named("who gives pages back is killed"), kind_of_medium::direct));
    // The work of these engines is the same in every story: few are needed.
    for (const char* story : {"a slot is logged, freed and reused", "fresh memory is published", "a savepoint aborts",
                              "the log overflows", "a lane changes threads", "an abort is another thread's past"}) {
      for (const auto& kind : kinds_that([](const auto& k) { return is_plain_on_memory(k) && is_mnemosyne(k); })) {
        all.push_back(subject_of(named(story), kind));
      }
    }
  }
  add_crashed(all, "a slot is logged, freed and reused", work_goes_on, m, 6);
  for (const unsigned lane : {0U, 1U}) {
    const auto goes_on = [lane](player& p) { one_lane_goes_on(p, lane); };
    add_crashed(all, "a slot is logged, freed and reused", goes_on, m, 6);
    add_crashed(all, "lanes keep to themselves", goes_on, m, 6);
  }
  add_crashed(all, "the log overflows", work_goes_on, m, 6);
  if (m != model::ssd) {
    for (const char* scenario : {"the log overflows", "a savepoint aborts"}) {
      add_pictured(all, "after a torn commit", lacks_a_generation, scenario, work_goes_on, 3);
    }
    add_pictured(all, "closed after a crash", has_log_runs, "the log overflows", close_at_once, 3);
  }
  return all;
}

// ---- scenarios of two crashes --------------------------------------------------------------------------------------

void overwrite_first(player& p, unsigned lane, std::uint8_t with) {
  auto t = p.begin(lane);
  t->write(p.committed().objects.begin()->first, 0, 24, with);
  t->commit();
}

// A record that the first crash tore could be completed by the next one of its generation, and the second crash put
// back what was long overwritten: lane/E4.
explore::two_crashes a_log_is_torn() {
  const auto closed = image_after([](player& p) {
    auto t = p.begin(1);
    t->alloc(200, 0x11);
    t->commit();
    p.close();
  });
  explore::two_crashes s;
  s.first = subject_from(kind_of_medium::direct, "a first log", [](player& p) { overwrite_first(p, 0, 0x22); }, closed);
  s.wanted = has_a_torn_log;
  s.then = [](std::vector<std::byte> image) {
    return subject_from(
        kind_of_medium::direct, "the log after a torn one",
        [](player& p) {
          overwrite_first(p, 1, 0x55);
          overwrite_first(p, 0, 0x66);
        },
        std::move(image));
  };
  return s;
}

// Words that a crashed recovery leaves torn must be put right by the next one: recover/E3.
explore::two_crashes a_recovery_is_torn() {
  explore::two_crashes s;
  const auto crashed =
      crashed_images(subject_of(named("a savepoint aborts"), kind_of_medium::direct), options_for(model::torn8), {}, 1,
                     [](auto&, const explore::window& w) { return w.promised == 2; });
  if (crashed.empty()) std::abort();
  s.first = subject_from(kind_of_medium::direct, "a recovery", [](player&) {}, crashed.front());
  s.wanted = has_a_torn_commit;
  s.then = [](std::vector<std::byte> image) {
    return subject_from(kind_of_medium::direct, "closed after a torn recovery", close_at_once, std::move(image));
  };
  return s;
}

// Words of a log that came without the words before them could become the continuation of what is logged next, if that
// ends where they begin: mnemosyne/E10.  Here they are a whole entry and the commit word after it: the log's ninth
// line begins with its 64th word, for which the first eight have room but for their torn bits.
explore::two_crashes a_log_comes_without_its_beginning() {
  static constexpr auto kind = kind_of_medium::mnemosyne;
  explore::two_crashes s;
  s.first = subject_on(kind, "a log comes without its beginning", [](player& p) {
    auto setup = p.begin(1);
    const std::uint64_t x = setup->alloc(600, 1);
    setup->commit();
    auto t = p.begin(0);
    t->write(x, 0, 16, 2);  // three words, and two for each of the others
    for (std::uint64_t i = 0; i < 30; ++i) t->write(x, 16 + 8 * i, 8, 3);
    t->write(x, 300, 8, 4);
    t->commit();
  });
  s.wanted = [](const explore::machine& m, const explore::window& w) {
    const auto sb = shape_of(m);
    if (!sb || w.promised != 1) return false;
    const log::word_ring ring{geometry_of(*sb), 0};
    const auto line = [&](std::uint64_t position) {
      return reinterpret_cast<const std::uint64_t*>(m.base() + ring.line_at(position));
    };
    const auto is_new = [](std::uint64_t word) { return (word & layout::torn_bit) != 0; };
    return std::none_of(line(0), line(1), is_new) && std::all_of(line(8), line(9), is_new);
  };
  s.images_max = 3;
  s.then = [](std::vector<std::byte> image) {
    return subject_from(
        kind, "a log that ends where the rest of another begins",
        [](player& p) {
          auto t = p.begin(0);
          t->write(p.committed().objects.begin()->first, 0, 440, 5);  // eight lines
          t->commit();
        },
        std::move(image));
  };
  return s;
}

// ---- the score -----------------------------------------------------------------------------------------------------

const survivor_list survivors{
    {"media/image_media.cpp", "move_header(checkpoint_)",
     "a crash may always lose it: it saves the next process reading the ring, and nothing else "
     "(image_media.a_closed_log_is_opened_without_looking_at_the_ring)"},
    {"media/replay.cpp", "state.checkpoint, run.end)", "of straight writes: region_edges_test"},
};

// Those of straight writes are judged by region_edges_test.
bool is_judged(const std::string& place) {
  return place != "image/E5" && place != "replay/E3" && place.find("media/straight.cpp") == std::string::npos;
}

const mutation_report& score_of(model m) {
  static const auto make = [](model under) {
    const auto subjects = subjects_on(under);
    std::vector<explore::two_crashes> pairs;
    if (under != model::ssd) pairs = {a_log_is_torn(), a_recovery_is_torn(), a_log_comes_without_its_beginning()};
    options o = options_for(under);
    mutation_report r = mutation_score(
        subjects, o, waivers_of(survivors, places_in_sources({"media", "space", "tx"}, std::regex{"."}, true)), pairs,
        is_judged);
    std::printf("%s\n", r.text().c_str());
    return r;
  };
  if (m == model::ssd) {
    static const mutation_report ssd = make(m);
    return ssd;
  }
  static const mutation_report direct = make(m);
  return direct;
}

TEST(edges, of_direct_media_are_all_necessary) {
  const mutation_report& r = score_of(model::torn8);
  EXPECT_TRUE(r.clean());
  EXPECT_EQ(r.unexplained(), 0U);
}
TEST(edges, of_ssd_are_all_necessary) {
  const mutation_report& r = score_of(model::ssd);
  EXPECT_TRUE(r.clean());
  EXPECT_EQ(r.unexplained(), 0U);
}
TEST(edges, are_killed_but_for_one_in_fifty) {
  std::size_t all = 0;
  std::size_t killed = 0;
  for (const model m : {model::torn8, model::ssd}) {
    all += score_of(m).mutants.size();
    killed += score_of(m).killed();
    for (const auto& mutant : score_of(m).mutants) {
      EXPECT_FALSE(mutant.killed && !mutant.waived.empty()) << mutant.change.text() << " needs no waiver";
    }
  }
  std::printf("%zu of %zu places are shown necessary\n", killed, all);
  EXPECT_GE(static_cast<double>(killed), 0.98 * static_cast<double>(all));
}

// Bytes that the next process sees of one that was killed stay, wherever the power is cut after that.
struct killed_process {
  scenario story;
  kind_of_medium kind;
  friend std::ostream& operator<<(std::ostream& to, const killed_process& p) {
    return to << p.story.name << " on " << p.kind;
  }
};
std::vector<killed_process> killed_processes() {
  std::vector<killed_process> all;
  for (const auto& kind : kinds_that(is_plain_on_memory)) {
    for (const scenario& s : killed_scenarios()) {
      if (is_redo(kind) || std::string_view{s.name} != "checkpoints are killed") all.push_back({s, kind});
    }
  }
  return all;
}
class edges_of_what_a_killed_process_left_in_caches : public testing::TestWithParam<killed_process> {};
TEST_P(edges_of_what_a_killed_process_left_in_caches, are_enough) {
  for (const model m : {model::x86, model::torn8}) {
    const auto r = explore_today(subject_of(GetParam().story, GetParam().kind), options_for(m));
    EXPECT_TRUE(r.clean()) << r.text();
  }
}
INSTANTIATE_TEST_SUITE_P(all, edges_of_what_a_killed_process_left_in_caches, testing::ValuesIn(killed_processes()),
                         [](const auto& info) {
                           return identifier(info.param.story.name) + "_on_" + name_of(info.param.kind);
                         });

// ---- nothing is forgotten -------------------------------------------------------------------------------------------

std::set<std::string> all_places_met() {
  std::set<std::string> met = places_met(score_of(model::torn8));
  met.merge(places_met(score_of(model::ssd)));
  return met;
}

// Labels that name no fence and no sync, or that lockfree_edges_test looks for.
const std::set<std::string> names_only{
    "undo/E6",  // of publish(): its record becomes durable with image/E1
    "space/E5", "space/E6",
    "space/E7",  // region_edges_test
    "space/E8", "image/E5", "replay/E3",
};

TEST(edges, are_all_known_by_label) {
  const auto labels =
      places_in_sources({"log", "media", "pool", "space", "tx"}, std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  EXPECT_GT(labels.size(), 20U);
  expect_labels_met(all_places_met(), labels, [](const place_in_sources& p) {
    return names_only.contains(p.text) || p.text.starts_with("store/");  // store_edges_test
  });
}

// Lines of the sources that the scenarios cannot lead to, or that are no place of their own.
bool out_of_reach(const std::string& line) {
  const bool hands_on = line.ends_with(", s);") || line.ends_with("(s); }") || line.ends_with(", place);");
  if (hands_on || line.ends_with("noexcept;")) return true;
  static const char* const known[] = {
      "sets_[marks_.size() - 1]->entries()) media_.flush(",  // volatile memory ran out in the middle of an abort
      "device.write(offset, zeros, count)",  // format_ring(): creation is synced as a whole, before the pool has a name
      "copy, copy + 1, 0)",                  // the same
      "device_.write(offset, p, bytes)",     // straight writes: region_edges_test
      "move_header(from, to)",               // the same
      "state.checkpoint, run.end)",          // the same
      "each_attached_run([&]",               // references_crash_test
  };
  return std::any_of(std::begin(known), std::end(known),
                     [&](const char* text) { return line.find(text) != std::string::npos; });
}

void expect_all_met(const std::vector<place_in_sources>& sites) {
  expect_sites_met(all_places_met(), sites, [](const place_in_sources& p) {
    return p.text.starts_with("space/space_structures.hpp") ||        // lockfree_edges_test
           p.text.starts_with("space/space_store_structures.hpp") ||  // the same
           p.text.starts_with("space/space_stores.hpp") ||            // store_edges_test
           p.text.starts_with("space/space_store_visits.hpp") ||      // the same
           out_of_reach(p.line);
  });
}

TEST(edges, are_all_known_by_flush_site) {
  const auto sites = places_in_sources({"log", "pool", "space", "tx"},
                                       std::regex{R"re(\b((m|media_|medium_)\.flush|copy_out)\()re"}, true);
  EXPECT_GE(sites.size(), 19U);
  expect_all_met(sites);
}

// Block writes, and calls that stand for one: a function that only hands its caller's place on is no place.
TEST(edges, are_all_known_by_write_site) {
  const std::string calls =
      R"re((device_?\.write|move_header|write_ring_header|home_?(?:->|\.)finish|write_sorted)\(.*;)re";
  const auto sites = places_in_sources({"media"}, std::regex{"[^ ] (.*[ ({])?" + calls}, true);
  EXPECT_GE(sites.size(), 9U);
  expect_all_met(sites);
}

}  // namespace
}  // namespace nvm::tests
