#define NVM_INLINES_LITTLE 1
#include "care/check_structures.hpp"

#include "engine/structures.hpp"

namespace nvm::care {
namespace {

using told = std::function<void(std::uint64_t offset, const char* finding)>;

status look_at(std::byte* base, const geometry& g, const told& tell, bool tidies) try {
  ordered_media medium;
  log::nothing_logged lanes;  // what is to be replayed has been
  space<ordered_media, log::nothing_logged> places{medium, lanes, base, g};
  engines::structures<ordered_media> all{medium, base, places};
  status opened = places.boot(0, 1);
  if (opened) opened = all.open_telling(&tell);
  if (opened && tidies) opened = all.unlink_all_deleted();
  if (opened) {
    auto say = [&tell](std::uint64_t at, const char* finding) { tell(at, finding); };
    return all.check(say);
  }
  if (opened.error() == errc::no_memory) return opened;
  tell(anchor_word_at(g, 0, anchor_word::lockfree), last_message());
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the lock-free structures");
}

}  // namespace

status check_structures(std::byte* base, const geometry& g, const told& tell) { return look_at(base, g, tell, false); }
status tidy_structures(std::byte* base, const geometry& g, const told& tell) { return look_at(base, g, tell, true); }

}  // namespace nvm::care
