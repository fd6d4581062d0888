// Places in the sources, as constants that the run-time of profiled programs reads, and the frames that lead to them.
//
// A function that makes calls keeps a record in its frame, {record of the caller, place of the call that is running},
// and __nvm_prof_top of each thread leads to the innermost one.  So an allocation knows its call path without a walk of
// the stack, and a call of strdup() is a place although the C library came compiled.  Leaves keep nothing.
//
// The layouts are those of src/advisor/runtime/hooks.hpp, which a plugin cannot include.
#pragma once

#include <llvm/IR/Constants.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Module.h>

#include <map>
#include <string>
#include <tuple>

namespace nvm::compiler {

class places {
 public:
  explicit places(llvm::Module& m);

  // Keeps a record of the calls in `f`; false: there is none to keep.
  bool keep_frame(llvm::Function& f);
  // Announces places and compilation units to the run-time, when the program starts.
  void announce();

 private:
  llvm::Constant* text(llvm::StringRef t);
  llvm::Constant* file_of(const llvm::DIFile* f);
  llvm::Constant* unit_of(const llvm::DICompileUnit& unit);
  llvm::Constant* place_of(const llvm::CallBase& call);
  llvm::Constant* place_at(const llvm::DILocation* at, llvm::StringRef function, llvm::StringRef callee);
  void note_call(llvm::CallBase& call, llvm::Value* frame);

  using key = std::tuple<llvm::Constant*, std::string, std::string, unsigned, unsigned, llvm::Constant*>;

  llvm::Module& module_;
  llvm::Type* word_;
  llvm::PointerType* pointer_;
  llvm::StructType* place_type_;
  llvm::StructType* frame_type_;
  llvm::Constant* top_;
  std::map<std::string, llvm::Constant*> texts_;
  std::map<std::string, llvm::Constant*> files_;
  std::map<key, llvm::Constant*> places_;
};

// A call that may lead to an allocation, or be one.
[[nodiscard]] bool is_on_path(const llvm::CallBase& call);

}  // namespace nvm::compiler
