// Each fence, sync and flush of the protocols is necessary: without it some scenario fails.  And no label of the
// sources is unknown here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "scenarios.hpp"

namespace nvm::tests {
namespace {

using explore::model;
using explore::mutation;
using explore::mutation_report;
using explore::options;
using explore::subject;
using explore::waiver;

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

// Some commit record of the pool came whole but for its generation.
bool lacks_a_generation(const explore::machine& m, const explore::window& w) {
  const auto sb = pick_superblock(m.base(), m.size());
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
void add_torn_commits(std::vector<subject>& to, const char* scenario, std::size_t count) {
  const subject origin = subject_of(named(scenario), kind_of_medium::direct);
  for (auto& image : crashed_images(origin, options_for(model::torn8), {}, count, lacks_a_generation)) {
    to.push_back(subject_from(kind_of_medium::direct, std::string{"after a torn commit while "} + scenario,
                              work_goes_on, image));
  }
}

std::vector<subject> subjects_on(model m) {
  std::vector<subject> all;
  for (const scenario& s : all_scenarios()) {
    if (m == model::ssd ? s.on_ssd : s.on_direct) all.push_back(subject_of(s, medium_of(m)));
  }
  add_crashed(all, "a slot is logged, freed and reused", work_goes_on, m, 6);
  for (const unsigned lane : {0U, 1U}) {
    const auto goes_on = [lane](player& p) { one_lane_goes_on(p, lane); };
    add_crashed(all, "a slot is logged, freed and reused", goes_on, m, 6);
    add_crashed(all, "lanes keep to themselves", goes_on, m, 6);
  }
  add_crashed(all, "the log overflows", work_goes_on, m, 6);
  if (m != model::ssd) {
    add_torn_commits(all, "the log overflows", 3);
    add_torn_commits(all, "a savepoint aborts", 3);
  }
  return all;
}

// Survivors, each with the reason why it may be one.  Flushes are named by what their line says.
const std::vector<waiver> waivers{
    {"lane/E4", "what it prevents takes two crashes: edges.lane_E4_ends_a_generation_before_its_log_is_torn"},
    {"recover/E3", "if `retired` is durable before the commit record, a second recovery takes a generation more"},
    {"recover/E5", "a log run that is still entered after a crash is freed by every recovery, whatever is there since"},
    {"space/E4", "the same: recovery frees what is entered as a log run, and a page's new entry replaces the old"},
};
// The flush that goes with a waived fence: the line of the source says which.
const std::vector<std::pair<const char*, const char*>> waived_flushes{
    {"tx/recover.hpp", "m.flush(word, 8)"},
    {"space/space.hpp", "medium_.flush(index_.map.at(page), 8)"},
};
std::vector<waiver> all_waivers();

const mutation_report& score_of(model m) {
  static const auto make = [](model under) {
    const auto subjects = subjects_on(under);
    options o = options_for(under);
    o.exhaustive_max = 512;
    mutation_report r = mutation_score(subjects, o, all_waivers());
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
  EXPECT_GE(r.score(), 0.98);
}
TEST(edges, of_ssd_are_all_necessary) {
  const mutation_report& r = score_of(model::ssd);
  EXPECT_TRUE(r.clean());
  EXPECT_GE(r.score(), 0.98);
}

// ---- lane/E4: two crashes ------------------------------------------------------------------------------------------

// Whether a record that a first crash tore can be completed by the next one of its generation, and a second crash put
// back what was long overwritten.
bool second_crash_puts_back(const mutation& m) {
  const options o = [] {
    options quiet = options_for(model::torn8);
    quiet.print_violations = false;
    return quiet;
  }();
  const auto start = image_after([](player& p) {
    auto t = p.begin(1);
    t->alloc(200, 0x11);
    t->commit();
    p.close();
  });
  const auto overwrite = [](player& p, unsigned lane, std::uint8_t with) {
    auto t = p.begin(lane);
    t->write(p.committed().objects.begin()->first, 0, 24, with);
    t->commit();
  };
  const subject first =
      subject_from(kind_of_medium::direct, "a first log", [=](player& p) { overwrite(p, 0, 0x22); }, start);
  const auto torn = [](const explore::machine& on, const explore::window&) {
    const auto sb = pick_superblock(on.base(), on.size());
    layout::record_header r;
    std::memcpy(&r, on.base() + sb->log_offset + layout::lane_body_at, sizeof r);
    return r.generation == 0 && r.checksum != 0 && r.bytes != 0;
  };
  for (auto& image : crashed_images(first, o, m, 400, torn)) {
    const subject second = subject_from(
        kind_of_medium::direct, "the log after",
        [=](player& p) {
          overwrite(p, 1, 0x55);
          overwrite(p, 0, 0x66);
        },
        image);
    if (explore::explore(second, o, m).finds_violation()) return true;
  }
  return false;
}
TEST(edges, lane_E4_ends_a_generation_before_its_log_is_torn) {
  EXPECT_TRUE(second_crash_puts_back(explore::without(edge{"lane/E4"})));
  EXPECT_FALSE(second_crash_puts_back({}));
}

// ---- nothing is forgotten -------------------------------------------------------------------------------------------

struct place_in_sources {
  std::string text;  // label, or file:line
  std::string line;
};
std::vector<place_in_sources> search(const std::vector<const char*>& layers, const std::regex& what, bool by_line) {
  std::vector<place_in_sources> found;
  for (const char* layer : layers) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string{HOLDFAST_SOURCES} + "/" + layer)) {
      const std::string extension = entry.path().extension();
      if (extension != ".hpp" && extension != ".cpp") continue;
      std::ifstream file(entry.path());
      bool planted_only = false;
      std::string line;
      for (unsigned number = 1; std::getline(file, line); ++number) {
        if (line.find("// plant::") != std::string::npos) planted_only = true;
        if (planted_only && line == "  }") planted_only = false;
        std::smatch m;
        if (planted_only || line.find("///") != std::string::npos || !std::regex_search(line, m, what)) continue;
        const std::string at = layer + ("/" + entry.path().filename().string()) + ":" + std::to_string(number);
        found.push_back({by_line ? at : m[1].str(), line});
      }
    }
  }
  return found;
}

std::vector<waiver> all_waivers() {
  std::vector<waiver> all = waivers;
  for (const auto& [file, text] : waived_flushes) {
    for (const auto& site : search({"space", "tx"}, std::regex{R"re(flush\()re"}, true)) {
      const bool same = site.text.starts_with(file) && site.line.find(text) != std::string::npos;
      if (same) all.push_back({site.text, "with its fence"});
    }
  }
  return all;
}

std::set<std::string> places_met() {
  std::set<std::string> met;
  for (const model m : {model::torn8, model::ssd}) {
    for (const auto& mutant : score_of(m).mutants) met.insert(mutant.change.place);
  }
  return met;
}

// Labels that name no fence and no sync.
const std::set<std::string> names_only{
    "undo/E6",  // of publish(): its record becomes durable with image/E1
};

TEST(edges, are_all_known_by_label) {
  const auto met = places_met();
  const auto labels = search({"log", "media", "pool", "space", "tx"}, std::regex{R"re(edge\{"([^"]+)"\})re"}, false);
  EXPECT_GT(labels.size(), 20U);
  for (const auto& l : labels) {
    EXPECT_TRUE(met.contains(l.text) || names_only.contains(l.text)) << l.text << " is met by no scenario";
  }
}

// Flushes that only a lack of volatile memory leads to.
bool out_of_reach(const std::string& line) {
  return line.find("sets_[marks_.size() - 1]->entries()) media_.flush(") != std::string::npos;
}

TEST(edges, are_all_known_by_flush_site) {
  const auto met = places_met();
  const auto sites = search({"log", "space", "tx"}, std::regex{R"re(\b(m|media_|medium_)\.flush\()re"}, true);
  EXPECT_GT(sites.size(), 12U);
  for (const auto& s : sites) {
    const bool known = std::any_of(met.begin(), met.end(), [&](const std::string& p) { return p.ends_with(s.text); });
    EXPECT_TRUE(known || out_of_reach(s.line)) << s.text << " is met by no scenario: " << s.line;
  }
}

}  // namespace
}  // namespace nvm::tests
