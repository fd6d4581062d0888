// Two crashes with a life between them.
#include "explore/explore.hpp"
#include "explore/explorer.hpp"

namespace nvm::explore {

report explore(const two_crashes& s, const options& o, const mutation& m) {
  options first = o;
  first.nesting = 0;
  std::vector<std::vector<std::byte>> images;
  first.on_image = [&](const machine& on, const window& w) {
    if (images.size() < s.images_max && s.wanted(on, w)) images.emplace_back(on.base(), on.base() + on.size());
  };
  // Not through explore(): a token that is to be replayed may name a state of the second life.
  explorer e(s.first, first);
  e.record();
  report all = e.explore(m);
  all.subject = s.first.name + ", and a second crash later";
  for (std::size_t i = 0; i < images.size() && !all.finds_violation(); ++i) {
    subject second = s.then(std::move(images[i]));
    second.name += " (start " + std::to_string(i) + ")";  // its tokens fit no other start
    all.add(explore(second, o, m));
  }
  return all;
}

}  // namespace nvm::explore
