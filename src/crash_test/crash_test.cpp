#include "crash_test/crash_test.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "crash_test/outside.hpp"
#include "crash_test/pmemcheck.hpp"
#include "crash_test/pool_judge.hpp"
#include "crash_test/recording.hpp"
#include "explore/explorer.hpp"

namespace nvm::crash_test {
namespace {

using explore::event;
using explore::event_kind;
using explore::machine;
using explore::model;
using explore::verdict;
using explore::window;
using clock = std::chrono::steady_clock;

double since(clock::time_point t) { return std::chrono::duration<double>(clock::now() - t).count(); }

// Replays the trace as the explorer's run: its flushes and fences get the machine's numbers.
void replay_trace(const recording& r, const session& s, machine& m) {
  explore::trace& t = *m.recording();
  t = s.trace;
  std::vector<std::uint32_t> numbers(r.places.size(), ~0U);
  for (event& e : t.events) {
    if (e.kind != event_kind::flush && e.kind != event_kind::fence) continue;
    std::uint32_t& number = numbers[e.place];
    if (number == ~0U) {
      const place& p = r.places[e.place];
      const bool fence = e.kind == event_kind::fence;
      number = m.places().number_of(p.file.empty() ? p.function.c_str() : p.file.c_str(), fence ? 0 : p.site.line,
                                    fence ? explore::place_kind::fence : explore::place_kind::flush);
    }
    e.place = number;
  }
}

const char* kind_of(store_fault f) noexcept {
  switch (f) {
    case store_fault::outside:
      return "store-outside";
    case store_fault::unlogged:
      return "store-unlogged";
    case store_fault::late:
      return "store-late";
    case store_fault::none:
      break;
  }
  return "contents";
}

class tester {
 public:
  tester(const settings& s, const observer& watch) : settings_{s}, watch_{watch} {}

  outcome run() {
    if (!prepare()) return std::move(out_);
    out_.sessions = recording_.sessions.size();
    for (const session& s : recording_.sessions) {
      out_.threads = std::max<std::uint64_t>(out_.threads, s.threads);
      out_.transactions += s.transactions;
      out_.stores += s.stores;
      out_.events += s.trace.events.size();
    }
    explored_from_ = clock::now();
    if (!settings_.replay.empty()) {
      if (!replay())
        refuse(
            "the token fits no state of this trace: same program, arguments and build as when it was "
            "printed? A program that is not the same twice is replayed from its trace (--trace)");
    } else {
      for (std::size_t i = 0; i < recording_.sessions.size(); ++i) explore_session(i);
    }
    out_.explore_seconds = since(explored_from_);
    return std::move(out_);
  }

 private:
  bool refuse(std::string why) {
    out_.wrong_use = true;
    return fail(std::move(why));
  }
  bool fail(std::string why) {
    out_.problem = std::move(why);
    return false;
  }

  // ---- what is tested -----------------------------------------------------------------------------------------------

  bool prepare() {
    std::string problem;
    auto directory = scratch::make(problem);
    if (!directory) return fail(problem);
    scratch_.emplace(std::move(*directory));
    if (!settings_.pmemcheck.empty()) return import();
    if (settings_.program.empty()) {
      if (settings_.trace.empty()) return refuse("no program to test");
      return read(settings_.trace);
    }
    return record();
  }

  bool read(const std::string& path) {
    std::string problem;
    auto r = read_recording(path, problem);
    if (!r) return refuse(path + ": " + problem);
    recording_ = std::move(*r);
    if (recording_.cut) {
      out_.notes.emplace_back(
          "the trace is longer than its limit: what the program did later is not tested "
          "(HOLDFAST_RECORD_BYTES)");
    }
    if (recording_.sessions.empty()) {
      return refuse(
          "the program changed no pool on shared memory or DAX: pools on ssd are not recorded; let it work on "
          "a file in /dev/shm, or on {pool}");
    }
    return true;
  }

  bool record() {
    const std::string kept = settings_.trace.empty() ? scratch_->file(scratch::trace) : settings_.trace;
    std::remove(kept.c_str());
    const auto begun = clock::now();
    run_options o;
    o.environment = {"HOLDFAST_RECORD=" + kept};
    o.errors_pass = true;
    const ending e = run_program(command_line(scratch_->file(scratch::pool)), o);
    out_.record_seconds = since(begun);
    if (e.what == ending::how::not_started) return refuse(settings_.program[0] + ": " + e.errors);
    out_.program_ending = e.text();
    if (!e.good()) out_.notes.push_back("the program, while it was recorded, ended with " + e.text());
    std::ifstream made(kept);
    if (!made) {
      return refuse(settings_.program[0] + " left no trace: is it compiled and linked by holdfast-cc -fnvm-record?");
    }
    if (settings_.check.empty()) {
      asked_ = program_judge::start(command_line(scratch_->file(scratch::candidate)), settings_.check_seconds);
    }
    return read(kept);
  }

  bool import() {
    std::string problem;
    const auto content = [&](const std::string& path, auto& into) {
      std::ifstream f(path, std::ios::binary);
      if (!f) {
        problem = path + ": " + std::strerror(errno);
        return false;
      }
      const std::string text{std::istreambuf_iterator<char>(f), {}};
      into.resize(text.size());
      std::memcpy(into.data(), text.data(), text.size());
      return true;
    };
    std::string log;
    std::vector<std::byte> image;
    if (!content(settings_.pmemcheck, log)) return refuse(problem);
    if (!settings_.image.empty() && !content(settings_.image, image)) return refuse(problem);
    auto r = read_pmemcheck(log, std::move(image), settings_.file, problem);
    if (!r) return refuse(settings_.pmemcheck + ": " + problem);
    recording_ = std::move(*r);
    foreign_ = true;
    return true;
  }

  std::vector<std::string> command_line(const std::string& pool) const {
    std::vector<std::string> all;
    all.reserve(settings_.program.size());
    for (const std::string& a : settings_.program) all.push_back(with_pool(a, pool, false));
    return all;
  }
  bool names_pool() const {
    return std::any_of(settings_.program.begin(), settings_.program.end(),
                       [](const std::string& a) { return a.find("{pool}") != std::string::npos; });
  }

  // ---- exploration --------------------------------------------------------------------------------------------------

  struct stage {
    bool outside = false;  // judged by the user's check
    model persistency = model::x86;
    unsigned tiers = explore::all_tiers;
    double seconds = 0;
  };

  static constexpr const char* between_transactions =
      " of the state between two transactions, the first of which ends after ";
  static constexpr unsigned cheap_tiers = explore::t1_program_order | explore::t2_all_low | explore::t3_pairs;

  void explore_session(std::size_t number) {
    session_ = &recording_.sessions[number];
    session_number_ = number;
    if (!foreign_) judge_.emplace(*session_);
    const bool own = settings_.own_check && !foreign_;
    const bool outside = !settings_.check.empty() || asked_ != nullptr;
    if (own && !judge_->compares_contents()) {
      out_.notes.emplace_back(session_->transactions == 0
                                  ? "the program ran no transaction: contents are not compared"
                                  : "several threads store into the pool: contents are not compared, only the trace's "
                                    "rules, the pool's structure and the program's check are");
    }
    if (session_->unseen_pages != 0) {
      char text[240];
      std::snprintf(text, sizeof text,
                    "%llu pages, the first at pool offset 0x%llx, were also changed by code that does not report its "
                    "stores: compile it with -fnvm-record, or findings about them mean nothing",
                    static_cast<unsigned long long>(session_->unseen_pages),
                    static_cast<unsigned long long>(session_->unseen_at));
      out_.notes.emplace_back(text);
    }
    if (foreign_ && !outside) out_.notes.emplace_back("no --check: only the order of stores is looked at");
    if (outside && !open_candidate()) return;
    const double budget = settings_.seconds / static_cast<double>(recording_.sessions.size());
    const double share = 1.0 / static_cast<double>(settings_.models.size());
    const auto begun = clock::now();
    const auto left = [&] { return std::max(0.0, budget - since(begun)); };
    for (const model m : settings_.models) {
      if (own) explore(stage{false, m, cheap_tiers, std::min(left(), budget * (outside ? 0.4 : 0.6) * share)});
    }
    for (const model m : settings_.models) {
      if (outside) explore(stage{true, m, cheap_tiers, std::min(left(), budget * (own ? 0.4 : 1.0) * share)});
    }
    for (std::size_t i = 0; i < settings_.models.size(); ++i) {
      if (own && left() > 0) {
        explore(stage{false, settings_.models[i], explore::all_tiers,
                      left() / static_cast<double>(settings_.models.size() - i)});
      }
    }
    by_the_trace();
    if (names_pool()) compare_outputs();
  }

  explore::subject subject_of(const stage& g) {
    explore::subject s;
    s.name = "session " + std::to_string(session_number_ + 1);
    s.image = session_->image;
    s.run = [this](machine& m) { replay_trace(recording_, *session_, m); };
    if (g.outside) {
      s.recover = [](machine&) { return explore::pass(); };
      s.oracle = [this](machine& m, const window& w) { return ask_outside(m, w); };
    } else {
      s.recover = [this](machine& m) { return judge_->recover(m); };
      s.oracle = [this](machine& m, const window& w) { return judge_->check(m, w); };
    }
    return s;
  }

  explore::options options_of(const stage& g) {
    explore::options o;
    o.persistency = g.persistency;
    o.seed = settings_.seed;
    o.tiers = g.tiers;
    o.nesting = 0;
    o.idempotence_every = 0;
    o.seconds_max = g.seconds;
    o.violations_max = 0;
    o.one_of_each = true;
    o.clock_every = g.outside ? 1 : 64;
    o.rules = false;
    o.print_violations = false;
    o.replay_with = "the same command with --replay ";
    o.on_image = [this](const machine&, const window&) {
      ++images_;
      if (watch_.share != nullptr) *watch_.share = std::min(1.0, since(explored_from_) / settings_.seconds);
    };
    return o;
  }

  void explore(const stage& g) {
    if (g.seconds <= 0) {
      out_.budget_spent = true;
      return;
    }
    const explore::subject s = subject_of(g);
    explore::options o = options_of(g);
    o.on_violation = [this, &g](const explore::violation& v) { take(v, g); };
    if (g.outside) plan_sample(g);
    explore::explorer e(s, o);
    e.record();
    const explore::report r = e.explore({});
    for (const explore::violation& v : r.violations) count(v, g);
    (g.outside ? out_.states_outside : out_.states) += g.outside ? asked_states_ : r.unique_states;
    out_.budget_spent = out_.budget_spent || r.budget_spent;
    if (!g.outside) states_of_model_[g.persistency] = r.unique_states;
  }

  // ---- the user's check ---------------------------------------------------------------------------------------------

  bool open_candidate() {
    std::string problem;
    auto file = candidate_file::make(scratch_->file(scratch::candidate), session_->image.size(), problem);
    if (!file) {
      out_.notes.push_back("the check was not run: " + problem);
      return false;
    }
    candidate_.emplace(std::move(*file));
    return true;
  }

  // Length of the file whose beginning the image is.
  std::uint64_t file_bytes(const std::byte* image, std::uint64_t bytes) const {
    if (foreign_) return bytes;
    const auto sb = superblock_of(image, bytes);
    if (!sb) return bytes;
    const geometry g = geometry_of(*sb);
    return std::max(bytes, g.page_offset(g.size_pages));
  }

  // The check is shown every `stride`-th state of the stage: as many as there is time for.
  void plan_sample(const stage& g) {
    asked_states_ = 0;
    met_states_ = 0;
    stride_ = 1;
    stage_begun_ = clock::now();
    stage_seconds_ = g.seconds;
    const auto known = states_of_model_.find(g.persistency);
    expected_states_ = known != states_of_model_.end() ? known->second : session_->trace.events.size();
  }

  verdict ask_outside(machine& m, const window& w) {
    const std::uint64_t number = met_states_++;
    if (!replaying_ && number % stride_ != 0) return explore::pass();
    if (!candidate_->put(m.base(), file_bytes(m.base(), m.size()))) {
      return explore::fault("no room for the state's file");
    }
    ++asked_states_;
    std::optional<objection> o;
    if (!settings_.check.empty() || !settings_.recover.empty()) {
      command_judge judge{settings_.recover, settings_.check, settings_.check_seconds};
      o = judge.judge(candidate_->path());
    }
    if (!o && asked_ != nullptr) o = asked_->judge(candidate_->path());
    // After some runs the cost of one is known, and the rest is spread over the whole trace.
    constexpr std::uint64_t learnt_after = 8;
    if (!replaying_ && asked_states_ == learnt_after) {
      const double cost = since(stage_begun_) / static_cast<double>(asked_states_);
      const double affordable = std::max(1.0, stage_seconds_ / cost);
      stride_ =
          std::max<std::uint64_t>(1, static_cast<std::uint64_t>(static_cast<double>(expected_states_) / affordable));
    }
    if (!o) return explore::pass();
    // A finding of the check and one of the library's own judgement for the same store are one.
    constexpr std::uint64_t torn = ~std::uint64_t{0};
    const std::uint64_t whole = foreign_ ? torn : judge_->transactions_in(m, w).value_or(torn);
    if (!foreign_ && settings_.own_check && whole == torn) {
      if (const verdict v = judge_->check(m, w)) {
        messages_.try_emplace(*v, message{*o, nullptr});
        return v;
      }
    }
    // Failures of one kind are told apart by the program's own last store before the crash. A state between two
    // transactions has no lost or torn store: the boundary itself is wrong.
    std::string text = o->what;
    const nvm_rec_site* site = nullptr;
    if (whole != torn && whole != 0) {
      site = last_own_store(end_of(whole));
      text += between_transactions + text_of(site);
    } else {
      site = last_own_store(w.event);
      if (site != nullptr) text += " after " + text_of(site);
    }
    messages_.try_emplace(text, message{*o, site});
    return explore::fault(text);
  }

  // The event that ends the transaction, counted from 1.
  std::uint64_t end_of(std::uint64_t transaction) const {
    const auto& events = session_->trace.events;
    std::uint64_t at = 0;
    while (at < events.size() && transaction != 0) transaction -= events[at++].kind == event_kind::op_end ? 1U : 0U;
    return at;
  }

  const nvm_rec_site* last_own_store(std::uint64_t before) const {
    const auto& events = session_->trace.events;
    for (std::size_t i = std::min<std::size_t>(before, events.size()); i-- > 0;) {
      if (events[i].kind == event_kind::store && events[i].site->of_library == 0) return events[i].site;
    }
    return nullptr;
  }

  // ---- findings -----------------------------------------------------------------------------------------------------

  // The explorer puts the stage in front.
  static std::string without_stage(const std::string& what) {
    for (const char* prefix : {"oracle: ", "recovery: "}) {
      if (what.starts_with(prefix)) return what.substr(std::strlen(prefix));
    }
    return what;
  }

  static void name_site(finding& f, const nvm_rec_site* s) {
    if (s == nullptr) return;
    f.file = s->file;
    f.line = s->line;
    f.function = s->function;
  }

  void take(const explore::violation& v, const stage& g) {
    const std::string what = without_stage(v.what);
    const auto said = messages_.find(what);
    if (finding* known = find(what)) {
      if (g.outside && said != messages_.end() && told_.insert(what).second) {
        known->details += said_by(said->second.of, " of such a state");
      }
      return;
    }
    finding f;
    f.what = what;
    f.token = v.token;
    f.model = explore::name_of(v.persistency);
    f.kind = g.outside ? "check" : "structure";
    if (const pool_judge::blame* b = foreign_ ? nullptr : judge_->blame_of(what)) {
      f.kind = kind_of(b->fault);
      f.details = b->details;
      name_site(f, b->site);
    } else if (v.what.starts_with("recovery")) {
      f.kind = "recovery";
    }
    if (said != messages_.end()) {
      f.details += said_by(said->second.of, "");
      if (f.file.empty()) name_site(f, said->second.site);
    }
    f.details += explorer_lines(v.report, what.find(between_transactions) != std::string::npos);
    if (g.outside && f.details.find("missing edge") != std::string::npos && said != messages_.end()) {
      // Several stores may uncover the loss of one store, or of one line: the lost one is to blame.
      const auto [site, line] = first_lost(v.report);
      const bool known = !causes_.insert(said->second.of.what + " for want of " + site).second;
      if (!causes_.insert(said->second.of.what + " for want of line " + line).second || known) return;
    }
    add(std::move(f), v.promised, v.started);
  }

  // Place and line of the first lost store of the explorer's report; empty: the report has none.
  static std::pair<std::string, std::string> first_lost(const std::string& report) {
    const std::string mark = "first lost: ";
    const std::size_t at = report.find(mark);
    if (at == std::string::npos) return {};
    const std::string text = report.substr(at, report.find('\n', at) - at);
    const std::string place = "stored at ";
    const std::size_t begin = text.find(place);
    const std::size_t offset = text.find("+0x");
    if (begin == std::string::npos || offset == std::string::npos) return {};
    const std::uint64_t bytes = std::strtoull(text.c_str() + offset + 1, nullptr, 16);
    return {text.substr(begin + place.size(), text.rfind(';') - begin - place.size()),
            std::to_string(bytes / line_bytes)};
  }

  static std::string said_by(const objection& o, const char* more) {
    return "  " + o.what + more + (o.message.empty() ? "" : ": " + o.message) + "\n";
  }

  // The explorer's report without its headline, which repeats `what`. For a state without torn stores, only its place
  // and how to replay it.
  static std::string explorer_lines(const std::string& report, bool whole) {
    std::string lines;
    std::size_t number = 0;
    for (std::size_t at = 0; at < report.size(); ++number) {
      const std::size_t end = std::min(report.find('\n', at), report.size() - 1) + 1;
      const std::string line = report.substr(at, end - at);
      at = end;
      if (number < 2) continue;
      if (!whole || line.starts_with("  at ") || line.starts_with("  replay: ")) lines += line;
    }
    return lines;
  }

  void count(const explore::violation& v, const stage&) {
    if (finding* f = find(without_stage(v.what))) f->states += v.count;
  }

  finding* find(const std::string& what) {
    for (finding& f : out_.findings) {
      if (f.what == what) return &f;
    }
    return nullptr;
  }

  void add(finding f, std::uint64_t promised, std::uint64_t started) {
    f.states_before = images_;
    f.seconds = out_.record_seconds + since(explored_from_);
    if (watch_.found) watch_.found(f);
    windows_.emplace_back(promised, started);
    out_.findings.push_back(std::move(f));
  }

  // Faults that the trace shows and no state did: findings if contents could not be compared, otherwise notes.
  void by_the_trace() {
    if (foreign_) return not_durable_at_end();
    if (!settings_.own_check) return;
    std::set<std::pair<store_fault, const nvm_rec_site*>> told;
    std::uint64_t ended = 0;
    const auto& events = session_->trace.events;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].kind == event_kind::op_end) ++ended;
      const store_fault fault = session_->faults[i];
      if (fault == store_fault::none) continue;
      const nvm_rec_site* site = events[i].site;
      if (told.contains({fault, site})) continue;
      const bool known = std::any_of(out_.findings.begin(), out_.findings.end(), [&](const finding& f) {
        return f.line == site->line && f.file == site->file && f.kind == kind_of(fault);
      });
      if (known || (fault == store_fault::outside && !judge_->in_object(ended, events[i].offset))) {
        if (known) told.insert({fault, site});
        continue;
      }
      told.insert({fault, site});
      finding f;
      f.kind = kind_of(fault);
      name_site(f, site);
      f.what = text_of(site) + (fault == store_fault::outside ? " stores to an object outside of any transaction"
                                : fault == store_fault::late  ? " stores to an object before its transaction logs it"
                                                              : " stores to bytes that its transaction has not logged");
      if (find(f.what) != nullptr) continue;
      f.details = "  seen in the trace\n";
      if (judge_->compares_contents()) {
        out_.notes.push_back(f.what + ": no state that was tried shows it");
      } else {
        add(std::move(f), 0, 0);
      }
    }
  }

  // Finding of an imported log: stores that nothing made durable by its end.
  void not_durable_at_end() {
    explore::subject s = subject_of(stage{true, settings_.models.front(), 0, 0});
    machine m(s.image.size());
    explore::trace t;
    m.record_into(&t);
    replay_trace(recording_, *session_, m);
    explore::options o;
    o.persistency = settings_.models.front();
    std::set<std::string> lines;
    for (const explore::finding& r : explore::check_rules(t, s, o, m.places())) {
      // One report for each line of the file, unless a state has shown the same.
      const std::string line = r.text.substr(std::min(r.text.size(), r.place.size()));
      const bool shown = std::any_of(causes_.begin(), causes_.end(),
                                     [&](const std::string& c) { return c.ends_with(" for want of " + r.place); });
      if (shown) told_.insert(line);
      if (told_.contains(line) || !lines.insert(line).second) continue;
      if (r.what != explore::finding::rule::not_durable_at_end && r.what != explore::finding::rule::store_after_flush) {
        continue;
      }
      finding f;
      f.kind = r.what == explore::finding::rule::store_after_flush ? "store-after-flush" : "not-durable";
      f.what = r.text;
      f.function = r.place;
      f.details = "  seen in the log\n";
      f.states = 0;
      if (find(f.what) == nullptr) add(std::move(f), 0, 0);
    }
  }

  // ---- the program's own output -------------------------------------------------------------------------------------

  // Each of the first findings is shown to the program itself: what it prints when it runs again on the state, beside
  // what it prints on the states between transactions.
  void compare_outputs() {
    constexpr std::size_t shown_max = 8;
    if (!candidate_ && !open_candidate()) return;
    for (std::size_t i = 0; i < std::min(out_.findings.size(), shown_max); ++i) {
      finding& f = out_.findings[i];
      if (f.token.empty() || !f.output.empty()) continue;
      const auto [promised, started] = windows_[i];
      const std::vector<std::byte> state = state_of(f.token);
      if (state.empty()) continue;
      f.output = told_by_output(state, promised, started);
    }
  }

  std::string told_by_output(const std::vector<std::byte>& state, std::uint64_t promised, std::uint64_t started) {
    const auto on = [&](const std::vector<std::byte>& image) -> ending {
      if (!candidate_->put(image.data(), file_bytes(image.data(), image.size()))) return {};
      run_options o;
      o.seconds_max = settings_.check_seconds;
      o.output_max = std::size_t{1} << 20;
      o.environment.emplace_back(accepts_copies);
      return run_program(command_line(candidate_->path()), o);
    };
    const auto same = [](const ending& a, const ending& b) {
      return a.what == b.what && a.code == b.code && a.output == b.output;
    };
    const std::vector<std::byte> before = judge_->image_after(promised);
    const ending first = on(before);
    if (!same(first, on(before))) return "not compared: it is not the same twice on one state";
    const ending found = on(state);
    if (found.what != first.what || found.code != first.code) {
      return "the program, run again on this state, ends with " + found.text() + "; on the state after " +
             std::to_string(promised) + " transactions with " + first.text();
    }
    if (same(found, first)) {
      return "the program, run again on this state, prints what it prints after " + std::to_string(promised) +
             " transactions";
    }
    if (started > promised && same(found, on(judge_->image_after(promised + 1)))) {
      return "the program, run again on this state, prints what it prints after " + std::to_string(promised + 1) +
             " transactions";
    }
    return "the program, run again on this state, prints what it prints on no state between transactions";
  }

  // The state of a token, as the crash leaves it.
  std::vector<std::byte> state_of(const std::string& token) {
    const auto path = explore::decode(token);
    if (!path) return {};
    std::vector<std::byte> image;
    const stage g{false, path->persistency, explore::all_tiers, 0};
    const explore::subject s = subject_of(g);
    explore::options o = options_of(g);
    o.seconds_max = 0;
    o.on_image = [&](const machine& m, const window&) {
      if (image.empty()) image.assign(m.base(), m.base() + m.size());
    };
    explore::explorer e(s, o);
    e.record();
    (void)e.replay(*path, {});
    return image;
  }

  bool replay() {
    const auto path = explore::decode(settings_.replay);
    if (!path) return false;
    replaying_ = true;
    for (std::size_t i = 0; i < recording_.sessions.size(); ++i) {
      session_ = &recording_.sessions[i];
      session_number_ = i;
      if (!foreign_) judge_.emplace(*session_);
      const bool outside = !settings_.check.empty() || asked_ != nullptr;
      if (outside && !open_candidate()) return false;
      bool known = false;
      for (const bool by_user : {false, true}) {
        if (by_user ? !outside : foreign_ || !settings_.own_check) continue;
        const stage g{by_user, path->persistency, explore::all_tiers, 0};
        const explore::subject s = subject_of(g);
        explore::options o = options_of(g);
        o.seconds_max = 0;
        o.on_violation = [this, &g](const explore::violation& v) { take(v, g); };
        if (by_user) plan_sample(g);
        explore::explorer e(s, o);
        e.record();
        const auto r = e.replay(*path, {});
        if (!r) continue;
        known = true;
        for (const explore::violation& v : r->violations) count(v, g);
        (by_user ? out_.states_outside : out_.states) += 1;
      }
      if (known) {
        if (names_pool() && !foreign_) compare_outputs();
        return true;
      }
    }
    return false;
  }

  struct message {
    objection of;
    const nvm_rec_site* site;
  };

  const settings& settings_;
  const observer& watch_;
  outcome out_;
  std::optional<scratch> scratch_;
  recording recording_;
  bool foreign_ = false;  // not a pool of ours
  std::unique_ptr<outside_judge> asked_;
  const session* session_ = nullptr;
  std::size_t session_number_ = 0;
  std::optional<pool_judge> judge_;
  std::optional<candidate_file> candidate_;
  clock::time_point explored_from_;
  std::map<model, std::uint64_t> states_of_model_;
  std::map<std::string, message> messages_;
  std::set<std::string> causes_;
  std::set<std::string> told_;  // findings of the library's that the check agrees with
  std::vector<std::pair<std::uint64_t, std::uint64_t>> windows_;  // of the findings
  bool replaying_ = false;
  std::uint64_t asked_states_ = 0, met_states_ = 0, stride_ = 1, expected_states_ = 0, images_ = 0;
  clock::time_point stage_begun_;
  double stage_seconds_ = 0;
};

}  // namespace

outcome run(const settings& s, const observer& watch) { return tester{s, watch}.run(); }

}  // namespace nvm::crash_test
