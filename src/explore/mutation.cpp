#include "explore/mutation.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "explore/explore.hpp"
#include "explore/explorer.hpp"

namespace nvm::explore {

bool mutation::hits(const explore::place& p) const {
  switch (what) {
    case kind::none:
      return false;
    case kind::drop_fence:
      return p.kind == place_kind::fence && p.text() == place;
    case kind::drop_flush:
    case kind::delay_flush:
      return p.kind == place_kind::flush && p.text().ends_with(place);
    case kind::drop_write:
      return p.kind == place_kind::write && p.text().ends_with(place);
  }
  return false;
}

std::string mutation::text() const {
  switch (what) {
    case kind::none:
      return "";
    case kind::drop_fence:
      return "without fence \"" + place + "\"";
    case kind::drop_flush:
      return "without the flush at " + place;
    case kind::drop_write:
      return "without the write at " + place;
    case kind::delay_flush:
      return "with the flush at " + place + " after its fence";
  }
  return "";
}

std::uint32_t mutation::code() const noexcept {
  if (what == kind::none) return 0;
  std::uint32_t h = 2166136261U ^ static_cast<std::uint32_t>(what);
  for (const char c : place) h = (h ^ static_cast<unsigned char>(c)) * 16777619U;
  return h == 0 ? 1 : h;
}

namespace {

mutation::kind drop(place_kind k) noexcept {
  switch (k) {
    case place_kind::flush:
      return mutation::kind::drop_flush;
    case place_kind::fence:
      return mutation::kind::drop_fence;
    case place_kind::write:
      return mutation::kind::drop_write;
  }
  return mutation::kind::none;
}

// The subjects that met a place: for the others its mutant equals the original.
struct meeting {
  std::uint64_t count = 0;
  std::vector<std::size_t> subjects;
  std::vector<std::size_t> pairs;
};
using meetings = std::map<std::pair<place_kind, std::string>, meeting>;

void note_places(meetings& met, const report& r, std::size_t who, std::vector<std::size_t> meeting::* list) {
  for (const place& p : r.places) {
    if (p.count == 0) continue;
    meeting& m = met[{p.kind, p.text()}];
    m.count += p.count;
    if ((m.*list).empty() || (m.*list).back() != who) (m.*list).push_back(who);
  }
}

constexpr unsigned few_states = t1_program_order | t2_all_low | t3_pairs;

bool kills(mutant& m, const report& r) {
  m.states += r.unique_states;
  m.killed = r.finds_violation();
  if (!m.killed) return false;
  m.killed_by = r.violations.front().found_by;
  m.depth = r.violations.front().depth;
  return true;
}

}  // namespace

mutation_report mutation_score(std::span<const subject> subjects, const options& o, std::span<const waiver> waivers,
                               std::span<const two_crashes> pairs, bool (*judged)(const std::string& place)) {
  mutation_report result;
  options quiet = o;
  quiet.print_violations = false;
  quiet.violations_max = 1;
  quiet.rules = false;
  quiet.on_image = nullptr;
  meetings met;
  std::vector<std::unique_ptr<explorer>> explorers;
  for (const subject& s : subjects) {
    explorers.push_back(std::make_unique<explorer>(s, o));
    explorer& first = *explorers.back();
    first.record();
    first.remember();
    result.originals.push_back(first.explore({}));
    note_places(met, result.originals.back(), explorers.size() - 1, &meeting::subjects);
    first.be_quiet();
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    result.originals.push_back(explore(pairs[i], o));
    note_places(met, result.originals.back(), i, &meeting::pairs);
  }
  for (auto& [place, where] : met) {
    if (judged != nullptr && !judged(place.second)) continue;
    // The cheapest first.
    std::sort(where.subjects.begin(), where.subjects.end(), [&](std::size_t a, std::size_t b) {
      return result.originals[a].unique_states < result.originals[b].unique_states;
    });
    mutant m;
    m.change.what = drop(place.first);
    m.change.place = place.second;
    m.count = where.count;
    for (const waiver& w : waivers) {
      if (m.change.place.ends_with(w.place)) m.waived = w.reason;
    }
    // Most are killed by few states of one subject or another.
    for (const bool few : {true, false}) {
      if (!m.killed) m.states = 0;
      for (const std::size_t i : where.subjects) {
        if (m.killed || (!m.waived.empty() && m.states > o.waived_states_max)) break;
        explorers[i]->try_only(few ? o.tiers & few_states : o.tiers, few ? o.nested_every * 4 : o.nested_every);
        (void)kills(m, explorers[i]->explore(m.change));
      }
    }
    for (const std::size_t i : where.pairs) {
      if (m.killed) break;
      m.took_two_crashes = kills(m, explore(pairs[i], quiet, m.change));
    }
    result.mutants.push_back(std::move(m));
  }
  return result;
}

bool mutation_report::clean() const noexcept {
  return std::all_of(originals.begin(), originals.end(), [](const report& r) { return r.clean(); });
}

std::size_t mutation_report::killed() const noexcept {
  return static_cast<std::size_t>(std::count_if(mutants.begin(), mutants.end(), [](auto& m) { return m.killed; }));
}

double mutation_report::score() const noexcept {
  return mutants.empty() ? 0 : static_cast<double>(killed()) / static_cast<double>(mutants.size());
}

std::size_t mutation_report::unexplained() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(mutants.begin(), mutants.end(), [](auto& m) { return !m.killed && m.waived.empty(); }));
}

std::string mutation_report::text() const {
  std::string t = "mutation of the trace";
  for (const report& r : originals) t += ": " + r.subject;
  t += ": " + std::to_string(killed()) + " of " + std::to_string(mutants.size()) + " places are shown necessary\n";
  for (const mutant& m : mutants) {
    t += m.killed ? "  killed    " : m.waived.empty() ? "  SURVIVED  " : "  waived    ";
    t += m.change.text() + " (" + std::to_string(m.count) + " executions, " + std::to_string(m.states) + " states";
    if (m.killed) {
      t += std::string{", "} + name_of(m.killed_by) + (m.depth != 0 ? ", in recovery" : "") +
           (m.took_two_crashes ? ", in the second of two crashes" : "") + ")\n";
    } else {
      t += m.waived.empty() ? "): not needed, or the oracle does not see it\n" : "): " + m.waived + "\n";
    }
  }
  return t;
}

}  // namespace nvm::explore
