#include "tag_expression.hpp"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>

#include <array>

#include "object/union_tag.hpp"

using llvm::StringRef;

namespace nvm::compiler {
namespace {

// Operators with two sides, by how tightly they bind, as in C.
struct binary {
  StringRef text;
  unsigned binds;
};
constexpr unsigned loosest = 1;
const std::array<binary, 18> binaries = {{{"||", 1},
                                          {"&&", 2},
                                          {"==", 6},
                                          {"!=", 6},
                                          {"<=", 7},
                                          {">=", 7},
                                          {"<<", 8},
                                          {">>", 8},
                                          {"|", 3},
                                          {"^", 4},
                                          {"&", 5},
                                          {"<", 7},
                                          {">", 7},
                                          {"+", 9},
                                          {"-", 9},
                                          {"*", 10},
                                          {"/", 10},
                                          {"%", 10}}};

class parser {
 public:
  parser(StringRef text, const tag_names& names) : rest_{text}, names_{names} {}

  compiled_tag run() {
    choice();
    space();
    if (wrong_.empty() && !rest_.empty()) wrong("'" + rest_.str() + "' is not understood");
    if (wrong_.empty() && out_.size() > object::union_tag::text_max) wrong("it is too long");
    return {out_, wrong_};
  }

 private:
  void wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
    rest_ = "";
  }
  void space() { rest_ = rest_.ltrim(); }
  bool take(StringRef token) {
    space();
    return rest_.consume_front(token);
  }
  void put(const llvm::Twine& token) {
    if (!out_.empty()) out_ += ' ';
    out_ += token.str();
  }

  void choice() {
    if (++depth_ > deepest) return wrong("it is nested too deeply");
    operation(loosest);
    if (take("?")) {
      choice();
      if (!take(":")) return wrong("':' is missing");
      choice();
      put("?");
    }
    --depth_;
  }
  void operation(unsigned least) {
    operand();
    for (;;) {
      space();
      const auto* op = llvm::find_if(binaries, [&](const binary& b) { return rest_.starts_with(b.text); });
      if (op == binaries.end() || op->binds < least) return;
      rest_ = rest_.drop_front(op->text.size());
      operation(op->binds + 1);
      put(op->text);
    }
  }
  void operand() {
    if (++depth_ > deepest) return wrong("it is nested too deeply");
    space();
    if (take("!")) {
      operand();
      put("!");
    } else if (take("~")) {
      operand();
      put("~");
    } else if (take("-")) {
      operand();
      put("neg");
    } else if (take("+")) {
      operand();
    } else if (take("(")) {
      choice();
      if (!take(")")) wrong("')' is missing");
    } else if (!rest_.empty() && (llvm::isAlpha(rest_.front()) || rest_.front() == '_')) {
      name();
    } else {
      number();
    }
    --depth_;
  }
  void name() {
    llvm::SmallVector<StringRef, 4> path;
    const StringRef all = rest_;
    do {
      space();
      const StringRef word = rest_.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
      if (word.empty()) return wrong("a name is missing");
      path.push_back(word);
      rest_ = rest_.drop_front(word.size());
    } while (take(".") || take("::"));
    const auto meant = names_(path);
    if (!meant) return wrong("'" + all.drop_back(rest_.size()).str() + "' is no integer field and no enumerator");
    put(*meant);
  }
  void number() {
    std::uint64_t value = 0;
    if (rest_.size() >= 3 && rest_[0] == '\'' && rest_[1] != '\\' && rest_[2] == '\'') {
      put(llvm::Twine(static_cast<int>(rest_[1])));
      rest_ = rest_.drop_front(3);
      return;
    }
    if (rest_.empty() || !llvm::isDigit(rest_.front()) || rest_.consumeInteger(0, value)) {
      return wrong(rest_.empty() ? "something is missing at its end" : "'" + rest_.str() + "' is not understood");
    }
    rest_ = rest_.drop_while([](char c) { return c == 'u' || c == 'U' || c == 'l' || c == 'L'; });
    put(llvm::Twine(static_cast<std::int64_t>(value)));
  }

  static constexpr unsigned deepest = 64;
  StringRef rest_;
  const tag_names& names_;
  std::string out_;
  std::string wrong_;
  unsigned depth_ = 0;
};

}  // namespace

compiled_tag compile_tag(StringRef text, const tag_names& names) { return parser{text, names}.run(); }

}  // namespace nvm::compiler
