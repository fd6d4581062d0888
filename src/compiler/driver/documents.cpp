#include "documents.hpp"

#include <algorithm>

#include "identity.hpp"

namespace nvm::compiler::driver {
namespace {

constexpr std::string_view summary = "compile C and C++ whose stores into durable memory are logged by the compiler";

std::string name_of(const option& o) { return std::string{o.name} + std::string{o.value}; }

constexpr std::size_t columns = 100;
constexpr std::size_t margin = 31;

void add_item(std::string& text, std::string_view name, std::string_view meaning) {
  std::string line = "  " + std::string{name};
  if (line.size() + 2 > margin) {
    text += line + "\n";
    line.clear();
  }
  line.resize(margin, ' ');
  while (!meaning.empty()) {
    const std::size_t end = std::min(meaning.find(' '), meaning.size());
    if (line.size() + 1 + end > columns && line.size() > margin) {
      text += line + "\n";
      line.assign(margin, ' ');
    } else if (line.size() > margin) {
      line += ' ';
    }
    line += meaning.substr(0, end);
    meaning.remove_prefix(std::min(end + 1, meaning.size()));
  }
  text += line + "\n";
}

std::string help_text() {
  std::string text = "holdfast-cc, holdfast-c++: " + std::string{summary} +
                     "\n\n"
                     "usage: holdfast-cc  [option]... file...\n"
                     "       holdfast-c++ [option]... file...\n\n"
                     "Options are those of Clang and\n";
  for (const option& o : options()) add_item(text, name_of(o), o.help);
  text += "\nOf a flag and its twin with -fno-, the last one counts.\n\nEnvironment:\n";
  for (const variable& v : variables()) add_item(text, v.name, v.help);
  return text;
}

std::string version_text() {
  return std::string{"holdfast "} + HOLDFAST_VERSION + ", for LLVM " + HOLDFAST_LLVM_VERSION + ", pass " +
         pass_identity + "\n";
}

}  // namespace

std::string text_of(document what) {
  switch (what) {
    case document::none:
      break;
    case document::help:
      return help_text();
    case document::version:
      return version_text();
  }
  return {};
}

std::string completions_of(std::string_view beginning) {
  std::string text;
  for (const option& o : options()) {
    if (o.name.starts_with(beginning)) text += std::string{o.name} + "\t" + std::string{o.help} + "\n";
  }
  return text;
}

}  // namespace nvm::compiler::driver
