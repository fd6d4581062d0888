// The expression of NVM_UNION_TAG, from the words of C into those of a type map (object/union_tag.hpp).
#pragma once

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/StringRef.h>

#include <functional>
#include <optional>
#include <string>

namespace nvm::compiler {

// Meaning of a name of an expression, {"a", "b"} for a.b, in the words of a type map; no value: unknown.
using tag_names = std::function<std::optional<std::string>(llvm::ArrayRef<llvm::StringRef> path)>;

// The tag; or, with `wrong`, the fault of the text, as the end of a sentence.
struct compiled_tag {
  std::string tag;
  std::string wrong;
};
[[nodiscard]] compiled_tag compile_tag(llvm::StringRef text, const tag_names& names);

}  // namespace nvm::compiler
