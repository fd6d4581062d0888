// CLI11 splits the words; the tables say what they may be, and every value is checked here.
#include "cli/arguments.hpp"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "cli/likely.hpp"
#include "cli/units.hpp"

namespace nvm::cli {
namespace {

std::string list_of(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const command* c : commands()) names.push_back(c->name);
  return names;
}

parsed_number parse(value_kind kind, const std::string& text) {
  switch (kind) {
    case value_kind::size:
      return parse_size(text);
    case value_kind::count:
      return parse_count(text);
    case value_kind::seconds:
      return parse_seconds(text);
    case value_kind::permissions:
      return parse_permissions(text);
    case value_kind::flag:
    case value_kind::choice:
    case value_kind::text:
    case value_kind::path:
      break;
  }
  return {};
}

bool among(std::span<const std::string_view> choices, std::string_view word) {
  return std::find(choices.begin(), choices.end(), word) != choices.end();
}

// The message for a word that CLI11 could not place: an unknown option, or one operand too many.
std::string unexpected(const std::string& word, const command& of) {
  if (word.size() < 2 || word.front() != '-') return fmt::format("unexpected \"{}\"", word);
  std::vector<std::string> names;
  for (const option& o : of.options) names.push_back(fmt::format("--{}", o.name));
  for (const option& o : common_options()) names.push_back(fmt::format("--{}", o.name));
  const std::vector<std::string_view> words{names.begin(), names.end()};
  return fmt::format("unknown option \"{}\"{}", word, likely(word, words));
}

// Empty: the word may stand there.
std::string problem_of_operand(const operand& o, const std::string& word) {
  if (o.kind == operand_kind::choice && !among(o.choices, word))
    return fmt::format("{}: \"{}\" is none of {}", o.name, word, list_of(o.choices)) + likely(word, o.choices);
  if (word.empty() && o.kind != operand_kind::text) return fmt::format("{} is empty", o.name);
  return {};
}

}  // namespace

std::optional<std::uint64_t> arguments::number(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::nullopt : std::optional{found->second.number};
}

std::optional<std::string> arguments::choice(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::nullopt : std::optional{found->second.text};
}

std::string arguments::text(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::string{} : found->second.text;
}

const std::string& arguments::operand(std::size_t index) const {
  static const std::string absent;
  return index < operands_.size() ? operands_[index] : absent;
}

bool command_line::take(const option& o, const std::vector<std::string>& words) {
  const std::string text = words.empty() ? std::string{} : words.back();
  if (o.kind == value_kind::flag) {
    if (text != "true") problem = fmt::format("--{} takes no value", o.name);
  } else if (text.empty()) {
    problem = fmt::format("--{}: {} is missing", o.name, o.placeholder);
  } else if (words.size() > 1) {
    problem = fmt::format("--{} is given twice", o.name);
  }
  if (!problem.empty()) return false;
  if (o.kind == value_kind::choice && !among(o.choices, text)) {
    problem = fmt::format("--{}: \"{}\" is none of {}", o.name, text, list_of(o.choices)) + likely(text, o.choices);
    return false;
  }
  parsed_number number = parse(o.kind, text);
  if (!number.problem.empty()) {
    problem = fmt::format("--{}: {}", o.name, number.problem);
    return false;
  }
  given.values_.emplace(o.name, arguments::value{text, number.value});
  return true;
}

void command_line::read_command(const std::vector<std::string>& rest) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<std::pair<const option*, CLI::Option*>> options;
  const auto declare = [&](const option& o) {
    const std::string name = fmt::format("--{}", o.name);
    CLI::Option* made = nullptr;
    if (o.kind == value_kind::flag) {
      made = app.add_flag(o.name == "help" ? "-h," + name : name);
    } else {
      // A missing or a second value is let through, for a better message than CLI11's.
      made = app.add_option(name)->expected(0, 1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
    options.emplace_back(&o, made);
  };
  for (const option& o : common_options()) declare(o);
  for (const option& o : what->options) declare(o);
  std::vector<CLI::Option*> operands;
  for (const operand& o : what->operands) {
    constexpr int any_number = 1 << 20;
    operands.push_back(
        app.add_option(std::string{o.name})->expected(1, o.many ? any_number : 1)->allow_extra_args(o.many));
  }
  try {
    // CLI11 takes the words from the back.
    app.parse(std::vector<std::string>(rest.rbegin(), rest.rend()));
  } catch (const CLI::ParseError& e) {
    problem = e.what();
    return;
  }
  for (const auto& [o, made] : options) {
    if (made->count() == 0) continue;
    if (o->name == "json") json = true;
    if (o->name == "quiet") quiet = true;
    if (o->name == "help") help = true;
    if (!take(*o, made->results())) return;
  }
  auto extra = app.remaining();
  std::erase(extra, "--");
  if (!extra.empty()) {
    problem = unexpected(extra.front(), *what);
    return;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const operand& o = what->operands[i];
    if (operands[i]->count() == 0) {
      if (o.required && !help) problem = fmt::format("{} is missing", o.name);
      return;
    }
    for (const std::string& word : operands[i]->results()) {
      problem = problem_of_operand(o, word);
      if (!problem.empty()) return;
      given.operands_.push_back(word);
    }
  }
}

command_line command_line::read(int argc, const char* const* argv) {
  command_line line;
  // A failure to read the line is reported as JSON, too, if the line asks for that.
  for (int i = 1; i < argc && std::string_view{argv[i]} != "--"; ++i) {
    if (std::string_view{argv[i]} == "--json") line.json = true;
  }
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; ++at) {
    const std::string_view word = argv[at];
    if (word == "--help" || word == "-h") {
      line.help = true;
    } else if (word == "--version" || word == "-V") {
      line.version = true;
    } else if (word == "--quiet") {
      line.quiet = true;
    } else if (word != "--json") {
      line.problem = fmt::format("unknown option \"{}\" before the command", word);
      return line;
    }
  }
  if (at == argc) {
    if (!line.help && !line.version) line.problem = "no command: expected one of " + list_of(command_names());
    return line;
  }
  line.what = find_command(argv[at]);
  if (line.what == nullptr) {
    const auto names = command_names();
    line.problem =
        fmt::format("no command \"{}\": expected one of {}", argv[at], list_of(names)) + likely(argv[at], names);
    return line;
  }
  int end = argc;
  if (!line.what->rest.empty()) {
    for (end = at + 1; end < argc && std::string_view{argv[end]} != "--"; ++end) continue;
    if (end + 1 < argc) line.given.rest_.assign(argv + end + 1, argv + argc);
  }
  line.read_command(std::vector<std::string>(argv + at + 1, argv + end));
  return line;
}

}  // namespace nvm::cli
