// Frames of the library's calls that run a function of the program, which may have been left by longjmp: what stood in
// them says whether they are still there.
#pragma once

namespace nvm::api {

struct marked_frame {
  const char* frame = nullptr;    // where the frame has the address of the frame before
  const void* returns = nullptr;  // the word after it
};

// Whether the frame has been left: it lies below one that was entered later, or the address that it returns to is no
// longer where it stood.  False where nothing can be said: on the stack of a coroutine.
[[nodiscard]] bool is_left(const marked_frame& f, const char* later) noexcept;
// Whether it can be jumped to from a frame that was entered later, on the same stack.
[[nodiscard]] bool is_open(const marked_frame& f, const char* later) noexcept;

}  // namespace nvm::api
