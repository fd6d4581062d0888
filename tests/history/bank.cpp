// The bank (bank.hpp) in processes that are killed again and again.
//
// usage: bank [--minutes N | --seconds N] [--seed N] [--threads N] [--engine NAME]...
//
// Per engine one pool lives through all kills (kill_campaign.hpp).  Exit code: 0 all was right, 1 something was not,
// 2 wrong usage.
#include "bank.hpp"

namespace {

using nvm::bank::engine;
constexpr engine engines[] = {
    {"undo", NVM_MEDIUM_SHM, false, NVM_ENGINE_UNDO, false},
    {"undo-write-back", NVM_MEDIUM_SHM, true, NVM_ENGINE_UNDO, false},
    {"redo", NVM_MEDIUM_SHM, false, NVM_ENGINE_REDO, false},
    {"redo-by-mark", NVM_MEDIUM_SHM, false, NVM_ENGINE_REDO, true},
    {"log", NVM_MEDIUM_SHM, false, NVM_ENGINE_LOG, false},
    {"ssd", NVM_MEDIUM_SSD, false, NVM_ENGINE_DETECT, false},
    {"ssd-log", NVM_MEDIUM_SSD, false, NVM_ENGINE_LOG, false},
};

}  // namespace

int main(int count, char** arguments) {
  nvm::kills::settings how;
  how.seconds = 3600;
  if (!nvm::kills::parse(count, arguments, "bank", "--engine", "NAME", how)) return 2;
  return nvm::kills::run(how, engines, "transfers");
}
