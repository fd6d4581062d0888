// Which bytes of an image its file has: for the keeper of pages of the image elsewhere (image_guest).
//
// A page may be read from the file again if no thread can store to it, is_home() says so, and after that the file has
// the image's bytes, which the caller compares. Why that is enough, although is_home() takes no lock:
//   - Bytes that no record has, of an open transaction or volatile, differ from the file's.
//   - A record that is not home and that is_home() does not see was captured by a thread whose note is on its way.  It
//     captured bytes that the page still holds, or that another thread has overwritten since. That thread had seen the
//     first one's record, so a reader of its bytes sees its note. The page's bytes are the file's: bringing the record
//     home changes nothing.
//   - A record that is captured later is of a thread that stores to the page, and waits; or it has the present bytes.
//   - Or it has bytes that its thread will store there (image_batch::add_for()).  The page may come back with them or
//     without: that thread stores them, and until it has, nobody else captures or reads that range.
// Hence the file's page does not change, in bytes that anybody reads, until a thread has stored to the image's.
#include <algorithm>

#include "media/image_media.hpp"

namespace nvm {

bool image_media::is_home(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (touched_ == nullptr) return false;
  const touched_pages::newest newest = touched_->of(offset, bytes);
  // acquire: pairs with the releases in finish_replay() and run_checkpoint(): the file has these records.
  const lsn_t home = home_lsn_.load(std::memory_order_acquire);
  return home != nothing_home && std::max(newest.logged, newest.straight) <= home;
}

void image_media::bring_home_soon() noexcept {
  // relaxed: a wish. Without the lock the notice may come too early; the next wish, or the interval, makes up for that.
  wanted_home_.store(true, std::memory_order_relaxed);
  work_.notify_one();
}

}  // namespace nvm
