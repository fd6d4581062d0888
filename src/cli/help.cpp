// holdfast help, and --help of every command.
#include "cli/arguments.hpp"
#include "cli/manual.hpp"

namespace nvm::cli {
namespace {

constexpr exit_meaning meanings[] = {
    {exit_good,
     "success; check: the pool is sound; crash-test: nothing was found; doctor: what the medium promises holds; "
     "repair: "
     "nothing is lost"},
    {exit_negative, "the answer is no; check, crash-test and doctor: there are findings; repair: something is lost"},
    {exit_usage, "wrong use; nothing was done; crash-test: nothing could be tested"},
    {exit_unavailable, "the pool cannot be created or opened, or another process has it open"},
    {exit_internal, "input or output failed, memory or space ran out, or an internal error"},
};

constexpr std::size_t columns = 80;
constexpr std::size_t indent = 24;

// `text` broken at spaces; lines after the first begin with `margin` spaces.
std::string wrapped(std::string_view text, std::size_t margin) {
  std::string lines;
  std::size_t column = margin;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    if (column != margin && column + 1 + space > columns) {
      lines += '\n' + std::string(margin, ' ');
      column = margin;
    } else if (column != margin) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, space);
    column += space;
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return lines;
}

void print_item(std::string_view name, std::string_view meaning, const console& out) {
  if (name.size() + 4 > indent) {
    out.text("  {}\n{:{}}{}\n", name, "", indent, wrapped(meaning, indent));
  } else {
    out.text("  {:<{}}{}\n", name, indent - 2, wrapped(meaning, indent));
  }
}

void print_options(std::span<const option> options, const console& out) {
  for (const option& o : options) print_item(option_text(o), o.help, out);
}

void print_tool_help(const console& out) {
  out.text("holdfast: {}\n\nusage: holdfast COMMAND [OPTION]... [OPERAND]...\n\n", tool_summary);
  for (const command* c : commands()) print_item(c->name, c->summary, out);
  out.text("\nOptions of every command:\n");
  print_options(common_options(), out);
  print_item("-V, --version", "print the version of the tool", out);
  out.text("\nExit codes:\n");
  for (const exit_meaning& e : meanings) print_item(fmt::format("{}", static_cast<int>(e.code)), e.meaning, out);
  out.text("\n`holdfast help COMMAND` describes a command, `man holdfast` all of them.\n");
}

void print_command_help(const command& c, const console& out) {
  std::string usage = fmt::format("usage: holdfast {} [OPTION]...", c.name);
  for (const operand& o : c.operands) usage += " " + operand_text(o);
  if (!c.rest.empty()) usage += fmt::format(" -- {}", c.rest);
  out.text("{}\n\n", usage);
  for (std::string_view rest = c.description; !rest.empty();) {
    const std::size_t end = std::min(rest.find("\n\n"), rest.size());
    out.text("{}\n\n", wrapped(rest.substr(0, end), 0));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  for (const operand& o : c.operands) print_item(o.name, o.help, out);
  if (!c.rest.empty()) print_item(c.rest, c.rest_help, out);
  print_options(c.options, out);
  print_options(common_options(), out);
  if (!c.fields.empty()) {
    out.text("\nFields of the JSON document:\n");
    for (const json_field& f : c.fields) print_item(f.name, f.meaning, out);
  }
  out.text("\nExamples:\n");
  for (const std::string_view e : c.examples) out.text("  {}\n", e);
}

json document_of(const command& c) {
  json given = json::array();
  for (const operand& o : c.operands) {
    given.push_back({{"name", o.name}, {"required", o.required}, {"help", o.help}});
  }
  json options = json::array();
  const auto add = [&options](const option& o) {
    options.push_back({{"name", o.name}, {"value", o.placeholder}, {"help", o.help}, {"choices", json(o.choices)}});
  };
  for (const option& o : c.options) add(o);
  for (const option& o : common_options()) add(o);
  json names = json::array();
  for (const json_field& f : c.fields) names.push_back({{"name", f.name}, {"meaning", f.meaning}});
  json exits = json::array();
  for (const exit_meaning& e : meanings) {
    exits.push_back({{"code", static_cast<int>(e.code)}, {"meaning", e.meaning}});
  }
  return {{"command", c.name},
          {"summary", c.summary},
          {"operands", std::move(given)},
          {"rest", c.rest},
          {"options", std::move(options)},
          {"fields", std::move(names)},
          {"exit_codes", std::move(exits)}};
}

}  // namespace

namespace help_verb {
namespace {

constexpr operand operands[] = {{"COMMAND", operand_kind::command, false, "the command; without it, the list of them"}};
constexpr json_field fields[] = {
    {"command", "its name"},
    {"summary", "one line"},
    {"operands[].name", "in upper case"},
    {"operands[].required", "true: must be given"},
    {"operands[].help", "what it is"},
    {"rest", "words that may follow --; empty: none"},
    {"options[].name", "without dashes"},
    {"options[].value", "placeholder; empty for a flag"},
    {"options[].help", "what it does"},
    {"options[].choices", "what it may be; empty: see its help"},
    {"fields[].name", "field of the command's JSON document; [] for each element of an array"},
    {"fields[].meaning", "what it is"},
    {"exit_codes[].code", "that the command may return"},
    {"exit_codes[].meaning", "of the code"},
};
constexpr std::string_view examples[] = {"holdfast help check", "holdfast help dump --json"};

exit_code run(const arguments& given, console& out) {
  const std::string& name = given.operand(0);
  const command* what = name.empty() ? nullptr : find_command(name);
  if (what == nullptr && !name.empty()) {
    return out.fail({exit_usage, "help", "USAGE", fmt::format("no command \"{}\"", name)});
  }
  print_help(what, out);
  return exit_good;
}

}  // namespace
}  // namespace help_verb

std::span<const exit_meaning> exit_meanings() noexcept { return meanings; }

std::string option_text(const option& o) {
  return fmt::format("{}--{}{}{}", o.name == "help" ? "-h, " : "", o.name, o.placeholder.empty() ? "" : " ",
                     o.placeholder);
}

std::string operand_text(const operand& o) {
  const std::string name = fmt::format("{}{}", o.name, o.many ? "..." : "");
  return o.required ? name : fmt::format("[{}]", name);
}

void print_help(const command* what, const console& out) {
  if (what == nullptr) {
    print_tool_help(out);
    json all = json::array();
    for (const command* c : commands()) all.push_back(document_of(*c));
    out.document({{"commands", std::move(all)}});
  } else {
    print_command_help(*what, out);
    out.document(document_of(*what));
  }
}

extern const command help_command;
const command help_command{
    .name = "help",
    .summary = "describe a command",
    .description =
        "Describes a command, or lists them. With --json the description is the one that the completion "
        "scripts and the manual page are made of; without COMMAND, `commands` is an array of them.",
    .operands = help_verb::operands,
    .options = {},
    .fields = help_verb::fields,
    .examples = help_verb::examples,
    .run = help_verb::run,
};

}  // namespace nvm::cli
