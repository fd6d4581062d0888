// *.unsafe: what precompiled functions write through their arguments (Breeze, section III-D and Fig. 7).
//
//   memcpy={nargs:3,wr_set:{{arg0,arg2}}}              writes arg2 bytes from arg0
//   strcpy={nargs:2,wr_set:{{arg0,strlen(arg1)+#1}}}
//   setCacheLine={nargs:2,wr_set:{{arg0,#64}}}
//   printf={nargs:1+,wr_set:{}}                        one argument or more; writes nothing that is durable
//   scanf={nargs:1+,wr_set:?}                          writes what nobody can say: a durable argument is a warning
//   qsort={nargs:4,wr_set:{{arg0,arg1*arg2}},calls:?}  calls functions of the program, which may use transactions
//   frob={nargs:1,wr_set:{},calls:{}}                  calls none
//
// A line `calls:{}` or `calls:?` by itself says it for the functions that follow it in the file and do not say it
// themselves; at the beginning it is `?`.
//
// One function a line; `#` at the start of a line begins a comment; blanks mean nothing.  An expression is a sum of
// products of argN, #N, strlen(argN), strnlen(argN, e) and min(e, e).  The text is hostile until parsed: no expression
// nests deeper than 8, no number is larger than 2^32.
//
// No LLVM in here: the parser is tested and fuzzed by itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nvm::compiler {

struct expression {
  enum class kind : std::uint8_t { argument, constant, string_length, bounded_length, sum, product, minimum };
  kind what = kind::constant;
  std::uint64_t value = 0;  // argument: its number; constant; string_length, bounded_length: number of the argument
  std::vector<expression> parts;  // bounded_length: the bound; sum, product, minimum: two or more
};

struct written_range {
  expression address;
  expression bytes;
};

struct unsafe_function {
  std::string name;
  unsigned arguments = 0;
  bool more_arguments = false;  // "nargs:N+"
  bool unknown = false;         // "wr_set:?"
  std::vector<written_range> writes;
  bool calls_back = true;  // "calls:?"
  unsigned line = 0;
};

struct unsafe_error {
  unsigned line = 0;
  unsigned column = 0;
  std::string message;
};

// Adds the functions of `text` to `functions`; false: `error` says where and what, and nothing was added.
[[nodiscard]] bool parse_unsafe(std::string_view text, std::vector<unsafe_function>& functions, unsafe_error& error);

}  // namespace nvm::compiler
