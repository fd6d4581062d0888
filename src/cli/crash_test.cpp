// holdfast crash-test: tries what a crash may leave of a program's pools.
#include "crash_test/crash_test.hpp"

#include <atomic>

#include "cli/arguments.hpp"
#include "cli/progress.hpp"
#include "cli/ticks_here.hpp"

namespace nvm::cli {
namespace crash_test_verb {
namespace {

constexpr std::string_view models[] = {"all", "x86", "torn8", "eadr"};
constexpr option options[] = {
    {"check", value_kind::text, "COMMAND",
     "shell command that judges a state; {pool} in it is the state's file. Anything but exit code 0 is a failure"},
    {"recover", value_kind::text, "COMMAND", "shell command that is run on a state before the check"},
    {"only-check", value_kind::flag, "", "leave the judgement to the check: Holdfast's own is not asked"},
    {"model", value_kind::choice, "MODEL",
     "what a crash leaves of each unit: x86 (64-byte lines, stores in order), torn8 (8-byte words), eadr (every store "
     "that was made), or all, which is x86 and torn8; default all",
     models},
    {"budget", value_kind::seconds, "S", "time for exploring; default 20"},
    {"check-seconds", value_kind::seconds, "S",
     "time for one run of a check, or of the program on a state; default 10"},
    {"seed", value_kind::count, "N", "of the choices that are made by chance; default 1"},
    {"replay", value_kind::text, "TOKEN", "try the one state that a report has named, and no other"},
    {"trace", value_kind::path, "FILE", "keep the trace there; without a program: test the one that is there"},
    {"pmemcheck", value_kind::path, "LOG", "test a store log of Valgrind's pmemcheck instead of a program"},
    {"image", value_kind::path, "FILE", "with --pmemcheck: the pool's content when the log began; default all zero"},
    {"file", value_kind::text, "PATH", "with --pmemcheck: which of the files that the log registers"},
};
constexpr json_field fields[] = {
    {"findings[].kind",
     "store-outside (of any transaction), store-unlogged, store-late (logged after the store), contents, structure, "
     "recovery, check, not-durable, store-after-flush"},
    {"findings[].what", "sentence"},
    {"findings[].file", "source of the store that is to blame; empty: not known"},
    {"findings[].line", "in it"},
    {"findings[].function", "in it"},
    {"findings[].details", "lines: which state, what was lost and kept, the order that is missing"},
    {"findings[].output", "what the program prints when it is run again on the state; empty: not tried"},
    {"findings[].model", "of the state"},
    {"findings[].states", "states that failed this way"},
    {"findings[].replay", "token; empty: the trace alone shows it"},
    {"findings[].seconds", "after the start"},
    {"findings[].states_before", "states that were tried until then"},
    {"notes[]", "sentences: what was not tested and why"},
    {"program", "how it ended while it was recorded"},
    {"sessions", "times that a pool was open and changed"},
    {"threads", "that changed a pool"},
    {"transactions", "recorded"},
    {"stores", "recorded"},
    {"states", "that Holdfast judged"},
    {"states_checked", "that the check judged"},
    {"record_seconds", "duration of the recorded run"},
    {"explore_seconds", "and of the exploration"},
    {"complete", "true: every stage came to its end within the budget"},
};
constexpr std::string_view examples[] = {
    "holdfast-cc -fnvm-record -O2 app.c -o app && holdfast crash-test -- ./app {pool}",
    "holdfast crash-test --check './app --verify {pool}' --budget 60 -- ./app {pool} load",
    "holdfast crash-test --pmemcheck store.log --image before.img --check 'pmempool check {pool}'",
};

crash_test::settings settings_of(const arguments& given) {
  crash_test::settings s;
  s.program = given.rest();
  s.check = given.text("check");
  s.recover = given.text("recover");
  s.own_check = !given.flag("only-check");
  const auto seconds = [&](std::string_view name, double& into) {
    if (const auto ns = given.number(name)) into = static_cast<double>(*ns) * 1e-9;
  };
  seconds("budget", s.seconds);
  seconds("check-seconds", s.check_seconds);
  s.seed = given.number("seed").value_or(1);
  s.replay = given.text("replay");
  s.trace = given.text("trace");
  s.pmemcheck = given.text("pmemcheck");
  s.image = given.text("image");
  s.file = given.text("file");
  const std::string model = given.choice("model").value_or("all");
  if (model == "x86") s.models = {explore::model::x86};
  if (model == "torn8") s.models = {explore::model::torn8};
  if (model == "eadr") s.models = {explore::model::eadr};
  return s;
}

// Wrong use that the table does not detect; empty: none.
std::string problem_of(const crash_test::settings& s) {
  const bool log = !s.pmemcheck.empty();
  if (log && !s.program.empty()) return "--pmemcheck and a program: one of the two is tested";
  if (log && !s.trace.empty()) return "--pmemcheck and --trace: one of the two is tested";
  if (!log && s.program.empty() && s.trace.empty()) return "PROGRAM is missing after --";
  if (!log && !(s.image.empty() && s.file.empty())) return "--image and --file go with --pmemcheck";
  if (!s.recover.empty() && s.check.empty()) return "--recover goes with --check";
  if (!s.own_check && s.check.empty() && s.program.empty()) return "--only-check without a check";
  if (s.seconds <= 0 || s.check_seconds <= 0) return "--budget and --check-seconds are more than 0";
  return {};
}

std::string lines_of(const crash_test::finding& f, std::size_t number, const console& out) {
  std::string text =
      fmt::format("{} {}\n", out.styled(fmt::format("{}.", number), style::bad), out.styled(f.what, style::strong));
  text += f.details;
  return text;
}

json document_of(const crash_test::finding& f) {
  return {{"kind", f.kind},         {"what", f.what},       {"file", f.file},       {"line", f.line},
          {"function", f.function}, {"details", f.details}, {"output", f.output},   {"model", f.model},
          {"states", f.states},     {"replay", f.token},    {"seconds", f.seconds}, {"states_before", f.states_before}};
}

exit_code run(const arguments& given, console& out) {
  const crash_test::settings s = settings_of(given);
  if (const std::string problem = problem_of(s); !problem.empty()) {
    return out.fail({exit_usage, "crash-test", "USAGE", problem});
  }
  std::atomic<double> share{0};
  crash_test::outcome o;
  {
    ticks_here ticks;
    progress line{out, "looking for crashes that matter", [&share] { return share.load(); }};
    ticks.begin();
    crash_test::observer watch;
    watch.share = &share;
    std::size_t number = 0;
    watch.found = [&](const crash_test::finding& f) {
      ++number;
      if (out.as_text()) line.interrupt([&] { out.text("{}\n", lines_of(f, number, out)); });
    };
    o = crash_test::run(s, watch);
  }
  if (!o.problem.empty()) {
    return out.fail(
        {o.wrong_use ? exit_usage : exit_internal, "crash-test", o.wrong_use ? "USAGE" : "INTERNAL", o.problem});
  }
  for (std::size_t i = 0; i < o.findings.size(); ++i) {
    if (!o.findings[i].output.empty()) out.text("output of {}: {}\n", i + 1, o.findings[i].output);
  }
  for (const std::string& n : o.notes) out.text("note: {}\n", n);
  out.text("{}: {} transactions, {} stores, {} states",
           o.findings.empty() ? out.styled("nothing found", style::good)
                              : out.styled(fmt::format("{} found", o.findings.size()), style::bad),
           o.transactions, o.stores, o.states);
  if (o.states_outside != 0) out.text(", {} of them checked by the program's own", o.states_outside);
  out.text("; recorded in {:.2f} s, explored in {:.2f} s{}\n", o.record_seconds, o.explore_seconds,
           o.budget_spent ? ", the budget is spent" : "");
  json findings = json::array();
  for (const crash_test::finding& f : o.findings) findings.push_back(document_of(f));
  out.document({
      {"findings", std::move(findings)},
      {"notes", o.notes},
      {"program", o.program_ending},
      {"sessions", o.sessions},
      {"threads", o.threads},
      {"transactions", o.transactions},
      {"stores", o.stores},
      {"states", o.states},
      {"states_checked", o.states_outside},
      {"record_seconds", o.record_seconds},
      {"explore_seconds", o.explore_seconds},
      {"complete", !o.budget_spent},
  });
  return o.findings.empty() ? exit_good : exit_negative;
}

}  // namespace
}  // namespace crash_test_verb

extern const command crash_test_command;
const command crash_test_command{
    .name = "crash-test",
    .summary = "try what a crash may leave of a program's pools",
    .description =
        "Runs a program that was compiled and linked by holdfast-cc -fnvm-record and records its stores, then builds "
        "the "
        "states that a crash could leave and judges each of them: recovery and the full check of the library, every "
        "object beside what it held between the program's transactions, and the program's own check if it has one "
        "(--check, or a function nvm_crash_check in the program). {pool} in the program's arguments is a file in "
        "memory that is removed afterwards.\n\n"
        "A report names the store that is to blame, what was lost and what was kept, the order that is missing, and a "
        "token that replays the state. The exit code is 0 when nothing was found, 1 when something was, 2 when nothing "
        "could be tested.",
    .operands = {},
    .options = crash_test_verb::options,
    .fields = crash_test_verb::fields,
    .examples = crash_test_verb::examples,
    .run = crash_test_verb::run,
    .rest = "PROGRAM [ARGUMENT]...",
    .rest_help = "the program to test, and its arguments",
};

}  // namespace nvm::cli
