// holdfast advise: which allocations of a program are worth a durable heap, and the patch that moves them there.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "advisor/advisor.hpp"
#include "cli/advise_patch.hpp"
#include "cli/arguments.hpp"
#include "cli/units.hpp"

namespace nvm::cli {
namespace advise_verb {
namespace {

using advisor::counter;
using advisor::medium;

constexpr std::string_view media[] = {"shm", "nvm", "ssd", "tier"};
constexpr std::string_view measures[] = {"energy", "time", "wear"};
constexpr std::string_view models[] = {"lines", "instructions"};
constexpr operand operands[] = {{.name = "PROFILE",
                                 .kind = operand_kind::pool_file,
                                 .required = false,  // but for --show-costs
                                 .help = "what a run of a program compiled with holdfast-cc -fnvm-profile has left; "
                                         "several of one build count as one",
                                 .many = true}};
constexpr option options[] = {
    {"on", value_kind::choice, "MEDIUM", "where the objects would lie: shm, nvm, ssd, tier; default nvm", media},
    {"by", value_kind::choice, "MEASURE", "what sites are ranked by: energy, time, wear; default energy", measures},
    {"model", value_kind::choice, "MODEL",
     "which accesses reach the memory: lines that a modelled cache of 2 MiB reads and writes, or all instructions, as "
     "HEAPO has it; default lines",
     models},
    {"without-transactions", value_kind::flag, "", "price neither log nor commits: the program brackets nothing yet"},
    {"costs", value_kind::path, "FILE", "coefficients that replace some of the usual ones, in their form"},
    {"top", value_kind::count, "N", "print that many sites; default 20"},
    {"sites", value_kind::text, "N,N", "these sites; with --rewrite: move them instead of those that gain"},
    {"rewrite", value_kind::flag, "",
     "print a unified diff that moves the chosen sites' objects into the program's store; nothing is written"},
    {"with-pointers", value_kind::flag, "",
     "with --rewrite: also objects that hold pointers, which lead nowhere in the next process"},
    {"show-costs", value_kind::flag, "", "print the usual coefficients and where they are from; reads no profile"},
};
constexpr json_field fields[] = {
    {"build", "build id of the program"},
    {"program", "its path"},
    {"runs", "profiles that were merged"},
    {"accesses", "loads and stores of allocated memory, all runs"},
    {"seconds", "duration of all runs, profiled"},
    {"on", "medium"},
    {"by", "measure"},
    {"sites[].site", "number, for --sites"},
    {"sites[].rank", "from 1 on"},
    {"sites[].path[].file", "of the call; the innermost call comes first"},
    {"sites[].path[].line", "in it"},
    {"sites[].path[].column", "in it"},
    {"sites[].path[].function", "that calls"},
    {"sites[].path[].called", "function that is called; empty: through a pointer"},
    {"sites[].counts.objects", "allocations"},
    {"sites[].counts.bytes", "asked for by them and by growth"},
    {"sites[].counts.largest", "bytes of the largest object"},
    {"sites[].counts.frees", "of them"},
    {"sites[].counts.reallocs", "of them"},
    {"sites[].counts.live_objects", "when the runs ended"},
    {"sites[].counts.live_bytes", "when the runs ended"},
    {"sites[].counts.peak_bytes", "live at one time"},
    {"sites[].counts.object_accesses", "lifetimes added up, in accesses of the program"},
    {"sites[].counts.object_ticks", "lifetimes added up, in time stamps"},
    {"sites[].counts.byte_ticks", "bytes times lifetime, added up"},
    {"sites[].counts.loads", "of the objects"},
    {"sites[].counts.stores", "to the objects"},
    {"sites[].counts.read_bytes", "by loads"},
    {"sites[].counts.written_bytes", "by stores"},
    {"sites[].counts.lines_logged", "first stores to a line in a burst"},
    {"sites[].counts.lines_in", "read into the modelled cache"},
    {"sites[].counts.lines_out", "written back from it"},
    {"sites[].prices.dram.time_ns", "what the objects cost there"},
    {"sites[].prices.dram.energy_pj", "the same, static energy included"},
    {"sites[].prices.dram.static_pj", "of that what holds them"},
    {"sites[].prices.dram.wear", "share of a cell's life"},
    {"sites[].prices.shm.time_ns", "what the objects cost there"},
    {"sites[].prices.shm.energy_pj", "the same, static energy included"},
    {"sites[].prices.shm.static_pj", "of that what holds them"},
    {"sites[].prices.shm.wear", "share of a cell's life"},
    {"sites[].prices.nvm.time_ns", "what the objects cost there"},
    {"sites[].prices.nvm.energy_pj", "the same, static energy included"},
    {"sites[].prices.nvm.static_pj", "of that what holds them"},
    {"sites[].prices.nvm.wear", "share of a cell's life"},
    {"sites[].prices.ssd.time_ns", "what the objects cost there"},
    {"sites[].prices.ssd.energy_pj", "the same, static energy included"},
    {"sites[].prices.ssd.static_pj", "of that what holds them"},
    {"sites[].prices.ssd.wear", "share of a cell's life"},
    {"sites[].prices.tier.time_ns", "what the objects cost there"},
    {"sites[].prices.tier.energy_pj", "the same, static energy included"},
    {"sites[].prices.tier.static_pj", "of that what holds them"},
    {"sites[].prices.tier.wear", "share of a cell's life"},
    {"sites[].gain", "what the medium saves against DRAM: picojoules, nanoseconds, share of a cell's life"},
    {"sites[].best", "cheapest medium by the measure"},
    {"sites[].verdict",
     "ok, or why the objects should not be durable: pointer, callback, lock, unknown (type), or "
     "cannot be moved: call, macro, library; absent: the sources were not looked at"},
    {"sites[].why", "sentence of the verdict"},
    {"sites[].type", "of the objects"},
    {"durable.loads", "of memory in pools"},
    {"durable.stores", "to memory in pools"},
    {"durable.read_bytes", "of memory in pools"},
    {"durable.written_bytes", "to memory in pools"},
    {"moved.loads", "that go elsewhere if the chosen sites move"},
    {"moved.stores", "the same"},
    {"moved.read_bytes", "the same"},
    {"moved.written_bytes", "the same"},
    {"moved.objects", "that are allocated elsewhere"},
    {"moved.time_ns", "that this adds"},
    {"moved.energy_pj", "that this adds"},
    {"remarks[]", "sentences about the patch: where transactions should be, what was left out"},
    {"patch", "unified diff; with --rewrite"},
    {"costs", "the usual coefficients; with --show-costs"},
};
constexpr std::string_view examples[] = {
    "holdfast-cc -O2 -fnvm-profile app.c -o app && ./app && holdfast advise holdfast-*.profile",
    "holdfast advise --on ssd --by time --json run1.profile run2.profile",
    "holdfast advise --rewrite --sites 3,7 run1.profile > store.patch && patch -p1 < store.patch",
};

constexpr std::string_view counter_names[advisor::counter_count] = {
    "objects",    "bytes",      "largest",         "frees",        "reallocs",   "live_objects",
    "live_bytes", "peak_bytes", "object_accesses", "object_ticks", "byte_ticks", "loads",
    "stores",     "read_bytes", "written_bytes",   "lines_logged", "lines_in",   "lines_out"};

std::optional<std::string> content_of(const std::string& path, std::string& problem) {
  std::ifstream in{path, std::ios::binary};
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (in.is_open() && !in.bad()) return text;
  problem = std::strerror(errno);
  return std::nullopt;
}

struct request {
  advisor::costs costs = advisor::costs::usual();
  advisor::assumptions assume;
  medium on = medium::nvm;
  advisor::measure by = advisor::measure::energy;
  std::uint64_t top = 20;
  std::vector<std::uint32_t> sites;
  rewrite_order order;
};

// Reads numbers from 1 on, separated by commas.
bool read_sites(std::string_view text, std::vector<std::uint32_t>& to) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const parsed_number n = parse_count(text.substr(0, end), UINT32_MAX);
    if (!n.problem.empty() || n.value == 0) return false;
    to.push_back(static_cast<std::uint32_t>(n.value));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

std::optional<failure> read_request(const arguments& given, request& r) {
  r.assume.transactions = !given.flag("without-transactions");
  if (given.choice("model") == "instructions") r.assume.model = advisor::access_model::instructions;
  const std::string on = given.choice("on").value_or("nvm");
  r.on = static_cast<medium>(std::ranges::find(advisor::medium_names, on) - advisor::medium_names.begin());
  const std::string by = given.choice("by").value_or("energy");
  r.by = by == "time" ? advisor::measure::time : by == "wear" ? advisor::measure::wear : advisor::measure::energy;
  r.top = given.number("top").value_or(r.top);
  r.order.patch = given.flag("rewrite");
  r.order.with_pointers = given.flag("with-pointers");
  if (!read_sites(given.text("sites"), r.sites))
    return failure{exit_usage, "advise", "USAGE", "--sites: expected numbers from 1 on, apart by commas"};
  if (r.order.with_pointers && !r.order.patch)
    return failure{exit_usage, "advise", "USAGE", "--with-pointers goes with --rewrite"};
  if (const std::string file = given.text("costs"); !file.empty()) {
    std::string problem;
    const auto text = content_of(file, problem);
    if (!text || !r.costs.replace(*text, problem)) return failure{exit_usage, file, "USAGE", problem};
  }
  return std::nullopt;
}

std::optional<failure> read_profiles(const arguments& given, advisor::profile& all, rewrite_order& order) {
  for (std::size_t k = 0; k < given.operands(); ++k) {
    const std::string& path = given.operand(k);
    std::string problem;
    const auto text = content_of(path, problem);
    if (!text) return failure{exit_unavailable, path, "NVM_E_NOT_FOUND", problem};
    auto one = advisor::read_profile(*text, problem);
    if (one && k == 0) all = std::move(*one);
    if (!one || (k != 0 && !advisor::merge(all, *one, problem)))
      return failure{exit_unavailable, path, "NVM_E_CORRUPT", problem};
    order.profiles.push_back(path);
  }
  return std::nullopt;
}

std::string place_text(const advisor::profile& run, std::uint32_t number) {
  const advisor::place& p = run.at(number);
  const std::string file = p.file == 0 ? "?" : run.file(p.file).path;
  return fmt::format("{}:{}:{}", file.substr(file.rfind('/') + 1), p.line, p.column);
}

std::string path_text(const advisor::profile& run, const advisor::site& s) {
  std::string text;
  for (const std::uint32_t n : run.whole_path(s)) {
    const advisor::place& p = run.at(n);
    if (text.empty()) {
      text = fmt::format("{} {} in {}", place_text(run, n), p.called.empty() ? "(*)" : p.called, p.function);
    } else {
      text += fmt::format(" < {} {}", p.function, place_text(run, n));
    }
  }
  return text;
}

// With its sign; energy and time as people read them, wear as a share.
std::string gain_text(double gain, advisor::measure by) {
  const std::string_view sign = gain < 0 ? "-" : "+";
  const double size = gain < 0 ? -gain : gain;
  if (by == advisor::measure::time) return fmt::format("{}{}", sign, duration_text(size));
  if (by == advisor::measure::wear) return fmt::format("{}{:.2g}", sign, size);
  if (size >= 1e9) return fmt::format("{}{:.2f} mJ", sign, size * 1e-9);
  return size >= 1e6 ? fmt::format("{}{:.2f} uJ", sign, size * 1e-6) : fmt::format("{}{:.2f} nJ", sign, size * 1e-3);
}

json document_of(const advisor::profile& run, const advisor::ranked_site& r, std::size_t rank) {
  const advisor::site& s = run.sites[r.number - 1];
  json path = json::array();
  for (const std::uint32_t n : run.whole_path(s)) {
    const advisor::place& p = run.at(n);
    path.push_back({{"file", p.file == 0 ? "" : run.file(p.file).path},
                    {"line", p.line},
                    {"column", p.column},
                    {"function", p.function},
                    {"called", p.called}});
  }
  json counts;
  for (std::size_t k = 0; k < advisor::counter_count; ++k) counts[std::string{counter_names[k]}] = s.counts[k];
  json prices;
  for (std::size_t m = 0; m < advisor::medium_names.size(); ++m) {
    const advisor::price& p = r.prices[m];
    prices[std::string{advisor::medium_names[m]}] = {
        {"time_ns", p.time_ns}, {"energy_pj", p.energy_pj()}, {"static_pj", p.static_pj}, {"wear", p.wear}};
  }
  return {{"site", r.number},
          {"rank", rank},
          {"path", std::move(path)},
          {"counts", std::move(counts)},
          {"prices", prices},
          {"gain", r.gain},
          {"best", advisor::medium_names[static_cast<std::size_t>(r.best)]}};
}

// The sums over these sites, if they move.
json moved_by(const advisor::profile& run, const std::vector<advisor::ranked_site>& all,
              const std::vector<std::uint32_t>& chosen, medium on) {
  std::uint64_t sums[5] = {};
  static constexpr counter which[5] = {counter::loads, counter::stores, counter::read_bytes, counter::written_bytes,
                                       counter::objects};
  double time = 0;
  double energy = 0;
  for (const advisor::ranked_site& r : all) {
    if (std::ranges::find(chosen, r.number) == chosen.end()) continue;
    for (std::size_t k = 0; k < std::size(which); ++k) sums[k] += run.sites[r.number - 1][which[k]];
    const advisor::price& there = r.prices[static_cast<std::size_t>(on)];
    time += there.time_ns - r.prices[0].time_ns;
    energy += there.energy_pj() - r.prices[0].energy_pj();
  }
  return {{"loads", sums[0]},   {"stores", sums[1]}, {"read_bytes", sums[2]}, {"written_bytes", sums[3]},
          {"objects", sums[4]}, {"time_ns", time},   {"energy_pj", energy}};
}

json durable_of(const advisor::profile& run) {
  std::uint64_t sums[4] = {};
  for (const advisor::site& s : run.sites) {
    if (s.kind != advisor::site_kind::durable) continue;
    sums[0] += s[counter::loads];
    sums[1] += s[counter::stores];
    sums[2] += s[counter::read_bytes];
    sums[3] += s[counter::written_bytes];
  }
  return {{"loads", sums[0]}, {"stores", sums[1]}, {"read_bytes", sums[2]}, {"written_bytes", sums[3]}};
}

class report {
 public:
  report(const advisor::profile& run, const request& r, console& out)
      : run_{run}, r_{r}, out_{out}, ranked_{advisor::rank(run, r.costs, r.assume, r.on, r.by)} {}

  exit_code print() {
    if (const auto wrong = choose()) return out_.fail(*wrong);
    rewrite_order order = r_.order;
    order.sites = chosen_;
    answer_ = ask_rewriter(order);
    if (!answer_.problem.message.empty() && order.patch) return out_.fail(answer_.problem);
    if (order.patch) {
      print_patch();
    } else {
      print_table();
    }
    if (out_.as_json()) out_.document(document());
    return exit_good;
  }

 private:
  // Chooses the requested sites, otherwise those that gain.
  std::optional<failure> choose() {
    for (const std::uint32_t n : r_.sites) {
      const bool there = std::ranges::find(ranked_, n, &advisor::ranked_site::number) != ranked_.end();
      if (!there) return failure{exit_usage, "advise", "USAGE", fmt::format("--sites: there is no site {}", n)};
    }
    chosen_ = r_.sites;
    if (!chosen_.empty()) return std::nullopt;
    for (const advisor::ranked_site& s : ranked_) {
      if (s.gain > 0) chosen_.push_back(s.number);
    }
    if (chosen_.empty() && r_.order.patch)
      return failure{exit_negative, "advise", "REFUSED", "no site gains anything; --sites N,N moves some all the same"};
    return std::nullopt;
  }

  void print_table() {
    out_.text("{}: {} run{}, {} accesses of allocated memory; on {} against dram, by {}\n\n", run_.program, run_.runs,
              run_.runs == 1 ? "" : "s", run_.accesses, advisor::medium_names[static_cast<std::size_t>(r_.on)],
              measures[r_.by == advisor::measure::energy ? 0
                       : r_.by == advisor::measure::time ? 1
                                                         : 2]);
    out_.text("{:>5} {:>12} {:>5} {:>9} {:>10} {:>12} {:>12} {:>10}  {}\n", "site", "gain", "best", "objects", "peak",
              "loads", "stores", "logged", "where");
    std::uint64_t printed = 0;
    for (const advisor::ranked_site& r : ranked_) {
      if (!r_.sites.empty() && std::ranges::find(r_.sites, r.number) == r_.sites.end()) continue;
      if (printed++ == r_.top) break;
      const advisor::site& s = run_.sites[r.number - 1];
      out_.text("{:>5} {:>12} {:>5} {:>9} {:>10} {:>12} {:>12} {:>10}  {}\n", r.number, gain_text(r.gain, r_.by),
                advisor::medium_names[static_cast<std::size_t>(r.best)], s[counter::objects],
                size_text(s[counter::peak_bytes]), s[counter::loads], s[counter::stores], s[counter::lines_logged],
                path_text(run_, s));
      const auto v = answer_.verdicts.find(r.number);
      if (v != answer_.verdicts.end() && v->second.kind != "ok") out_.text("{:>20}{}\n", "not: ", v->second.text);
    }
    if (!answer_.problem.message.empty() && out_.as_text())
      out_.note("holdfast: advise: sources not looked at: {}", answer_.problem.message);
  }

  // The patch alone goes to standard output, so that it can be piped.
  void print_patch() {
    for (const std::uint32_t n : chosen_) {
      const auto v = answer_.verdicts.find(n);
      if (v != answer_.verdicts.end() && v->second.kind != "ok")
        out_.note("holdfast: advise: site {} stays: {}", n, v->second.text);
    }
    for (const std::string& m : answer_.remarks) out_.note("{}", m);
    out_.text("{}", answer_.patch);
  }

  json document() {
    json sites = json::array();
    for (std::size_t k = 0; k < ranked_.size(); ++k) {
      json one = document_of(run_, ranked_[k], k + 1);
      if (const auto v = answer_.verdicts.find(ranked_[k].number); v != answer_.verdicts.end()) {
        one["verdict"] = v->second.kind;
        one["why"] = v->second.text;
        one["type"] = v->second.type;
      }
      sites.push_back(std::move(one));
    }
    json d = {{"build", run_.build},
              {"program", run_.program},
              {"runs", run_.runs},
              {"accesses", run_.accesses},
              {"seconds", static_cast<double>(run_.ns) * 1e-9},
              {"on", advisor::medium_names[static_cast<std::size_t>(r_.on)]},
              {"by", measures[r_.by == advisor::measure::energy ? 0
                              : r_.by == advisor::measure::time ? 1
                                                                : 2]},
              {"sites", std::move(sites)},
              {"durable", durable_of(run_)},
              {"moved", moved_by(run_, ranked_, moved_sites(), r_.on)},
              {"remarks", answer_.remarks}};
    if (r_.order.patch) d["patch"] = answer_.patch;
    return d;
  }

  // The chosen ones that a patch moves.
  std::vector<std::uint32_t> moved_sites() const {
    std::vector<std::uint32_t> all;
    for (const std::uint32_t n : chosen_) {
      const auto v = answer_.verdicts.find(n);
      if (!r_.order.patch || v == answer_.verdicts.end() || v->second.kind == "ok") all.push_back(n);
    }
    return all;
  }

  const advisor::profile& run_;
  const request& r_;
  console& out_;
  std::vector<advisor::ranked_site> ranked_;
  std::vector<std::uint32_t> chosen_;
  rewrite_answer answer_;
};

exit_code run(const arguments& given, console& out) {
  if (given.flag("show-costs")) {
    out.text("{}", advisor::costs::text());
    out.document({{"costs", advisor::costs::text()}});
    return exit_good;
  }
  if (given.operands() == 0) return out.fail({exit_usage, "advise", "USAGE", "PROFILE is missing"});
  request r;
  if (const auto wrong = read_request(given, r)) return out.fail(*wrong);
  advisor::profile all;
  if (const auto wrong = read_profiles(given, all, r.order)) return out.fail(*wrong);
  return report{all, r, out}.print();
}

}  // namespace
}  // namespace advise_verb

extern const command advise_command;
const command advise_command{
    .name = "advise",
    .summary = "say which allocations of a program are worth a durable heap",
    .description =
        "Reads profiles of a program that was compiled and linked by holdfast-cc -fnvm-profile, prices the objects of "
        "each allocation site in time, energy and wear as they would be in DRAM, in a pool on shared memory, on "
        "non-volatile memory, on a disk, and in a tier of memory and disk, and ranks the sites by what they gain. "
        "Sites "
        "whose objects should not be durable, since they hold pointers or functions, are named with the reason.\n\n"
        "With --rewrite it prints a patch of the program's sources: allocation calls of the chosen sites, free and "
        "realloc by address, and a store that is named by the program's path at the start of main. Where transactions "
        "should be is remarked, and left to you. Profiles of other builds, sources that changed since, and changes of "
        "system headers are refused.",
    .operands = advise_verb::operands,
    .options = advise_verb::options,
    .fields = advise_verb::fields,
    .examples = advise_verb::examples,
    .run = advise_verb::run,
};

}  // namespace nvm::cli
