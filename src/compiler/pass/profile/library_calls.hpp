// Reads and writes of functions of the C library, for counts of accesses.
//
// Blocks of a known length, strings, and results. Functions that programs call by the million have a row here, since
// libc.unsafe says what may be written, not what was, and nothing about reads. For the rest the description of
// libc.unsafe is used, if it gives a number of bytes from arguments alone.
#pragma once

#include <llvm/ADT/StringRef.h>

#include <cstdint>

namespace nvm::compiler {

enum class access : std::uint8_t { read, write };

// How many bytes, and when that is known.
enum class extent : std::uint8_t {
  argument,       // argument `bytes`
  product,        // arguments `bytes` and `bytes` + 1
  string,         // up to the zero, zero included; looked at after the call
  result,         // what the call returned, if that is positive
  result_blocks,  // result times argument `bytes`
  same_as         // length of the string at argument `bytes`, zero included
};

struct library_access {
  llvm::StringLiteral name;
  access what;
  std::uint8_t pointer;  // number of the argument
  extent how;
  std::uint8_t bytes = 0;
};

// All rows of a function stand together.
inline constexpr library_access library_accesses[] = {
    {"memcpy", access::read, 1, extent::argument, 2},
    {"memcpy", access::write, 0, extent::argument, 2},
    {"memmove", access::read, 1, extent::argument, 2},
    {"memmove", access::write, 0, extent::argument, 2},
    {"mempcpy", access::read, 1, extent::argument, 2},
    {"mempcpy", access::write, 0, extent::argument, 2},
    {"memset", access::write, 0, extent::argument, 2},
    {"bzero", access::write, 0, extent::argument, 1},
    {"explicit_bzero", access::write, 0, extent::argument, 1},
    {"bcopy", access::read, 0, extent::argument, 2},
    {"bcopy", access::write, 1, extent::argument, 2},
    {"__memcpy_chk", access::read, 1, extent::argument, 2},
    {"__memcpy_chk", access::write, 0, extent::argument, 2},
    {"__memmove_chk", access::read, 1, extent::argument, 2},
    {"__memmove_chk", access::write, 0, extent::argument, 2},
    {"__memset_chk", access::write, 0, extent::argument, 2},
    {"memcmp", access::read, 0, extent::argument, 2},
    {"memcmp", access::read, 1, extent::argument, 2},
    {"bcmp", access::read, 0, extent::argument, 2},
    {"bcmp", access::read, 1, extent::argument, 2},
    {"memchr", access::read, 0, extent::argument, 2},
    {"strlen", access::read, 0, extent::string},
    {"strcmp", access::read, 0, extent::string},
    {"strcmp", access::read, 1, extent::string},
    {"strcasecmp", access::read, 0, extent::string},
    {"strcasecmp", access::read, 1, extent::string},
    {"strncmp", access::read, 0, extent::argument, 2},
    {"strncmp", access::read, 1, extent::argument, 2},
    {"strchr", access::read, 0, extent::string},
    {"strrchr", access::read, 0, extent::string},
    {"strstr", access::read, 0, extent::string},
    {"strcpy", access::read, 1, extent::string},
    {"strcpy", access::write, 0, extent::same_as, 1},
    {"stpcpy", access::read, 1, extent::string},
    {"stpcpy", access::write, 0, extent::same_as, 1},
    {"__strcpy_chk", access::read, 1, extent::string},
    {"__strcpy_chk", access::write, 0, extent::same_as, 1},
    {"strcat", access::read, 1, extent::string},
    {"strcat", access::read, 0, extent::string},
    {"strncpy", access::write, 0, extent::argument, 2},
    {"stpncpy", access::write, 0, extent::argument, 2},
    {"__strncpy_chk", access::write, 0, extent::argument, 2},
    {"strdup", access::read, 0, extent::string},
    {"sprintf", access::write, 0, extent::string},
    {"vsprintf", access::write, 0, extent::string},
    {"__sprintf_chk", access::write, 0, extent::string},
    {"snprintf", access::write, 0, extent::string},
    {"vsnprintf", access::write, 0, extent::string},
    {"__snprintf_chk", access::write, 0, extent::string},
    {"__vsnprintf_chk", access::write, 0, extent::string},
    {"puts", access::read, 0, extent::string},
    {"fputs", access::read, 0, extent::string},
    {"atoi", access::read, 0, extent::string},
    {"strtol", access::read, 0, extent::string},
    {"strtod", access::read, 0, extent::string},
    {"write", access::read, 1, extent::result},
    {"pwrite", access::read, 1, extent::result},
    {"pwrite64", access::read, 1, extent::result},
    {"send", access::read, 1, extent::result},
    {"read", access::write, 1, extent::result},
    {"pread", access::write, 1, extent::result},
    {"pread64", access::write, 1, extent::result},
    {"recv", access::write, 1, extent::result},
    {"readlink", access::write, 1, extent::result},
    {"fread", access::write, 0, extent::result_blocks, 1},
    {"fread_unlocked", access::write, 0, extent::result_blocks, 1},
    {"fwrite", access::read, 0, extent::result_blocks, 1},
    {"fwrite_unlocked", access::read, 0, extent::result_blocks, 1},
    {"qsort", access::read, 0, extent::product, 1},
    {"qsort", access::write, 0, extent::product, 1},
    {"fgets", access::write, 0, extent::string},
    {"fgets_unlocked", access::write, 0, extent::string},
};

}  // namespace nvm::compiler
