// Planted bugs: faults that the crash explorer must find, to show that it would find them if we made them.
//
// Outside of recorded test programs planted() is the constant false and nothing of it is compiled.
#pragma once

namespace nvm {

enum class plant : unsigned char {
  none,
  no_settling,            // a lane changes a word that another lane's log may still change
  word_put_back,          // allocation words are changed at once and an abort puts the whole old word back
  restored_not_flushed,   // what an inner abort restored is not made durable by the outer commit
  generation_used_again,  // a lane's generation goes on after a crash that may have torn a record of it
  reuse_before_commit,    // a freed slot may be allocated again before the free is committed
};

#ifdef NVM_RECORDED
inline plant planted_bug = plant::none;
inline bool planted(plant p) noexcept { return planted_bug == p; }
#else
constexpr bool planted(plant) noexcept { return false; }
#endif

}  // namespace nvm
