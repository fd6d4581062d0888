// Order.  Maps of clusters get the pages of directories back, where the word that names one proves it.  Then, for each
// store: it is attached in the image; the word; its structures, as the pool's own (mend_structures.cpp); their check.
#include "care/mend_store_structures.hpp"

#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "care/check_names.hpp"
#include "care/check_structures.hpp"
#include "care/mend_structures.hpp"
#include "care/words.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

namespace lf = lockfree::layout;
using image_space = space<any_direct, log::nothing_logged>;

class structures_of_store {
 public:
  structures_of_store(const image_to_mend& image, std::uint64_t page, const told_notes& tell)
      : base_{image.base}, g_{image.shape}, image_{image}, page_{page}, tell_{tell} {}

  // Before the space is booted, which has to know what is entered here: a zero entry in the map of a cluster holds, and
  // says that nothing is there.
  void enter_directory_again() const {
    const std::uint64_t place = named();
    if (place == 0 || place % g_.page_bytes() != 0 || !g_.in_data(place, sizeof(lf::directory))) return;
    if (word_at(base_, place) != lf::directory_magic) return;
    const std::uint64_t first = g_.page_of(place);
    const std::uint64_t head = cluster_head(base_, g_, first);
    if (head == no_cluster) return;
    const auto c = cluster_at(base_, g_, head);
    const std::uint64_t count = pages_of_directory();
    if (!c || first < c->page + c->header_pages || !range_inside(first, count, c->end())) return;
    bool are_free = true;
    const auto see = [&](std::uint64_t at, const layout::page_entry& e, std::uint64_t) {
      are_free = are_free && (at >= first + count || at + e.length_pages <= first);
      return are_free;
    };
    each_inner_entry(base_, g_, *c, see, [&](const damage&) { are_free = false; });
    if (!are_free) return;
    const layout::page_entry e{static_cast<std::uint32_t>(count), lf::directory_owner, layout::page_kind::run,
                               layout::object_layout::raw, layout::slot_protocol::epoch};
    put(c->entry_offset(g_, first), layout::pack(e));
    tell_(note_of(mending::mended, place, "pages of the directory of lock-free structures: allocated again"));
  }

  // `left`: what the check finds afterwards.
  status mend(any_direct& medium, image_space& places, std::string& left) {
    const auto store = places.attach(page_, false);
    if (!store) return store.error();
    places.make_known(**store);
    const auto pages = places.structures_in(**store);
    if (!pages) return pages.error();
    if (status s = settle_word(**pages); !s) return s;
    if (status s = mend_lockfree_on(medium, base_, **pages, image_.closed, image_.guessed, tell_); !s) return s;
    mended_findings findings{base_, **pages, tell_};
    if (status s = tidy_structures_on(medium, base_, **pages, std::ref(findings)); !s) return s;
    left = findings.settle();
    return places.detach(**store);
  }

 private:
  [[nodiscard]] std::uint64_t word_offset() const noexcept {
    return page_ + offsetof(layout::cluster_header, structures);
  }
  // What the word names; 0: nothing.
  [[nodiscard]] std::uint64_t named() const noexcept {
    const std::uint64_t word = word_at(base_, word_offset());
    return word_holds(word, word_seed(word_offset())) ? word & checked_mask : 0;
  }
  [[nodiscard]] std::uint64_t pages_of_directory() const noexcept {
    return ceil_div(sizeof(lf::directory), g_.page_bytes());
  }

  // The word names the directory, or there is none.
  status settle_word(const structure_pages& pages) {
    std::vector<std::uint64_t> directories;
    bool are_some = false;
    for (const owned_pages& p : pages_of(pages)) {
      const bool is_one = p.owner == lf::directory_owner && p.kind == layout::page_kind::run &&
                          p.bytes >= pages_of_directory() << g_.page_shift;
      if (is_one && p.offset == named()) return {};
      if (is_one) directories.push_back(p.offset);
      are_some = are_some || p.owner >= lf::first_owner || (is_one && has_entries(p.offset));
    }
    const std::uint64_t found = word_at(base_, word_offset());
    // What a crash has left of a directory that was being made: it is named before there is anything in it.
    if (!are_some && found == 0) return {};
    if (directories.size() > 1) {
      std::erase_if(directories, [&](std::uint64_t at) { return word_at(base_, at) != lf::directory_magic; });
    }
    if (directories.size() > 1) {
      return fail(errc::corrupt, "the directory of lock-free structures: %zu runs may be it", directories.size());
    }
    const std::uint64_t made = put(word_offset(), directories.empty() ? 0 : directories.front());
    if (directories.empty() && are_some) {
      tell_(note_of(mending::lost, word_offset(), "directory of lock-free structures: nothing of it can be found"));
    } else {
      tell_(note_of(mending::mended, word_offset(),
                    text_of("place of the directory of lock-free structures: found %lx, made %lx", found, made)));
    }
    return {};
  }
  [[nodiscard]] bool has_entries(std::uint64_t directory) const noexcept {
    for (unsigned i = 0; i < lf::structures_max; ++i) {
      if (word_at(base_, directory + offsetof(lf::directory, entries) + i * sizeof(lf::entry)) != 0) return true;
    }
    return false;
  }
  std::uint64_t put(std::uint64_t at, std::uint64_t content) const noexcept {
    const std::uint64_t word = seal_word(content, word_seed(at));
    std::memcpy(base_ + at, &word, sizeof word);
    return word;
  }

  std::byte* const base_;
  const geometry& g_;
  const image_to_mend& image_;
  const std::uint64_t page_;
  const told_notes& tell_;
};

}  // namespace

status mend_lockfree_in_stores(const image_to_mend& image, const std::map<std::uint32_t, std::uint64_t>& stores,
                               const told_notes& tell, std::string& left) {
  const std::set<std::uint64_t> dying = dying_stores(image.base, image.shape);
  const auto each = [&](const std::function<status(structures_of_store&)>& mend) -> status {
    for (const auto& [number, page] : stores) {
      if (dying.contains(page)) continue;
      const std::string about = "store " + std::to_string(number) + ": ";
      const told_notes of_store = [&](repair_note n) {
        n.what = about + n.what;
        tell(std::move(n));
      };
      structures_of_store of{image, page, of_store};
      if (status s = mend(of); !s) return fail(s.error(), "%s%s", about.c_str(), std::string{last_message()}.c_str());
      if (left.empty()) continue;
      left = about + left;
      break;
    }
    return {};
  };
  (void)each([](structures_of_store& of) -> status {
    of.enter_directory_again();
    return {};
  });
  ordered_media nothing;
  any_direct medium{nothing};
  log::nothing_logged lanes;  // logs have been replayed
  image_space places{medium, lanes, image.base, image.shape};
  if (status s = places.boot(0, 1); !s) return s;
  return each([&](structures_of_store& of) { return of.mend(medium, places, left); });
}

}  // namespace nvm::care
