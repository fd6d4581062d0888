#include "assembly_text.hpp"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

namespace nvm::compiler {

using llvm::StringRef;

namespace {

bool is_symbol(char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$' || c == '@'; }

// Statements without comments; what stands in quotes is left out.
std::vector<std::string> statements_of(StringRef text) {
  std::vector<std::string> all(1);
  while (!text.empty()) {
    if (text.consume_front("/*")) {
      text = text.substr(text.find("*/")).drop_front(text.contains("*/") ? 2 : 0);
    } else if (text.front() == '#') {
      text = text.drop_until([](char c) { return c == '\n'; });
    } else if (text.consume_front("\"")) {
      while (!text.empty() && !text.consume_front("\"")) {
        if (text.front() != '\\') all.back() += text.front();
        text = text.drop_front(text.front() == '\\' ? 2 : 1);
      }
    } else {
      if (text.front() == '\n' || text.front() == ';') {
        all.emplace_back();
      } else {
        all.back() += text.front();
      }
      text = text.drop_front();
    }
  }
  return all;
}

class reader {
 public:
  void read(StringRef statement) {
    for (;;) {
      statement = statement.trim();
      const StringRef label = statement.take_while(is_symbol);
      if (label.empty() || !statement.substr(label.size()).starts_with(":")) break;
      found_.labels.push_back(label.str());
      statement = statement.drop_front(label.size() + 1);
    }
    const StringRef word = statement.take_while(is_symbol);
    const StringRef rest = statement.drop_front(word.size()).ltrim();
    if (word.empty() || rest.starts_with("=")) return;
    if (word.front() == '.') return directive(word, rest);
    found_.has_code = true;
  }
  assembly_text& found() { return found_; }

 private:
  void directive(StringRef word, StringRef rest) {
    static const StringRef data[] = {".byte",  ".short", ".value", ".hword", ".word", ".long",  ".int",
                                     ".2byte", ".4byte", ".8byte", ".quad",  ".octa", ".incbin"};
    if (word == ".include" || (executed_ && llvm::is_contained(data, word))) {
      found_.has_code = true;
    } else if (word == ".popsection") {
      if (!around_.empty()) executed_ = around_.pop_back_val();
    } else if (word == ".text" || word == ".data" || word == ".bss") {
      executed_ = word == ".text";
    } else if (word == ".section" || word == ".pushsection") {
      if (word == ".pushsection") around_.push_back(executed_);
      const auto [name, flags] = rest.split(',');
      executed_ = name.trim().starts_with(".text") || flags.split(',').first.contains('x');
    }
  }

  assembly_text found_;
  bool executed_ = true;  // the section
  llvm::SmallVector<bool, 4> around_;
};

}  // namespace

assembly_text read_assembly(StringRef text) {
  reader r;
  for (const std::string& s : statements_of(text)) r.read(s);
  return std::move(r.found());
}

}  // namespace nvm::compiler
