#include "advisor/profile.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "base/checksum.hpp"

namespace nvm::advisor {
namespace {

constexpr std::size_t records_max = 1 << 20;  // of each kind

int digit_of(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// A line, taken field by field; it keeps the first error.
class line {
 public:
  explicit line(std::string_view text) : rest_{text} {}

  [[nodiscard]] bool good() const noexcept { return wrong_.empty(); }
  [[nodiscard]] const std::string& wrong() const noexcept { return wrong_; }
  void fail(std::string why) {
    if (wrong_.empty()) wrong_ = std::move(why);
  }

  std::string_view word() {
    if (ended_) fail("a field is missing");
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view w = rest_.substr(0, end);
    ended_ = end == rest_.size();
    rest_.remove_prefix(ended_ ? end : end + 1);
    if (w.empty()) fail("an empty field");
    return good() ? w : std::string_view{};
  }

  std::uint64_t number(std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
    const std::string_view w = word();
    std::uint64_t v = 0;
    const auto r = std::from_chars(w.data(), w.data() + w.size(), v);
    if (!good()) return 0;
    if (r.ec != std::errc{} || r.ptr != w.data() + w.size()) fail("found '" + std::string{w} + "', expected a number");
    if (good() && v > most) fail("found " + std::to_string(v) + ", expected at most " + std::to_string(most));
    return good() ? v : 0;
  }

  std::uint32_t reference(std::size_t known, bool may_be_none) {
    const std::uint64_t v = number(known);
    if (good() && v == 0 && !may_be_none) fail("found 0, expected a number from 1 on");
    return static_cast<std::uint32_t>(v);
  }

  void next_id(std::size_t known) {
    const std::uint64_t v = number();
    if (good() && v != known + 1) fail("found id " + std::to_string(v) + ", expected " + std::to_string(known + 1));
    if (good() && known == records_max) fail("more than " + std::to_string(records_max) + " records of a kind");
  }

  std::string text() {
    const std::string_view w = word();
    std::string t;
    if (w == "%") return t;
    for (std::size_t k = 0; k < w.size(); ++k) {
      if (w[k] != '%') {
        t += w[k];
        continue;
      }
      const int high = k + 2 < w.size() ? digit_of(w[k + 1]) : -1;
      const int low = k + 2 < w.size() ? digit_of(w[k + 2]) : -1;
      if (high < 0 || low < 0) {
        fail("a percent sign without two digits");
        return {};
      }
      t += static_cast<char>(high * 16 + low);
      k += 2;
    }
    return t;
  }

  std::string hexadecimal(std::size_t most) {
    const std::string_view w = word();
    if (w == "-") return {};
    const bool hex = std::ranges::all_of(w, [](char c) { return digit_of(c) >= 0; });
    if (good() && (!hex || w.size() > most)) fail("found '" + std::string{w} + "', expected hexadecimal digits or -");
    return std::string{w};
  }

  void end() {
    if (good() && !ended_) fail("found '" + std::string{rest_} + "' after the last field");
  }

 private:
  std::string_view rest_;
  std::string wrong_;
  bool ended_ = false;
};

class reader {
 public:
  bool take(std::string_view text, std::string& problem) {
    std::size_t number = 0;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      line l{text.substr(0, end)};
      text.remove_prefix(end + 1);
      ++number;
      record(l, number);
      l.end();
      if (l.good()) continue;
      problem = "line " + std::to_string(number) + ": " + l.wrong();
      return false;
    }
    if (number >= header_lines) return true;
    problem = "found " + std::to_string(number) + " lines, expected those of a header";
    return false;
  }

  profile result;

 private:
  static constexpr std::size_t header_lines = 5;

  void header(line& l, std::size_t number) {
    static constexpr std::string_view names[header_lines] = {profile_magic, "build", "program", "clock", "settings"};
    const std::string_view name = l.word();
    if (l.good() && name != names[number - 1])
      l.fail("found '" + std::string{name} + "', expected '" + std::string{names[number - 1]} + "'");
    if (!l.good()) return;
    profile& p = result;
    switch (number) {
      case 1: {
        const std::uint64_t version = l.number();
        if (l.good() && version != profile_version)
          l.fail("version " + std::to_string(version) + ", expected " + std::to_string(profile_version));
        break;
      }
      case 2:
        p.build = l.hexadecimal(build_id_max);
        break;
      case 3:
        p.program = l.text();
        break;
      case 4:
        p.accesses = l.number();
        p.ticks = l.number();
        p.ns = l.number();
        break;
      default:
        p.depth = l.number(path_depth_max);
        p.burst = l.number();
        p.lines = l.number();
    }
  }

  void record(line& l, std::size_t number) {
    if (number <= header_lines) return header(l, number);
    const std::string_view name = l.word();
    if (!l.good()) return;
    if (name == "file") return take_file(l);
    if (name == "unit") return take_unit(l);
    if (name == "place") return take_place(l);
    if (name == "site") return take_site(l);
    if (name == "edge") return take_edge(l);
    l.fail("found '" + std::string{name} + "', expected file, unit, place, site or edge");
  }

  void take_file(line& l) {
    l.next_id(result.files.size());
    source_file f;
    f.md5 = l.hexadecimal(32);
    f.path = l.text();
    result.files.push_back(std::move(f));
  }
  void take_unit(line& l) {
    unit u;
    u.file = l.reference(result.files.size(), false);
    u.folder = l.text();
    u.command = l.text();
    if (result.units.size() == records_max) l.fail("too many units");
    if (l.good()) result.units.push_back(std::move(u));
  }
  void take_place(line& l) {
    l.next_id(result.places.size());
    place p;
    p.file = l.reference(result.files.size(), true);
    p.line = static_cast<std::uint32_t>(l.number(std::numeric_limits<std::uint32_t>::max()));
    p.column = static_cast<std::uint32_t>(l.number(std::numeric_limits<std::uint32_t>::max()));
    p.function = l.text();
    p.called = l.text();
    if (p.called == "-") p.called.clear();
    // An earlier place, so that no chain is a circle.
    p.around = l.reference(result.places.size(), true);
    result.places.push_back(std::move(p));
  }
  void take_site(line& l) {
    l.next_id(result.sites.size());
    site s;
    s.kind = static_cast<site_kind>(l.number(static_cast<std::uint64_t>(site_kind::nowhere)));
    const std::uint64_t depth = l.number(path_depth_max);
    for (std::uint64_t k = 0; k < depth && l.good(); ++k) s.path.push_back(l.reference(result.places.size(), false));
    if (l.good() && (s.kind == site_kind::path) == s.path.empty()) l.fail("a path where none is, or none where one is");
    for (std::uint64_t& v : s.counts) v = l.number();
    if (l.good() && s[counter::frees] + s[counter::live_objects] < s[counter::frees]) l.fail("counters that overflow");
    result.sites.push_back(std::move(s));
  }
  void take_edge(line& l) {
    edge e;
    e.site = l.reference(result.sites.size(), false);
    const std::string_view kind = l.word();
    if (kind == "realloc") {
      e.kind = edge_kind_in_file::realloc;
    } else if (l.good() && kind != "free") {
      l.fail("found '" + std::string{kind} + "', expected free or realloc");
    }
    e.place = l.reference(result.places.size(), true);
    e.count = l.number();
    if (result.edges.size() == records_max) l.fail("too many edges");
    if (l.good()) result.edges.push_back(e);
  }
};

std::uint64_t plus(std::uint64_t a, std::uint64_t b) noexcept {
  return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

// Finds the records of `more` in `all` by their content, and adds those that are missing.
class merger {
 public:
  merger(profile& all, const profile& more) : all_{all}, more_{more} {}

  void run() {
    files();
    places();
    sites();
    edges();
    for (const unit& u : more_.units) {
      const auto same = [&](const unit& v) {
        return v.file == files_[u.file] && v.folder == u.folder && v.command == u.command;
      };
      if (std::ranges::none_of(all_.units, same)) all_.units.push_back({files_[u.file], u.folder, u.command});
    }
    all_.runs = plus(all_.runs, more_.runs);
    all_.accesses = plus(all_.accesses, more_.accesses);
    all_.ticks = plus(all_.ticks, more_.ticks);
    all_.ns = plus(all_.ns, more_.ns);
  }

 private:
  void files() {
    std::map<std::string, std::uint32_t> known;
    for (std::uint32_t k = 0; k < all_.files.size(); ++k) known.emplace(all_.files[k].path, k + 1);
    files_.assign(1, 0);
    for (const source_file& f : more_.files) {
      const auto [at, fresh] = known.emplace(f.path, static_cast<std::uint32_t>(all_.files.size() + 1));
      if (fresh) all_.files.push_back(f);
      files_.push_back(at->second);
    }
  }

  using place_key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::string, std::string, std::uint32_t>;
  static place_key key_of(const place& p) { return {p.file, p.line, p.column, p.function, p.called, p.around}; }
  void places() {
    std::map<place_key, std::uint32_t> known;
    for (std::uint32_t k = 0; k < all_.places.size(); ++k) known.emplace(key_of(all_.places[k]), k + 1);
    places_.assign(1, 0);
    for (place p : more_.places) {
      p.file = files_[p.file];
      p.around = places_[p.around];
      const auto [at, fresh] = known.emplace(key_of(p), static_cast<std::uint32_t>(all_.places.size() + 1));
      if (fresh) all_.places.push_back(std::move(p));
      places_.push_back(at->second);
    }
  }

  void sites() {
    std::map<std::pair<site_kind, std::vector<std::uint32_t>>, std::uint32_t> known;
    for (std::uint32_t k = 0; k < all_.sites.size(); ++k)
      known.emplace(std::pair{all_.sites[k].kind, all_.sites[k].path}, k + 1);
    sites_.assign(1, 0);
    for (site s : more_.sites) {
      for (std::uint32_t& p : s.path) p = places_[p];
      const auto [at, fresh] =
          known.emplace(std::pair{s.kind, s.path}, static_cast<std::uint32_t>(all_.sites.size() + 1));
      sites_.push_back(at->second);
      if (fresh) {
        all_.sites.push_back(std::move(s));
        continue;
      }
      site& there = all_.sites[at->second - 1];
      for (std::size_t k = 0; k < counter_count; ++k) {
        const auto c = static_cast<counter>(k);
        const bool is_most = c == counter::largest || c == counter::peak_bytes;
        there.counts[k] = is_most ? std::max(there.counts[k], s.counts[k]) : plus(there.counts[k], s.counts[k]);
      }
    }
  }

  void edges() {
    using key = std::tuple<std::uint32_t, edge_kind_in_file, std::uint32_t>;
    std::map<key, std::size_t> known;
    for (std::size_t k = 0; k < all_.edges.size(); ++k)
      known.emplace(key{all_.edges[k].site, all_.edges[k].kind, all_.edges[k].place}, k);
    for (const edge& e : more_.edges) {
      const edge mine{sites_[e.site], e.kind, places_[e.place], e.count};
      const auto [at, fresh] = known.emplace(key{mine.site, mine.kind, mine.place}, all_.edges.size());
      if (fresh) {
        all_.edges.push_back(mine);
      } else {
        all_.edges[at->second].count = plus(all_.edges[at->second].count, e.count);
      }
    }
  }

  profile& all_;
  const profile& more_;
  std::vector<std::uint32_t> files_, places_, sites_;  // numbers in `all` by those in `more`
};

}  // namespace

std::vector<std::uint32_t> profile::whole_path(const site& s) const {
  std::vector<std::uint32_t> all;
  for (const std::uint32_t frame : s.path) {
    for (std::uint32_t p = frame; p != 0 && all.size() < path_depth_max; p = at(p).around) all.push_back(p);
  }
  return all;
}

std::optional<profile> read_profile(std::string_view text, std::string& problem) {
  if (!text.starts_with(profile_magic)) {
    problem = "not a profile: it does not begin with '" + std::string{profile_magic} + "'";
    return std::nullopt;
  }
  if (text.size() > profile_bytes_max) {
    problem = std::to_string(text.size()) + " bytes, expected at most " + std::to_string(profile_bytes_max);
    return std::nullopt;
  }
  // "sum <16 digits>\n"
  constexpr std::size_t sum_bytes = 21;
  const std::size_t body = text.size() < sum_bytes ? 0 : text.size() - sum_bytes;
  const std::string_view last = text.substr(body);
  std::uint64_t said = 0;
  const bool shaped = last.size() == sum_bytes && last.starts_with("sum ") && last.ends_with('\n') && body != 0 &&
                      text[body - 1] == '\n';
  if (!shaped || std::from_chars(last.data() + 4, last.data() + 20, said, 16).ptr != last.data() + 20) {
    problem = "the last line is not 'sum' and 16 digits: it is cut off";
    return std::nullopt;
  }
  const std::uint64_t sum = checksum(text.data(), body, profile_version);
  if (sum != said) {
    problem = "checksum: found another one than the bytes have";
    return std::nullopt;
  }
  reader r;
  if (!r.take(text.substr(0, body), problem)) return std::nullopt;
  return std::move(r.result);
}

bool merge(profile& all, const profile& more, std::string& problem) {
  if (all.build.empty() || more.build.empty()) {
    problem = "a program without a build id: nothing says that the runs are of one build";
  } else if (all.build != more.build) {
    problem = "of another build: found " + more.build + ", expected " + all.build;
  } else if (all.depth != more.depth || all.burst != more.burst || all.lines != more.lines) {
    problem = "counted in another way (HOLDFAST_PROFILE_DEPTH, HOLDFAST_PROFILE_BURST)";
  } else {
    merger{all, more}.run();
    return true;
  }
  return false;
}

}  // namespace nvm::advisor
