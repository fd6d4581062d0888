#include "care/check_structures.hpp"

#include <cstring>
#include <set>
#include <string>

#include "care/check_names.hpp"
#include "care/regions.hpp"
#include "care/structure_reader.hpp"
#include "engine/structure_side.hpp"
#include "lockfree/catalogue.hpp"
#include "lockfree/lockfree_layout.hpp"
#include "log/log.hpp"
#include "media/media.hpp"
#include "space/space.hpp"

namespace nvm::care {
namespace {

using told = std::function<void(std::uint64_t offset, const char* finding)>;
using image_space = space<any_direct, log::nothing_logged>;

// Looks for copies among nodes that prove their place.  Recovery takes a copy over a node for something that a crash
// has left, and wipes it out.
void look_for_copies(any_direct& medium, std::byte* base, structure_pages& places, const told& tell) {
  namespace lf = lockfree::layout;
  lockfree::catalogue<any_direct> names{medium, base, places};
  if (!names.open()) return;  // recovery says so
  (void)names.each([&](const lockfree::catalogue<any_direct>::found& f, std::string_view name) {
    if ((f.flags & lf::entry_volatile_links) == 0) return;
    described_structure d;
    d.name = name;
    d.kind = f.kind;
    d.owner = f.owner;
    d.root = f.root;
    d.flags = f.flags;
    d.place = f.root;
    const active_places nobody;
    structure_reader reader{base, places, d, nobody};
    reader.read();
    if (reader.copied_place() == 0) return;
    tell(reader.copied_place(),
         ("lock-free structure '" + d.name + "': a node is a copy of one that lies elsewhere").c_str());
  });
}

result<std::unique_ptr<engines::structure_side>> recover(any_direct& medium, std::byte* base, structure_pages& places,
                                                         bool tidies, const told& tell) {
  look_for_copies(medium, base, places, tell);
  auto all = engines::make_structure_side(medium, base, places, &tell);
  if (!all || !tidies) return all;
  if (status s = (*all)->unlink_all_deleted(); !s) return s.error();
  return all;
}

bool says_closed(const std::byte* base, const geometry& g) noexcept {
  for (unsigned copy = 0; copy < 2; ++copy) {
    layout::superblock sb;
    std::memcpy(&sb, base + g.superblock_at(copy), sizeof sb);
    if (sb.magic != layout::pool_magic || sb.crc != superblock_crc(sb)) continue;
    return sb.state == static_cast<std::uint32_t>(layout::pool_state::clean);
  }
  return false;
}

status look_at(std::byte* base, const geometry& g, const told& tell, bool tidies) try {
  ordered_media nothing;
  any_direct medium{nothing};
  log::nothing_logged lanes;  // logs have been replayed
  image_space places{medium, lanes, base, g};
  if (status s = places.boot(0, 1); !s) return s;
  const auto all = recover(medium, base, places, tidies, tell);
  // Pages that a crash has left of a structure being made or dropped are freed by the next open, so a closed pool has
  // none.
  if (all && (*all)->recovered().pages_freed != 0 && says_closed(base, g)) {
    tell(anchor_word_at(g, 0, anchor_word::lockfree),
         "lock-free structures: pages of one that has no name, in a pool that was closed");
  }
  if (all) return (*all)->check(tell);
  if (all.error() == errc::no_memory) return all.error();
  tell(anchor_word_at(g, 0, anchor_word::lockfree), last_message());
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the lock-free structures");
}

// Those inside of the object store whose page lies at `page`.
status look_at_store(any_direct& medium, std::byte* base, image_space& places, std::uint64_t page, const told& tell) {
  const auto store = places.attach(page, false);
  if (!store) return store.error();
  places.make_known(**store);
  const auto pages = places.structures_in(**store);
  if (!pages) return pages.error();
  for (const owned_pages& p : pages_of(**pages)) {
    constexpr unsigned behind = lockfree::layout::first_owner + lockfree::layout::structures_max;
    if (p.owner >= behind) tell(p.offset, "pages of an owner that is no lock-free structure");
  }
  {
    const auto all = recover(medium, base, **pages, false, tell);
    if (all) {
      if (status s = (*all)->check(tell); !s) return s;
    } else if (all.error() == errc::no_memory) {
      return all.error();
    } else {
      tell(*(*pages)->lockfree_directory().begin(), last_message());
    }
  }
  return places.detach(**store);
}

}  // namespace

status check_structures_of_stores(std::byte* base, const geometry& g,
                                  const std::map<std::uint32_t, std::uint64_t>& pages, const told& tell) try {
  ordered_media nothing;
  any_direct medium{nothing};
  log::nothing_logged lanes;
  image_space places{medium, lanes, base, g};
  if (status s = places.boot(0, 1); !s) return s;
  // One that is being dropped may have lost its directory, and clusters, already.
  const std::set<std::uint64_t> dying = dying_stores(base, g);
  for (const auto& [number, page] : pages) {
    if (dying.contains(page)) continue;
    const told of_store = [&tell, number = number](std::uint64_t offset, const char* finding) {
      tell(offset, ("store " + std::to_string(number) + ": " + finding).c_str());
    };
    if (status s = look_at_store(medium, base, places, page, of_store); !s) return s;
  }
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to check the lock-free structures of stores");
}
status check_structures(std::byte* base, const geometry& g, const told& tell) {
  if (status s = look_at(base, g, tell, false); !s) return s;
  return check_regions(base, g, tell);
}
status tidy_structures(std::byte* base, const geometry& g, const told& tell) { return look_at(base, g, tell, true); }
status tidy_structures_on(any_direct& medium, std::byte* base, structure_pages& pages, const told& tell) {
  const auto all = recover(medium, base, pages, true, tell);
  if (all) return (*all)->check(tell);
  if (all.error() == errc::no_memory) return all.error();
  tell(*pages.lockfree_directory().begin(), last_message());
  return {};
}

}  // namespace nvm::care
