#include "explore/mutation.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "explore/explore.hpp"
#include "explore/explorer.hpp"

namespace nvm::explore {

bool mutation::hits(const explore::place& p) const {
  if (what == kind::none || p.is_fence != (what == kind::drop_fence)) return false;
  const std::string text = p.text();
  return p.is_fence ? text == place : text.ends_with(place);
}

std::string mutation::text() const {
  switch (what) {
    case kind::none:
      return "";
    case kind::drop_fence:
      return "without fence \"" + place + "\"";
    case kind::drop_flush:
      return "without the flush at " + place;
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

mutation_report mutation_score(std::span<const subject> subjects, const options& o, std::span<const waiver> waivers) {
  mutation_report result;
  options quiet = o;
  quiet.print_violations = false;
  quiet.violations_max = 1;
  quiet.rules = false;
  quiet.on_image = nullptr;
  struct meeting {
    std::uint64_t count = 0;
    std::vector<std::size_t> subjects;  // that met the place: to the others the mutant is the original
  };
  std::map<std::pair<bool, std::string>, meeting> met;
  std::vector<std::unique_ptr<explorer>> explorers;
  for (const subject& s : subjects) {
    explorer first(s, o);
    first.record();
    result.originals.push_back(first.explore({}));
    for (const place& p : result.originals.back().places) {
      if (p.count == 0) continue;
      meeting& m = met[{p.is_fence, p.text()}];
      m.count += p.count;
      if (m.subjects.empty() || m.subjects.back() != explorers.size()) m.subjects.push_back(explorers.size());
    }
    explorers.push_back(std::make_unique<explorer>(s, quiet));
    explorers.back()->record();
  }
  for (auto& [place, where] : met) {
    // The cheapest first.
    std::sort(where.subjects.begin(), where.subjects.end(), [&](std::size_t a, std::size_t b) {
      return result.originals[a].unique_states < result.originals[b].unique_states;
    });
    mutant m;
    m.change.what = place.first ? mutation::kind::drop_fence : mutation::kind::drop_flush;
    m.change.place = place.second;
    m.count = where.count;
    for (const std::size_t i : where.subjects) {
      const report r = explorers[i]->explore(m.change);
      m.states += r.unique_states;
      m.killed = r.finds_violation();
      if (!m.killed) continue;
      m.killed_by = r.violations.front().found_by;
      m.depth = r.violations.front().depth;
      break;
    }
    for (const waiver& w : waivers) {
      if (m.change.place.ends_with(w.place)) m.waived = w.reason;
    }
    result.mutants.push_back(std::move(m));
  }
  return result;
}

bool mutation_report::clean() const noexcept {
  return std::all_of(originals.begin(), originals.end(), [](const report& r) { return r.clean(); });
}

std::size_t mutation_report::killed() const noexcept {
  std::size_t n = 0;
  for (const mutant& m : mutants) n += m.killed ? 1U : 0U;
  return n;
}

double mutation_report::score() const noexcept {
  if (mutants.empty()) return 0;
  std::size_t n = 0;
  for (const mutant& m : mutants) n += m.killed || !m.waived.empty() ? 1U : 0U;
  return static_cast<double>(n) / static_cast<double>(mutants.size());
}

std::string mutation_report::text() const {
  std::string t = "mutation of the trace";
  for (const report& r : originals) t += ": " + r.subject;
  t += ": " + std::to_string(killed()) + " of " + std::to_string(mutants.size()) + " places are shown necessary\n";
  for (const mutant& m : mutants) {
    t += m.killed ? "  killed    " : m.waived.empty() ? "  SURVIVED  " : "  waived    ";
    t += m.change.text() + " (" + std::to_string(m.count) + " executions, " + std::to_string(m.states) + " states";
    if (m.killed) {
      t += std::string{", "} + name_of(m.killed_by) + (m.depth != 0 ? ", in recovery" : "") + ")\n";
    } else {
      t += m.waived.empty() ? "): not needed, or the oracle does not see it\n" : "): " + m.waived + "\n";
    }
  }
  return t;
}

}  // namespace nvm::explore
