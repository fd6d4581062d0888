// What a program wants to be called for when its transaction has ended.
#pragma once

namespace nvm::tx {

struct hook {
  void (*call)();  // the caller's function, its type the caller's business
  int event;
  void* argument;
  bool aborted;  // registered in a level that was rolled back
};

}  // namespace nvm::tx
