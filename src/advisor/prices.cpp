#include "advisor/prices.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "advisor/coefficients_text.hpp"

namespace nvm::advisor {
namespace {

constexpr double line_bits = 512;
constexpr double line_size = 64;
constexpr double gib = 1073741824.0;

struct named_coefficient {
  std::string_view name;
  double medium_costs::* where;
};
constexpr named_coefficient coefficients[] = {
    {"read_ns", &medium_costs::read_ns},       {"write_ns", &medium_costs::write_ns},
    {"alloc_ns", &medium_costs::alloc_ns},     {"log_ns", &medium_costs::log_ns},
    {"commit_ns", &medium_costs::commit_ns},   {"log_lines", &medium_costs::log_lines},
    {"read_pj", &medium_costs::read_pj},       {"write_pj", &medium_costs::write_pj},
    {"static_mw", &medium_costs::static_mw},   {"endurance", &medium_costs::endurance},
    {"miss_share", &medium_costs::miss_share}, {"miss_ns", &medium_costs::miss_ns},
};

std::string_view take_word(std::string_view& rest) {
  const std::size_t begin = std::min(rest.find_first_not_of(" \t\r"), rest.size());
  rest.remove_prefix(begin);
  const std::size_t end = std::min(rest.find_first_of(" \t\r"), rest.size());
  const std::string_view w = rest.substr(0, end);
  rest.remove_prefix(end);
  return w;
}

// Takes one line of the file; an empty answer: the line is good.
std::string take_line(std::string_view line, std::array<medium_costs, medium_names.size()>& all) {
  const std::string_view name = take_word(line);
  if (name.empty() || name.front() == '#') return {};
  const auto* m = std::ranges::find(medium_names, name);
  if (m == medium_names.end()) return "found '" + std::string{name} + "', expected dram, shm, nvm, ssd or tier";
  const std::string_view what = take_word(line);
  const auto* c = std::ranges::find(coefficients, what, &named_coefficient::name);
  if (c == std::end(coefficients)) return "no coefficient '" + std::string{what} + "'";
  const std::string_view number = take_word(line);
  double v = 0;
  const auto r = std::from_chars(number.data(), number.data() + number.size(), v);
  constexpr double most = 1e15;
  if (r.ec != std::errc{} || r.ptr != number.data() + number.size() || !std::isfinite(v) || v < 0 || v > most)
    return "found '" + std::string{number} + "', expected a number from 0 to 1e15";
  if (take_word(line).empty()) return "where the number is from is missing";
  all[static_cast<std::size_t>(m - medium_names.begin())].*(c->where) = v;
  return {};
}

double of(const site& s, counter c) { return static_cast<double>(s[c]); }

double transactions_of(const site& s, const profile& run) {
  const double bursts = run.burst == 0 ? 0 : static_cast<double>(run.accesses) / static_cast<double>(run.burst) + 1;
  return std::min(of(s, counter::lines_logged), bursts);
}

}  // namespace

costs costs::usual() {
  costs c;
  std::string problem;
  // The text is part of this program, and a test reads it.
  (void)c.replace(coefficients_text, problem);
  return c;
}

std::string_view costs::text() noexcept { return coefficients_text; }

bool costs::replace(std::string_view text, std::string& problem) {
  auto all = all_;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string wrong = take_line(text.substr(0, end), all);
    if (!wrong.empty()) {
      problem = "line " + std::to_string(number) + ": " + wrong;
      return false;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  all_ = all;
  return true;
}

price price_of(const site& s, const profile& run, const medium_costs& c, const assumptions& a) {
  price p;
  const double in = of(s, counter::lines_in);
  const double out = of(s, counter::lines_out);
  const double logged = a.transactions ? of(s, counter::lines_logged) : 0;
  p.time_ns = in * (c.read_ns + c.miss_share * c.miss_ns) + out * c.write_ns + of(s, counter::objects) * c.alloc_ns;
  if (a.transactions) p.time_ns += logged * c.log_ns + transactions_of(s, run) * c.commit_ns;
  const double written = out + logged * c.log_lines;
  if (a.model == access_model::instructions) {
    p.access_pj = 8 * (of(s, counter::read_bytes) * c.read_pj + of(s, counter::written_bytes) * c.write_pj);
  } else {
    p.access_pj = line_bits * (in * c.read_pj + written * c.write_pj);
  }
  // mW * s = mJ = 1e9 pJ
  const double ns_of_tick = run.ticks == 0 ? 0 : static_cast<double>(run.ns) / static_cast<double>(run.ticks);
  const double gib_seconds = of(s, counter::byte_ticks) * ns_of_tick * 1e-9 / gib;
  p.static_pj = gib_seconds * c.static_mw * 1e9;
  const double lines = std::max(1.0, std::ceil(of(s, counter::peak_bytes) / line_size));
  p.wear = c.endurance == 0 ? 0 : written / (lines * c.endurance);
  return p;
}

double value_of(const price& p, measure m) noexcept {
  switch (m) {
    case measure::time:
      return p.time_ns;
    case measure::energy:
      return p.energy_pj();
    case measure::wear:
      return p.wear;
  }
  return 0;
}

std::vector<ranked_site> rank(const profile& run, const costs& c, const assumptions& a, medium target, measure by) {
  std::vector<ranked_site> all;
  for (std::uint32_t n = 1; n <= run.sites.size(); ++n) {
    const site& s = run.sites[n - 1];
    if (s.kind != site_kind::path) continue;
    ranked_site r;
    r.number = n;
    for (std::size_t m = 0; m < medium_names.size(); ++m) {
      r.prices[m] = price_of(s, run, c.of(static_cast<medium>(m)), a);
      if (value_of(r.prices[m], by) < value_of(r.prices[static_cast<std::size_t>(r.best)], by))
        r.best = static_cast<medium>(m);
    }
    r.gain = value_of(r.prices[0], by) - value_of(r.prices[static_cast<std::size_t>(target)], by);
    all.push_back(r);
  }
  std::ranges::sort(all, [&](const ranked_site& x, const ranked_site& y) {
    if (x.gain != y.gain) return x.gain > y.gain;
    const std::uint64_t bytes = run.sites[x.number - 1][counter::bytes];
    const std::uint64_t others = run.sites[y.number - 1][counter::bytes];
    return bytes != others ? bytes > others : x.number < y.number;
  });
  return all;
}

}  // namespace nvm::advisor
