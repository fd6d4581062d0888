// The part of `space` that attaches object stores and detaches them; included by space.hpp, which says how it all hangs
// together.  The labels of edges are those of space_stores.hpp.
#pragma once

#include <algorithm>
#include <vector>

#include "space/cluster_image.hpp"
#include "space/space.hpp"

namespace nvm {

// ---- attaching -----------------------------------------------------------------------------------------------------

template <media M, log::settler S>
result<std::vector<cluster>> space<M, S>::read_store(std::uint64_t offset, bool writes) noexcept {
  const geometry g = sizes_now();
  auto clusters = clusters_of(base_, g, offset);
  if (!clusters || !writes || !maps_doubtful_) return clusters;
  for (const cluster& c : *clusters) {
    medium_.flush(base_ + g.page_offset(c.page), layout::cluster_header_bytes(c.room));
  }
  medium_.fence(edge{"store/E10"});
  return clusters;
}

// The cluster at in_work, where the page map has it and the list does not.
template <media M, log::settler S>
status space<M, S>::finish_work(const std::vector<cluster>& clusters) noexcept {
  const geometry g = sizes_now();
  const cluster& first = clusters.front();
  const std::uint64_t place = link(cluster_word_at(g, first.page, offsetof(layout::cluster_header, in_work)));
  // A cluster that was taken out may have been cut off with the pool's end since.
  if (place == 0 || !g.in_data(place, g.page_bytes())) return {};
  const std::uint64_t page = g.page_of(place);
  if (std::ranges::any_of(clusters, [&](const cluster& c) { return c.page == page; })) return {};
  const std::uint64_t word = index_.map.load(page);
  layout::page_entry e;
  if (entry_fault(word, page, g, g.size_pages, e) != nullptr || e.kind != page_kind::cluster) return {};
  cluster c;
  if (cluster_fault(base_, g, page, e.length_pages, c).what != nullptr || c.number != first.number || c.first)
    return {};
  bool empty = true;
  const auto seen = [&](auto&&...) {
    empty = false;
    return false;
  };
  each_inner_entry(base_, g, c, seen, seen);
  if (!empty) {
    return fail(errc::corrupt, "store %u: its cluster at offset %lu is in no list, but not empty", c.number, place);
  }
  const page_state s = index_.states.get(page);
  if (s.code() != 0) return {};
  settle_pages(page, c.pages);
  index_.map.store(page, 0);
  medium_.flush(index_.map.at(page), 8);
  medium_.fence(edge{"store/E11"});
  give_pages(page, c.pages);
  return {};
}

template <media M, log::settler S>
status space<M, S>::make_whole(std::uint64_t offset) noexcept {
  const std::lock_guard handing{handing_};
  const auto clusters = read_store(offset, true);
  if (!clusters) return clusters.error();
  if (index_.states.get(clusters->front().page).what() == page_state::type::cluster) {
    return fail(errc::busy, "store %u is attached", clusters->front().number);
  }
  return finish_work(*clusters);
}

// The first page of a store becomes that of an attached one.
template <media M, log::settler S>
status space<M, S>::claim_store(std::uint64_t page, unsigned place) noexcept {
  const std::lock_guard guard{index_.states.lock_of(page)};
  const page_state s = index_.states.get(page);
  // A run: made by a transaction of this process, or looked at by one that freed it and was rolled back.
  const bool free = s.code() == 0 || (s.what() == page_state::type::run && s.layout() == layout::object_layout::raw &&
                                      !s.reserved() && !s.freeing() && s.store() == 0);
  if (free && place != 0) index_.states.set(page, page_state::cluster_of(place));
  if (free) return {};
  return fail(errc::busy, "store at offset %lu is attached, or a transaction makes or frees it",
              index_.sizes().page_offset(page));
}

template <media M, log::settler S>
status space<M, S>::claim_clusters(const std::vector<cluster>& clusters, unsigned place) noexcept {
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    if (status s = claim_store(clusters[i].page, place); !s) {
      while (i-- != 0) index_.states.set(clusters[i].page, page_state{});
      return s;
    }
  }
  return {};
}

template <media M, log::settler S>
result<open_store*> space<M, S>::attach(std::uint64_t offset, bool read_only) noexcept {
  const geometry g = sizes_now();
  if (!g.in_data(offset, g.page_bytes()) || (offset - g.data_offset) % g.page_bytes() != 0) {
    return fail(errc::corrupt, "offset %lu of a store is no page of the pool", offset);
  }
  const std::lock_guard handing{handing_};
  const std::uint64_t page = g.page_of(offset);
  if (status s = claim_store(page, 0); !s) return s.error();
  settle_pages(page, 1);
  const auto clusters = read_store(offset, !read_only);
  if (!clusters) return clusters.error();
  if (!read_only) {
    if (status s = finish_work(*clusters); !s) return s.error();
  }
  auto got = index_.stores.get(index_.arena_count());
  if (!got) return got.error();
  open_store& store = **got;
  arena* const a = index_.arena_at(store.arena());
  status s = a == nullptr ? status{fail(errc::no_memory, "no volatile memory for an arena")}
                          : store.begin(base_, g, *clusters, read_only);
  if (s) {
    a->read_only = read_only;
    s = claim_clusters(*clusters, store.place());
  }
  if (!s) {
    index_.stores.put(store);
    return s.error();
  }
  index_.count_unindexed(store.unindexed());
  return &store;
}

// ---- detaching -----------------------------------------------------------------------------------------------------

// Calls visit(page, state) for each page that has one, until it says false.
template <media M, log::settler S>
template <class Visit>
bool space<M, S>::each_state_in(open_store& store, Visit&& visit) noexcept {
  for (const cluster_pages& pages : store.clusters()) {
    const cluster& c = pages.what();
    for (std::uint64_t p = c.page + c.header_pages; p < c.end(); ++p) {
      const page_state s = index_.states.get(p);
      if (s.code() != 0 && !visit(p, s)) return false;
    }
  }
  return true;
}

// Whether no open transaction has a part in it, and none is about to have one.  If so, its runs are forgotten; a thread
// that frees one later looks it up anew, or finds nothing.  `detaching` and the lock of its arena are held.
template <media M, log::settler S>
bool space<M, S>::is_at_rest(open_store& store) noexcept {
  if (store.is_worked_in()) return false;
  const bool slots = each_state_in(store, [](std::uint64_t, page_state s) {
    if (!s.is_extent()) return true;
    extent& e = s.descriptor();
    for (unsigned w = 0; w < e.bit_words; ++w) {
      if ((e.reserved()[w] | e.freeing()[w]) != 0) return false;
    }
    return true;
  });
  const bool runs = slots && each_state_in(store, [&](std::uint64_t page, page_state s) {
                      if (s.what() != page_state::type::run) return true;
                      while (!s.reserved() && !s.freeing() && !index_.states.change(page, s, 0)) {
                      }
                      return !s.reserved() && !s.freeing();
                    });
  // Again: a thread that gives a run up begins its work before the run's state is gone.
  return runs && !store.is_worked_in();
}

template <media M, log::settler S>
status space<M, S>::detach(open_store& store) noexcept {
  const std::lock_guard handing{handing_};
  arena& a = *index_.existing_arena(store.arena());
  extent* leaving = nullptr;
  std::uint64_t quarantined = 0;
  {
    const std::unique_lock alone{index_.detaching};
    const biased_lock::guard guard{a.lock, space_index::nobody};
    if (!is_at_rest(store)) {
      return fail(errc::busy, "an open transaction has allocated or freed an object in store %u", store.number());
    }
    (void)each_state_in(store, [&](std::uint64_t page, page_state s) {
      if (s.what() == page_state::type::quarantined) ++quarantined;
      if (s.is_extent()) {
        s.descriptor().page = no_page;
        s.descriptor().next = leaving;
        leaving = &s.descriptor();
      }
      index_.states.set(page, page_state{});
      return true;
    });
    a.sets = {};
    a.slot_bytes_used = 0;
    store.close();
  }
  index_.count_unindexed(-store.unindexed());
  index_.forget_quarantined(quarantined);
  for (extent* e = leaving; e != nullptr; e = e->next) settle_tags(*e);
  settle_everything();
  while (leaving != nullptr) {
    extent& e = *leaving;
    leaving = e.next;
    index_.descriptors(e.kind).put(&e);
  }
  let_clusters_go(store);
  return {};
}

template <media M, log::settler S>
void space<M, S>::let_clusters_go(open_store& store) noexcept {
  in_stores_.erase(store.place());
  for (cluster_pages& pages : store.clusters()) settle_pages(pages.what().page, pages.what().pages);
  const std::unique_lock alone{index_.detaching};
  for (cluster_pages& pages : store.clusters()) index_.states.set(pages.what().page, page_state{});
  index_.stores.put(store);
}

}  // namespace nvm
