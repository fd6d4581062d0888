// holdfast manual: the manual page, made of the table of commands.
#include "cli/manual.hpp"

#include <algorithm>

#include "cli/arguments.hpp"
#include "holdfast_version.hpp"

namespace nvm::cli {
namespace {

// Text that roff takes literally: a leading dot or quote would be a request, a bare dash a hyphen.
std::string roff(std::string_view text) {
  std::string safe;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
    at_line_start = c == '\n';
  }
  return safe;
}

std::string item(std::string_view name, std::string_view meaning) {
  return fmt::format(".TP\n.B {}\n{}.\n", roff(name), roff(meaning));
}

std::string paragraphs(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find("\n\n"), text.size());
    all += fmt::format(".PP\n{}\n", roff(text.substr(0, end)));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return all;
}

std::string section_of(const command& c) {
  std::string usage = fmt::format("holdfast {} [OPTION]...", c.name);
  for (const operand& o : c.operands) usage += " " + operand_text(o);
  if (!c.rest.empty()) usage += fmt::format(" -- {}", c.rest);
  std::string text = fmt::format(".SS {}\n.B {}\n{}", roff(c.name), roff(usage), paragraphs(c.description));
  for (const operand& o : c.operands) text += item(o.name, o.help);
  if (!c.rest.empty()) text += item(c.rest, c.rest_help);
  for (const option& o : c.options) text += item(option_text(o), o.help);
  if (!c.fields.empty()) {
    text += ".PP\nFields of the JSON document:\n";
    for (const json_field& f : c.fields) text += item(f.name, f.meaning);
  }
  text += ".PP\nExamples:\n.RS\n.nf\n";
  for (const std::string_view e : c.examples) text += roff(e) + "\n";
  text += ".fi\n.RE\n";
  return text;
}

}  // namespace

namespace manual_verb {
namespace {

constexpr std::string_view examples[] = {"holdfast manual | man -l -"};
constexpr json_field fields[] = {{"manual", "the page in roff"}};

exit_code run(const arguments& /*given*/, console& out) {
  const std::string page = manual_page();
  out.text("{}", page);
  out.document({{"manual", page}});
  return exit_good;
}

}  // namespace
}  // namespace manual_verb

std::string manual_page() {
  std::string page = fmt::format(
      ".TH HOLDFAST 1 \"\" \"holdfast {}\" \"User Commands\"\n"
      ".SH NAME\nholdfast \\- {}\n"
      ".SH SYNOPSIS\n.B holdfast\n.I COMMAND\n[OPTION]... [OPERAND]...\n"
      ".SH DESCRIPTION\n"
      "A pool is one file that holds a heap. The commands below make pools, look at them, check and measure them. None "
      "but\n.BR create , kv , relocate\nand\n.B repair\nchanges a file.\n"
      ".SH COMMANDS\n",
      HOLDFAST_VERSION, roff(tool_summary));
  for (const command* c : commands()) page += section_of(*c);
  page += ".SH OPTIONS OF EVERY COMMAND\n";
  for (const option& o : common_options()) page += item(option_text(o), o.help);
  page += item("-V, --version", "Before any command: print the version of the tool");
  page += ".SH EXIT STATUS\n";
  for (const exit_meaning& e : exit_meanings()) page += item(fmt::format("{}", static_cast<int>(e.code)), e.meaning);
  page +=
      ".SH DIAGNOSTICS\n"
      "Errors go to standard error, one line each: holdfast: SUBJECT: sentence (CODE). SUBJECT is the path or the "
      "command, "
      "CODE is that of the library\n.RB ( NVM_E_BUSY\nand so on), USAGE, OUTPUT or INTERNAL. With\n.B \\-\\-json\n"
      "the document has a field\n.B error\nwith\n.BR code , \" subject\" , \" message\"\nand\n.BR exit_code .\n"
      ".SH ENVIRONMENT\n" +
      item("NO_COLOR", "If set and not empty, no colour is used; it never is where standard output is no terminal") +
      ".SH NOTES\n"
      "Progress is shown on standard error when that is a terminal and something takes longer than a second.\n";
  return page;
}

extern const command manual_command;
const command manual_command{
    .name = "manual",
    .summary = "print the manual page",
    .description = "Prints holdfast(1) in roff.",
    .operands = {},
    .options = {},
    .fields = manual_verb::fields,
    .examples = manual_verb::examples,
    .run = manual_verb::run,
};

}  // namespace nvm::cli
