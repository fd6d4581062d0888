#include "unsafe_file.hpp"

#include <algorithm>

namespace nvm::compiler {
namespace {

constexpr unsigned depth_max = 8;
constexpr std::uint64_t number_max = std::uint64_t{1} << 32;
constexpr unsigned arguments_max = 64;

// Arguments that the run-time can examine (compiler/rt/written.cpp).
struct known_walk {
  std::string_view name;
  unsigned arguments;
  bool further;
};
constexpr known_walk known_walks[] = {
    {"printf", 1, true},    {"vprintf", 2, false}, {"wprintf", 1, true},   {"vwprintf", 2, false},
    {"scanf", 1, true},     {"vscanf", 2, false},  {"wscanf", 1, true},    {"vwscanf", 2, false},
    {"vector", 2, false},   {"message", 1, false}, {"messages", 2, false}, {"tokens", 1, false},
    {"tokens_r", 2, false}, {"wtokens", 2, false}, {"options", 1, false},  {"separated", 1, false},
};

bool is_name(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (!first && ((c >= '0' && c <= '9') || c == '$'));
}

class line_parser {
 public:
  line_parser(std::string_view text, unsigned line, unsafe_error& error) : text_{text}, line_{line}, error_{error} {}

  [[nodiscard]] bool blank_or_comment() {
    skip();
    return at_ == text_.size() || text_[at_] == '#';
  }

  // A line that says, for the functions after it, whether they call functions of the program; `found`: it is one.
  bool parse_default(bool& calls_back, bool& found) {
    const std::size_t begin = at_;
    found = maybe("calls") && maybe(":");
    at_ = found ? at_ - 1 : begin;
    return !found || (calls(calls_back) && end("behind it"));
  }

  bool parse(unsafe_function& f) {
    f.line = line_;
    if (!name(f.name) || !token("=") || !token("{") || !token("nargs") || !token(":")) return false;
    std::uint64_t n = 0;
    if (!number(n)) return false;
    if (n > arguments_max) return fail("at most 64 arguments");
    f.arguments = static_cast<unsigned>(n);
    arguments_ = f.arguments;
    f.more_arguments = maybe("+");
    if (!token(",") || !token("wr_set") || !token(":")) return false;
    if (maybe("?")) {
      f.unknown = true;
    } else {
      if (!token("{")) return false;
      if (!maybe("}")) {
        do {
          if (!written(f)) return false;
        } while (maybe(","));
        if (!token("}")) return false;
      }
    }
    if (maybe(",") && !(token("calls") && calls(f.calls_back))) return false;
    return token("}") && end("behind the closing brace");
  }

 private:
  bool end(const char* where) {
    skip();
    return at_ == text_.size() || fail(std::string{"unexpected text "} + where);
  }
  bool calls(bool& back) {
    if (!token(":")) return false;
    back = maybe("?");
    return back || (token("{") && token("}"));
  }
  bool fail(std::string message) {
    error_ = {line_, static_cast<unsigned>(at_ + 1), std::move(message)};
    return false;
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  }
  bool maybe(std::string_view what) {
    skip();
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  bool token(std::string_view what) {
    if (maybe(what)) return true;
    std::string message = "expected '" + std::string{what} + "', found ";
    message += at_ < text_.size() ? std::string{"'"} + text_[at_] + "'" : "the end of the line";
    return fail(std::move(message));
  }
  bool name(std::string& out) {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_], at_ == begin)) ++at_;
    if (at_ == begin) return fail("expected the name of a function");
    out = text_.substr(begin, at_ - begin);
    return true;
  }
  bool number(std::uint64_t& out) {
    skip();
    if (at_ == text_.size() || text_[at_] < '0' || text_[at_] > '9') return fail("expected a number");
    out = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      out = out * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
      if (out > number_max) return fail("a number larger than 4294967296");
    }
    return true;
  }
  bool argument(std::uint64_t& out) {
    skip();
    const std::size_t begin = at_;
    if (!token("arg") || !number(out)) return false;
    if (out >= arguments_) {
      at_ = begin;
      return fail("arg" + std::to_string(out) + " does not exist: the function has " + std::to_string(arguments_) +
                  (arguments_ == 1 ? " argument" : " arguments"));
    }
    return true;
  }

  bool written(unsafe_function& f) {
    if (!maybe("{")) return walk(f);
    written_range r;
    r.further = f.more_arguments && maybe("more");
    if (!(r.further || address(r.address, 0)) || !token(",") || !extent(r) || !token("}")) return false;
    f.writes.push_back(std::move(r));
    return true;
  }
  bool extent(written_range& r) {
    if (maybe("?")) {
      r.how = written_range::extent::unknown;
      return true;
    }
    if (maybe("lock")) {
      r.how = written_range::extent::lock;
      return true;
    }
    if (maybe("rest")) {
      r.how = written_range::extent::at_most;
      r.bytes.value = ~std::uint64_t{0};
      return true;
    }
    if (!maybe("upto")) return sum(r.bytes, 0);
    r.how = written_range::extent::at_most;
    return token("(") && sum(r.bytes, 0) && token(")");
  }
  bool walk(unsafe_function& f) {
    const std::size_t begin = at_;
    walk_of_memory w;
    if (at_ < text_.size() && is_name(text_[at_], true) && !name(w.what)) return false;
    const auto* known = std::find_if(std::begin(known_walks), std::end(known_walks),
                                     [&](const known_walk& k) { return k.name == w.what; });
    if (known == std::end(known_walks)) {
      at_ = begin;
      return w.what.empty() ? token("{") : fail("nothing that can be looked at is called " + w.what);
    }
    if (known->further && !f.more_arguments) {
      at_ = begin;
      return fail(w.what + " wants further arguments: nargs:" + std::to_string(f.arguments) + "+");
    }
    if (!token("(")) return false;
    for (unsigned i = 0; i < known->arguments; ++i) {
      std::uint64_t number = 0;
      if ((i != 0 && !token(",")) || !argument(number)) return false;
      w.arguments.push_back(static_cast<unsigned>(number));
    }
    w.further = known->further;
    f.by.push_back(std::move(w));
    return token(")");
  }

  // An address is an argument, or the word to which one points, or a sum with one of these.
  bool address(expression& e, unsigned depth) {
    skip();
    const std::size_t begin = at_;
    if (!sum(e, depth)) return false;
    const expression& first = e.what == expression::kind::sum ? e.parts.front() : e;
    if (first.what == expression::kind::argument || first.what == expression::kind::word_at) return true;
    at_ = begin;
    return fail("an address begins with an argument");
  }
  // One part, or several with `separator` between them.
  bool list(expression& e, unsigned depth, std::string_view separator, expression::kind kind,
            bool (line_parser::*part)(expression&, unsigned)) {
    expression first;
    if (!(this->*part)(first, depth)) return false;
    if (!maybe(separator)) {
      e = std::move(first);
      return true;
    }
    e.what = kind;
    e.parts.push_back(std::move(first));
    do {
      expression next;
      if (!(this->*part)(next, depth)) return false;
      e.parts.push_back(std::move(next));
    } while (maybe(separator));
    return true;
  }
  bool sum(expression& e, unsigned depth) {
    if (depth > depth_max) return fail("an expression nested deeper than 8");
    return list(e, depth, "+", expression::kind::sum, &line_parser::product);
  }
  bool product(expression& e, unsigned depth) {
    return list(e, depth, "*", expression::kind::product, &line_parser::factor);
  }
  bool factor(expression& e, unsigned depth) {
    if (maybe("#")) {
      e.what = expression::kind::constant;
      return number(e.value);
    }
    using kind = expression::kind;
    if (maybe("strlen")) return of_argument(e, kind::string_length);
    if (maybe("wcslen")) return of_argument(e, kind::wide_length);
    if (maybe("int")) return of_argument(e, kind::number_at);
    if (maybe("printed")) return of_argument(e, kind::printed);
    if (maybe("strnlen")) return of_two(e, kind::bounded_length, depth);
    if (maybe("wcsnlen")) return of_two(e, kind::bounded_wide_length, depth);
    if (maybe("vprinted")) return of_two(e, kind::printed_list, depth);
    if (maybe("between")) return of_two(e, kind::between, depth);
    if (maybe("bits")) {
      e.what = kind::bits;
      e.parts.resize(1);
      return token("(") && sum(e.parts[0], depth + 1) && token(")");
    }
    if (maybe("*")) {
      e.what = kind::word_at;
      e.parts.resize(1);
      if (!maybe("(")) {
        e.parts[0].what = kind::argument;
        return argument(e.parts[0].value);
      }
      return address(e.parts[0], depth + 1) && token(")");
    }
    if (maybe("min")) {
      e.what = expression::kind::minimum;
      e.parts.resize(2);
      return token("(") && sum(e.parts[0], depth + 1) && token(",") && sum(e.parts[1], depth + 1) && token(")");
    }
    e.what = expression::kind::argument;
    return argument(e.value);
  }

  bool of_argument(expression& e, expression::kind what) {
    e.what = what;
    return token("(") && argument(e.value) && token(")");
  }
  bool of_two(expression& e, expression::kind what, unsigned depth) {
    e.what = what;
    e.parts.resize(1);
    return token("(") && argument(e.value) && token(",") && sum(e.parts[0], depth + 1) && token(")");
  }

  std::string_view text_;
  unsigned line_;
  unsafe_error& error_;
  std::size_t at_ = 0;
  unsigned arguments_ = 0;
};

}  // namespace

bool parse_unsafe(std::string_view text, std::vector<unsafe_function>& functions, unsafe_error& error) {
  std::vector<unsafe_function> found;
  unsigned number = 0;
  bool calls_back = true;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    line_parser parser{line, number, error};
    if (parser.blank_or_comment()) continue;
    bool is_default = false;
    if (!parser.parse_default(calls_back, is_default)) return false;
    if (is_default) continue;
    unsafe_function f;
    f.calls_back = calls_back;
    if (!parser.parse(f)) return false;
    const auto same = [&](const unsafe_function& other) { return other.name == f.name; };
    if (const auto known = std::find_if(found.begin(), found.end(), same); known != found.end()) {
      error = {number, 1, f.name + " stands in line " + std::to_string(known->line) + " already"};
      return false;
    }
    found.push_back(std::move(f));
  }
  // A later file may replace an earlier one's description of a function.
  for (unsafe_function& f : found) {
    const auto known =
        std::find_if(functions.begin(), functions.end(), [&](const unsafe_function& o) { return o.name == f.name; });
    if (known != functions.end()) {
      *known = std::move(f);
    } else {
      functions.push_back(std::move(f));
    }
  }
  return true;
}

}  // namespace nvm::compiler
