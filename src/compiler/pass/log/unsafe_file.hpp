// *.unsafe: what precompiled functions write through their arguments (Breeze, section III-D and Fig. 7).
//
//   memcpy={nargs:3,wr_set:{{arg0,arg2}}}              writes arg2 bytes from arg0
//   strcpy={nargs:2,wr_set:{{arg0,strlen(arg1)+#1}}}
//   setCacheLine={nargs:2,wr_set:{{arg0,#64}}}
//   read={nargs:3,wr_set:{{arg1,upto(arg2)}}}          writes at most so much: cut at the end of the object
//   realpath={nargs:2,wr_set:{{arg1,rest}}}            writes up to the end of the object, for all that is known
//   fcntl={nargs:2+,wr_set:{{more,upto(#32)}}}         every pointer among the further arguments
//   sscanf={nargs:2+,wr_set:{scanf(arg1)}}             what this format writes, looked at by the run-time
//   setbuf={nargs:2,wr_set:{{arg1,?}}}                 a durable arg1 is a warning, and reported by a checked build
//   sem_post={nargs:1,wr_set:{{arg0,lock}}}            a lock: a durable arg0 is a warning of its own, and reported
//   puts={nargs:1,wr_set:{}}                           writes nothing that is durable
//   frob={nargs:1+,wr_set:?}                           writes unknown bytes: a durable argument is a warning
//   qsort={nargs:4,wr_set:{{arg0,arg1*arg2}},calls:?}  calls functions of the program, which may use transactions
//   frob={nargs:1,wr_set:{},calls:{}}                  calls none
//
// A line `calls:{}` or `calls:?` by itself is the default for later functions in the file; at the beginning it is `?`.
//
// One function a line; `#` at the start of a line begins a comment; blanks mean nothing.  An expression is a sum of
// products of
//   argN, #N, strlen(argN), strnlen(argN, e), wcslen(argN), wcsnlen(argN, e), min(e, e);
//   *argN, *(e)                the 8 bytes there, 0 where the address is NULL; int(argN): 4 bytes
//   between(argN, argM)        bytes from one address to the other, 0 where that is not after it
//   bits(e)                    bytes of a set of so many bits, in words of 64
//   printed(argN)              characters that the format argN makes of the further arguments; vprinted(argN, argM): of
//   a
//                              va_list
// An address begins with an argument, or is the word there: *argN.  The text is hostile until parsed: no expression
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
  enum class kind : std::uint8_t {
    argument,
    constant,
    string_length,
    bounded_length,
    sum,
    product,
    minimum,
    wide_length,
    bounded_wide_length,
    word_at,
    number_at,
    bits,
    printed,
    printed_list,
    between
  };
  kind what = kind::constant;
  // argument: its number; constant; of the rest that name an argument: its number.
  std::uint64_t value = 0;
  // bounded_*: the bound; between: the end;
  // sum, product, minimum: two or more; word_at: where; bits; printed_list: the va_list.
  std::vector<expression> parts;
};

struct written_range {
  enum class extent : std::uint8_t { exact, at_most, unknown, lock };
  expression address;
  expression bytes;  // exact, at_most; the largest number: to the end of the object
  extent how = extent::exact;
  bool further = false;  // "more": every pointer among the further arguments, `address` has no meaning
};

// No bytes of it can be logged.
[[nodiscard]] inline bool is_unsaid(const written_range& r) {
  return r.how == written_range::extent::unknown || r.how == written_range::extent::lock;
}

// Data in memory determines the writes: the run-time's function of this name examines it.
struct walk_of_memory {
  std::string what;                 // "printf", ...
  std::vector<unsigned> arguments;  // of the call, handed on
  bool further = false;             // and the further ones
};

struct unsafe_function {
  std::string name;
  unsigned arguments = 0;
  bool more_arguments = false;  // "nargs:N+"
  bool unknown = false;         // "wr_set:?"
  std::vector<written_range> writes;
  std::vector<walk_of_memory> by;
  bool calls_back = true;   // "calls:?"
  bool of_library = false;  // said by the file of the installation
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
