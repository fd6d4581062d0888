// What compiled code of a profiled program calls and leaves behind (src/compiler/pass/profile/).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct nvm_prof_file {
  const char* path;
  const char* md5;  // hexadecimal; empty: not known
};

struct nvm_prof_place {
  const nvm_prof_file* file;  // null: no debug information
  const char* function;       // of the source
  const char* called;         // empty: through a pointer
  std::uint32_t line;
  std::uint32_t column;
  const nvm_prof_place* around;  // where the function was inlined
};

// A source that was compiled, and how.
struct nvm_prof_unit {
  const nvm_prof_file* const* files;  // the source, then other files with code in it
  std::size_t file_count;
  const char* folder;
  const char* command;  // as the compiler records it
};

// In the stack frame of each function that makes calls.
struct nvm_prof_frame {
  nvm_prof_frame* caller;
  const nvm_prof_place* at;  // of the call that is running; null: none yet
};

extern thread_local nvm_prof_frame* __nvm_prof_top;

void __nvm_prof_places(const nvm_prof_place* first, const nvm_prof_place* end);
void __nvm_prof_unit(const nvm_prof_unit* unit);
// Called before the access; a number in the name is the access's bytes. They leave all registers as they were (LLVM's
// preserve_allcc).
#define NVM_PROF_ACCESS __attribute__((no_caller_saved_registers))
NVM_PROF_ACCESS void __nvm_prof_load_1(const void* p);
NVM_PROF_ACCESS void __nvm_prof_load_2(const void* p);
NVM_PROF_ACCESS void __nvm_prof_load_4(const void* p);
NVM_PROF_ACCESS void __nvm_prof_load_8(const void* p);
NVM_PROF_ACCESS void __nvm_prof_load(const void* p, std::size_t bytes);
NVM_PROF_ACCESS void __nvm_prof_store_1(const void* p);
NVM_PROF_ACCESS void __nvm_prof_store_2(const void* p);
NVM_PROF_ACCESS void __nvm_prof_store_4(const void* p);
NVM_PROF_ACCESS void __nvm_prof_store_8(const void* p);
NVM_PROF_ACCESS void __nvm_prof_store(const void* p, std::size_t bytes);
// A block: counts as an access for each 64 bytes, wherever it begins.
void __nvm_prof_read(const void* p, std::size_t bytes);
void __nvm_prof_write(const void* p, std::size_t bytes);
// A text with its zero; null is none.
void __nvm_prof_read_text(const char* text);
void __nvm_prof_write_text(const char* text);
std::size_t __nvm_prof_length(const char* text);
}
