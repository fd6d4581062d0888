// holdfast completion: scripts that complete the command line in bash, zsh and fish, made from the table of commands.
#include "cli/arguments.hpp"
#include "cli/manual.hpp"

namespace nvm::cli {
namespace completion_verb {
namespace {

constexpr std::string_view shells[] = {"bash", "zsh", "fish"};
constexpr operand operands[] = {{"SHELL", operand_kind::choice, true, "bash, zsh or fish", shells}};
constexpr json_field fields[] = {{"shell", "as given"}, {"script", "the text"}};
constexpr std::string_view examples[] = {"eval \"$(holdfast completion bash)\"",
                                         "holdfast completion zsh > \"${fpath[1]}/_holdfast\"",
                                         "holdfast completion fish > ~/.config/fish/completions/holdfast.fish"};

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view w : words) text += fmt::format("{}{}", text.empty() ? "" : " ", w);
  return text;
}

std::string names_of_commands() {
  std::string text;
  for (const command* c : commands()) text += fmt::format("{}{}", text.empty() ? "" : " ", c->name);
  return text;
}

template <class Visit>
void each_option(const command& c, Visit&& visit) {
  for (const option& o : c.options) visit(o);
  for (const option& o : common_options()) visit(o);
}

// ---- bash ----------------------------------------------------------------------------------------------------------

std::string bash_words(const operand& o) {
  switch (o.kind) {
    case operand_kind::pool_file:
      return "compgen -f -- \"$word\"";
    case operand_kind::directory:
      return "compgen -d -- \"$word\"";
    case operand_kind::choice:
      return fmt::format("compgen -W '{}' -- \"$word\"", joined(o.choices));
    case operand_kind::command:
      return fmt::format("compgen -W '{}' -- \"$word\"", names_of_commands());
    case operand_kind::text:
      break;
  }
  return ":";
}

std::string bash_operand(const operand& o, std::string_view indent) {
  std::string text = fmt::format("{}_holdfast_operand() {{ {}; }}\n", indent, bash_words(o));
  if (o.kind == operand_kind::pool_file || o.kind == operand_kind::directory)
    text += fmt::format("{}files=1\n", indent);
  return text;
}

std::string bash_command(const command& c) {
  std::string names;
  std::string takers;
  std::string paths;
  std::string values;
  each_option(c, [&](const option& o) {
    names += fmt::format("{}--{}", names.empty() ? "" : " ", o.name);
    if (o.kind == value_kind::flag) return;
    takers += fmt::format("{}--{}", takers.empty() ? "" : "|", o.name);
    if (o.kind == value_kind::path) paths += fmt::format("{}--{}", paths.empty() ? "" : "|", o.name);
    if (!o.choices.empty()) {
      values += fmt::format("        --{}) choices='{}' ;;\n", o.name, joined(o.choices));
    }
  });
  std::string text = fmt::format("    {})\n      options='{}'\n", c.name, names);
  if (!takers.empty()) text += fmt::format("      takers='{}'\n", takers);
  if (!paths.empty()) text += fmt::format("      paths='{}'\n", paths);
  if (!values.empty()) text += fmt::format("      case $previous in\n{}      esac\n", values);
  if (!c.rest.empty()) text += "      _holdfast_operand() { compgen -c -f -- \"$word\"; }\n      files=1\n";
  if (c.operands.size() == 1) {  // many or one
    text += bash_operand(c.operands.front(), "      ");
  } else if (!c.operands.empty()) {
    text += "      case $position in\n";
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
      text += fmt::format("        {})\n{}          ;;\n", i, bash_operand(c.operands[i], "          "));
    }
    text += "      esac\n";
  }
  return text + "      ;;\n";
}

std::string bash_script() {
  std::string cases;
  for (const command* c : commands()) cases += bash_command(*c);
  return fmt::format(R"(# Completion of holdfast for bash; made by `holdfast completion bash`.
_holdfast() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command='' options='' takers='' paths='' choices='' files='' at line
  local -i position=0
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    if [[ ${{COMP_WORDS[at]}} != -* ]]; then
      command=${{COMP_WORDS[at]}}
      break
    fi
  done
  for ((at++; at < COMP_CWORD; at++)); do
    if [[ ${{COMP_WORDS[at]}} != -* ]]; then position+=1; fi
  done
  _holdfast_operand() {{ :; }}
  case $command in
    '')
      options='--help --version --json --quiet'
      _holdfast_operand() {{ compgen -W '{}' -- "$word"; }}
      ;;
{}  esac
  if [[ -n $choices ]]; then
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -W "$choices" -- "$word")
  elif [[ -n $paths && $previous =~ ^($paths)$ ]]; then
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$word")
    compopt -o filenames 2>/dev/null
  elif [[ -n $takers && $previous =~ ^($takers)$ ]]; then
    :
  elif [[ $word == -* ]]; then
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -W "$options" -- "$word")
  else
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(_holdfast_operand)
    if [[ -n $files ]]; then compopt -o filenames 2>/dev/null; fi
  fi
  unset -f _holdfast_operand
}}
complete -F _holdfast holdfast
)",
                     names_of_commands(), cases);
}

// ---- zsh -----------------------------------------------------------------------------------------------------------

// Inside single quotes of an _arguments specification.
std::string zsh_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') {
      safe += "'\\''";
    } else if (c == ':' || c == '[' || c == ']' || c == '\\') {
      safe += '\\';
      safe += c;
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string zsh_action(const operand& o) {
  switch (o.kind) {
    case operand_kind::pool_file:
      return "_files";
    case operand_kind::directory:
      return "_files -/";
    case operand_kind::choice:
      return fmt::format("({})", joined(o.choices));
    case operand_kind::command:
      return fmt::format("({})", names_of_commands());
    case operand_kind::text:
      break;
  }
  return " ";
}

std::string zsh_command(const command& c) {
  std::string text = fmt::format("        {})\n          _arguments -s \\\n", c.name);
  each_option(c, [&](const option& o) {
    text += fmt::format("            '--{}[{}]", o.name, zsh_text(o.help));
    if (o.kind != value_kind::flag) {
      text += fmt::format(":{}:", zsh_text(o.placeholder));
      if (!o.choices.empty()) text += fmt::format("({})", joined(o.choices));
      if (o.kind == value_kind::path) text += "_files";
    }
    text += "' \\\n";
  });
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const operand& o = c.operands[i];
    text += fmt::format("            '{}:{}{}:{}' \\\n", o.many ? "*" : std::to_string(i + 1),
                        o.required || o.many ? "" : ":", zsh_text(o.name), zsh_action(o));
  }
  if (!c.rest.empty()) text += fmt::format("            '*:{}:_command_names -e' \\\n", zsh_text(c.rest));
  return text + "            && return 0\n          ;;\n";
}

std::string zsh_script() {
  std::string names;
  std::string cases;
  for (const command* c : commands()) {
    names += fmt::format("        '{}:{}'\n", c->name, zsh_text(c->summary));
    cases += zsh_command(*c);
  }
  return fmt::format(R"(#compdef holdfast
# Completion of holdfast for zsh; made by `holdfast completion zsh`.
_holdfast() {{
  local curcontext="$curcontext" state
  local -a state_descr line names
  typeset -A opt_args
  _arguments -C -s \
    '--help[print help]' '--version[print the version]' '--json[print JSON]' '--quiet[print errors only]' \
    '1: :->command' '*:: :->rest' && return 0
  case $state in
    command)
      names=(
{}      )
      _describe -t commands command names && return 0
      ;;
    rest)
      case $line[1] in
{}      esac
      ;;
  esac
  return 1
}}
if [ "$funcstack[1]" = _holdfast ]; then
  _holdfast "$@"
else
  compdef _holdfast holdfast
fi
)",
                     names, cases);
}

// ---- fish ----------------------------------------------------------------------------------------------------------

// Inside single quotes.
std::string fish_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'' || c == '\\') safe += '\\';
    safe += c;
  }
  return safe;
}

std::string fish_option(const option& o, std::string_view condition) {
  std::string line = fmt::format("complete -c holdfast -n '{}' -l {} -d '{}'", condition, o.name, fish_text(o.help));
  if (o.kind == value_kind::flag) return line + "\n";
  line += o.kind == value_kind::path ? " -r -F" : " -x";
  if (!o.choices.empty()) line += fmt::format(" -a '{}'", joined(o.choices));
  return line + "\n";
}

std::string fish_operand(const operand& o, std::string_view condition) {
  switch (o.kind) {
    case operand_kind::pool_file:
      return fmt::format("complete -c holdfast -n '{}' -F\n", condition);
    case operand_kind::directory:
      return fmt::format("complete -c holdfast -n '{}' -a '(__fish_complete_directories)'\n", condition);
    case operand_kind::choice:
      return fmt::format("complete -c holdfast -n '{}' -a '{}'\n", condition, joined(o.choices));
    case operand_kind::command:
      return fmt::format("complete -c holdfast -n '{}' -a '{}'\n", condition, names_of_commands());
    case operand_kind::text:
      break;
  }
  return {};
}

std::string fish_script() {
  std::string text = R"(# Completion of holdfast for fish; made by `holdfast completion fish`.
# Whether the command is $argv[1], and, if there is a second word, so many operands follow it.
function __fish_holdfast_at
    set -l words
    for word in (commandline -opc)[2..-1]
        string match -q -- '-*' $word; or set -a words $word
    end
    test (count $words) -gt 0; or return 1
    test $words[1] = $argv[1]; or return 1
    test (count $argv) -lt 2; or test (math (count $words) - 1) -eq $argv[2]
end
complete -c holdfast -f
complete -c holdfast -n __fish_use_subcommand -s V -l version -d 'print the version of the tool'
)";
  for (const option& o : common_options()) text += fish_option(o, "__fish_use_subcommand");
  for (const command* c : commands()) {
    text +=
        fmt::format("complete -c holdfast -n __fish_use_subcommand -a {} -d '{}'\n", c->name, fish_text(c->summary));
    const std::string condition = fmt::format("__fish_holdfast_at {}", c->name);
    each_option(*c, [&](const option& o) { text += fish_option(o, condition); });
    for (std::size_t i = 0; i < c->operands.size(); ++i) {
      text += fish_operand(c->operands[i], c->operands[i].many ? condition : fmt::format("{} {}", condition, i));
    }
  }
  return text;
}

exit_code run(const arguments& given, console& out) {
  const std::string& shell = given.operand(0);
  const std::string script = shell == "bash" ? bash_script() : shell == "zsh" ? zsh_script() : fish_script();
  out.text("{}", script);
  out.document({{"shell", shell}, {"script", script}});
  return exit_good;
}

}  // namespace
}  // namespace completion_verb

extern const command completion_command;
const command completion_command{
    .name = "completion",
    .summary = "print a completion script for a shell",
    .description = "Prints a script that completes commands, options, their values and paths.",
    .operands = completion_verb::operands,
    .options = {},
    .fields = completion_verb::fields,
    .examples = completion_verb::examples,
    .run = completion_verb::run,
};

}  // namespace nvm::cli
