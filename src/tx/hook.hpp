// A call that a program wants when its transaction has ended.
#pragma once

namespace nvm::tx {

struct hook {
  void (*call)();  // the caller's function, whose true type only the caller knows
  int event;
  void* argument;
  bool aborted;  // registered in a level that was rolled back
};

}  // namespace nvm::tx
