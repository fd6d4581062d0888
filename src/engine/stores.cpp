#include "engine/stores.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "space/check.hpp"
#include "space/cluster_image.hpp"
#include "space/open_store.hpp"
#include "tx/face.hpp"

namespace nvm::engines {
namespace {

using layout::cluster_header;

// Pages that this has opened with the keeper, until they are closed.
class access {
 public:
  explicit access(store_keeper* keeper) noexcept : keeper_{keeper} {}
  ~access() {
    for (const range& r : ranges_) keeper_->close(r.offset, r.bytes);
  }
  access(const access&) = delete;
  access& operator=(const access&) = delete;
  // May throw std::bad_alloc.
  void open(std::uint64_t offset, std::uint64_t bytes, bool writes) {
    if (keeper_ == nullptr) return;
    ranges_.push_back({offset, bytes});
    keeper_->open(offset, bytes, writes);
  }
  void leave_open() noexcept { ranges_.clear(); }
  // The pages belong to no store any more, and are accessible.
  void freed(std::uint64_t offset, std::uint64_t bytes) noexcept {
    if (keeper_ == nullptr) return;
    keeper_->freed(offset, bytes);
    std::erase_if(ranges_, [&](const range& r) { return r.offset - offset < bytes; });
  }

 private:
  struct range {
    std::uint64_t offset, bytes;
  };
  store_keeper* keeper_;
  std::vector<range> ranges_;
};

class pool_stores final : public store_side {
 public:
  explicit pool_stores(const stores_ground& ground) noexcept : on_{ground} {}

  // ---- in a transaction ----

  result<std::uint64_t> create(tx::open_transaction& t, std::uint32_t number, const store_wishes& w) noexcept override {
    const geometry g = sizes();
    if (number == 0) return t.doom(fail(errc::invalid, "a store of number 0"));
    if (status s = check(w.rights, w.quota_bytes, w.created); !s) return t.doom(s.error());
    cluster c{.page = 0, .pages = 1, .header_pages = 1, .number = number, .first = true};
    c.room = layout::cluster_room_for(1, 1, g.page_shift);
    const auto offset = t.allocate_cluster(1, layout::cluster_header_bytes(c.room));
    if (!offset) return offset.error();
    c.page = g.page_of(*offset);
    (void)write_cluster_header(on_.base, g, c);
    for (const field& f : rights_of(w.rights)) put(*offset, f);
    put(*offset, {offsetof(cluster_header, quota_pages), w.quota_bytes >> g.page_shift});
    put(*offset, {offsetof(cluster_header, created), w.created});
    return *offset;
  }
  status set_root(tx::open_transaction& t, std::uint64_t page, std::uint64_t payload) noexcept override {
    if (payload > checked_mask) return fail(errc::invalid, "root %lx of a store is no offset", payload);
    const field f{offsetof(cluster_header, root), payload};
    return set(t, page, {&f, 1});
  }
  status set_key_values(tx::open_transaction& t, std::uint64_t page, std::uint64_t payload) noexcept override {
    if (payload > checked_mask) return fail(errc::invalid, "directory %lx of a store is no offset", payload);
    const field f{offsetof(cluster_header, key_values), payload};
    return set(t, page, {&f, 1});
  }
  status set_rights(tx::open_transaction& t, std::uint64_t page, const store_rights& rights) noexcept override {
    if (status s = check(rights, 0, 0); !s) return s;
    const auto fields = rights_of(rights);
    return set(t, page, fields);
  }
  status set_quota(tx::open_transaction& t, std::uint64_t page, std::uint64_t quota_bytes) noexcept override try {
    if (status s = check({}, quota_bytes, 0); !s) return s;
    access reads{keeper_};
    std::uint64_t has = 0;
    const auto clusters = [&] {
      const auto stays = hold(page);
      return read(page, reads, false);
    }();
    if (!clusters) return clusters.error();
    for (const cluster& c : *clusters) has += c.pages;
    const unsigned shift = sizes().page_shift;
    if (quota_bytes != 0 && quota_bytes >> shift < has) {
      return fail(errc::invalid, "a quota of %lu bytes for store %u, which has %lu", quota_bytes,
                  clusters->front().number, has << shift);
    }
    const field f{offsetof(cluster_header, quota_pages), quota_bytes >> shift};
    return set(t, page, {&f, 1});
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to read the clusters of a store");
  }
  result<bool> drop_some(tx::open_transaction& t, std::uint64_t page, unsigned clusters_max) noexcept override try {
    if (!nobody_is_left(page)) {
      return fail(errc::busy, "store at offset %lu: a transaction is open that was when it was detached", page);
    }
    access reads{keeper_};
    // Twice: a cluster that was in work may have gone.
    auto clusters = read(page, reads, true);
    if (!clusters) return clusters.error();
    access work{keeper_};
    open_work(*clusters, work);
    if (status s = on_.stores.make_whole(page); !s) return s.error();
    reads.leave_open();
    const geometry g = sizes();
    const std::size_t others = clusters->size() - 1;
    const std::size_t most = std::max<std::size_t>(clusters_max, 1);
    const bool all = others < most;
    const std::size_t freed = std::min(others, most);
    for (std::size_t i = 1; i <= freed; ++i) {
      if (status s = free(t, (*clusters)[i]); !s) return s.error();
    }
    if (all) {
      if (status s = free(t, clusters->front()); !s) return s.error();
      return true;
    }
    const std::uint64_t rest = freed == others ? 0 : g.page_offset((*clusters)[freed + 1].page);
    // The remains of its key-value stores and lock-free structures cannot be walked any more.
    std::array<tx::assigned_bytes, 3> words{assigned(page, {offsetof(cluster_header, head), rest})};
    std::size_t count = 1;
    for (const std::size_t at : {offsetof(cluster_header, key_values), offsetof(cluster_header, structures)}) {
      if (word(page, at) != 0) words[count++] = assigned(page, {at, 0});
    }
    if (status s = t.assign_all(std::span{words}.first(count)); !s) return s.error();
    return false;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to read the clusters of a store");
  }

  // ---- at once ----

  result<open_store*> attach(std::uint64_t page, bool read_only) noexcept override try {
    access reads{keeper_}, work{keeper_};
    if (on_.stores.attached_at(page) != nullptr) return fail(errc::busy, "store at offset %lu is attached", page);
    if (keeper_ != nullptr) {
      const auto clusters = read(page, reads, !read_only);
      if (!clusters) return clusters.error();
      if (!read_only) open_work(*clusters, work);
    }
    const auto s = on_.stores.attach(page, read_only);
    if (!s) return s.error();
    reads.leave_open();
    const std::lock_guard guard{lock_};
    left_.erase(page);
    return *s;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to read the clusters of a store");
  }
  void make_known(open_store& s) noexcept override { on_.stores.make_known(s); }
  status detach(open_store& s, left_open& left) noexcept override try {
    const unsigned lanes = on_.transactions.lanes();
    left.settled = false;
    left.turns.clear();
    left.turns.reserve(lanes);
    for (unsigned lane = 0; lane < lanes; ++lane) left.turns.push_back({lane, on_.transactions.turns_of(lane)});
    const std::uint64_t page = page_of(s);
    const std::lock_guard guard{lock_};
    left_open& kept = left_[page];
    kept.turns.reserve(lanes);
    if (status done = on_.stores.detach(s); !done) {
      left_.erase(page);
      return done;
    }
    // A transaction that is not open after this finds that the store is not attached.
    rights_are_lost();
    on_.transactions.order_turns();
    // One that has ended meanwhile may have done so after everything was settled.
    left.settled = true;
    for (left_open::turn& t : left.turns) {
      const std::uint64_t before = std::exchange(t.number, on_.transactions.turns_of(t.lane));
      left.settled = left.settled && (t.number & 1) == 0 && t.number == before;
    }
    std::erase_if(left.turns, [](const left_open::turn& t) { return (t.number & 1) == 0; });
    kept.turns.assign(left.turns.begin(), left.turns.end());
    if (left.settled) left_.erase(page);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to detach a store");
  }
  bool gone(left_open& left) noexcept override {
    if (left.settled) return true;
    std::erase_if(left.turns, [&](const left_open::turn& t) { return on_.transactions.turns_of(t.lane) != t.number; });
    if (!left.turns.empty()) return false;
    on_.stores.settle_everything();
    return left.settled = true;
  }
  open_store* attached(std::uint64_t page) noexcept override {
    open_store* s = on_.stores.attached_at(page);
    return s != nullptr && page_of(*s) == page ? s : nullptr;
  }
  std::uint64_t page_of(const open_store& s) const noexcept override { return sizes().page_offset(s.page()); }
  bool is_read_only(const open_store& s) const noexcept override { return s.read_only(); }
  std::uint64_t attachment_of(const open_store& s) const noexcept override { return s.attachment(); }
  open_store* holder(std::uint64_t offset) noexcept override { return on_.stores.attached_at(offset); }
  bool has(open_store& s, std::uint64_t offset, std::uint64_t bytes) noexcept override {
    const geometry g = sizes();
    if (!g.in_data(offset, bytes)) return false;
    const auto c = s.cluster_with(g.page_of(offset));
    return c && bytes <= g.page_offset(c->page) + (c->pages << g.page_shift) - offset;
  }
  std::uint32_t number_at(std::uint64_t offset) noexcept override try {
    if (const open_store* s = on_.stores.attached_at(offset)) return s->number();
    const std::uint64_t at = on_.stores.cluster_holding(offset);
    if (at == 0) return 0;
    access reads{keeper_};
    const auto c = one(at, reads);
    return c ? c->number : 0;
  } catch (const std::bad_alloc&) {
    return 0;
  }

  result<store_facts> facts(std::uint64_t page) noexcept override try {
    access reads{keeper_};
    const auto stays = hold(page);
    const auto clusters = read(page, reads, false);
    if (!clusters) return clusters.error();
    const geometry g = sizes();
    store_facts f{.number = clusters->front().number, .page = page, .clusters = clusters->size()};
    for (const cluster& c : *clusters) f.pages += c.pages;
    const std::uint64_t owner = word(page, offsetof(cluster_header, owner_mode));
    f.rights = {static_cast<std::uint32_t>(owner),
                static_cast<std::uint32_t>(word(page, offsetof(cluster_header, group))),
                static_cast<std::uint32_t>(owner >> 32)};
    f.quota_bytes = word(page, offsetof(cluster_header, quota_pages)) << g.page_shift;
    f.root = word(page, offsetof(cluster_header, root));
    f.key_values = word(page, offsetof(cluster_header, key_values));
    f.structures = word(page, offsetof(cluster_header, structures));
    f.created = word(page, offsetof(cluster_header, created));
    if (status s = count_objects(*clusters, stays.owns_lock(), f); !s) return s.error();
    return f;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to read the clusters of a store");
  }
  status ranges(std::uint64_t page, const ranges_visitor& visit) noexcept override try {
    const auto stays = hold(page);
    const geometry g = sizes();
    std::vector<cluster> all;
    {
      access reads{keeper_};
      auto clusters = read(page, reads, false);
      if (!clusters) return clusters.error();
      all = std::move(*clusters);
    }
    // After they are closed again: a visitor may ask the kernel for each.
    for (const cluster& c : all) visit(g.page_offset(c.page), c.pages << g.page_shift);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to read the clusters of a store");
  }
  void ranges(open_store& s, const ranges_visitor& visit) noexcept override {
    const geometry g = sizes();
    const std::lock_guard guard{s.pages};
    for (const cluster_pages& c : s.clusters()) visit(g.page_offset(c.what().page), c.what().pages << g.page_shift);
  }
  std::shared_lock<writers_first_lock> stay() noexcept override { return on_.stores.stay(); }
  void wait_for_stays() noexcept override { on_.stores.wait_for_stays(); }
  status each_store(const stores_visitor& visit) noexcept override try {
    const geometry g = sizes();
    for (std::uint64_t page = 0; page < g.size_pages;) {
      const std::uint64_t entry = load_word(on_.base, g.entry_offset(page));
      layout::page_entry e;
      if (entry == 0 || entry_fault(entry, page, g, g.size_pages, e) != nullptr) {
        ++page;
        continue;
      }
      if (e.kind == layout::page_kind::cluster) {
        access reads{keeper_};
        const auto c = one(g.page_offset(page), reads);
        if (!c) return c.error();
        if (c->first) visit(g.page_offset(page), c->number);
      }
      page += e.length_pages;
    }
    return {};
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to look for stores");
  }
  status each_object(std::uint64_t page, const object_visitor& visit) noexcept override try {
    access reads{keeper_};
    const auto stays = hold(page);
    const auto clusters = read(page, reads, false);
    if (!clusters) return clusters.error();
    status damaged;
    const status s = each_room(*clusters, [&](std::uint64_t offset, std::uint64_t bytes, layout::object_layout l) {
      if (l != layout::object_layout::typed) return true;
      layout::object_header h;
      std::memcpy(&h, on_.base + offset, sizeof h);
      if (!layout::object_header_holds(h, offset) || layout::object_size(h) > bytes - sizeof h) {
        damaged = fail(errc::corrupt, "object header at offset %lu fails its check: found %016lx", offset,
                       h.size_generation_check);
        return true;
      }
      const auto f = facts_from(h, offset, bytes, false);
      if (!f) {
        damaged = f.error();
        return true;
      }
      return visit(f->payload, f->bytes, f->type);
    });
    return s ? damaged : s;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to read the clusters of a store");
  }
  bool trim(open_store& s) noexcept override { return on_.stores.trim(s); }
  std::uint64_t cluster_holding(std::uint64_t offset) noexcept override { return on_.stores.cluster_holding(offset); }
  structure_pages& pages() noexcept override { return on_.pages; }
  const std::atomic<std::uint64_t>& rights_lost_so_far() const noexcept override {
    return on_.stores.rights_lost_so_far();
  }
  void rights_are_lost() noexcept override { on_.stores.rights_are_lost(); }
  bool is_closed(std::uint64_t offset) noexcept override {
    return keeper_ != nullptr && keeper_->is_closed(offset) && cluster_holding(offset) != 0 &&
           holder(offset) == nullptr;
  }
  void keep_with(store_keeper* keeper) noexcept override {
    keeper_ = keeper;
    on_.stores.tell_pages_to(keeper);
  }

 private:
  // A word of a store page and its content.
  struct field {
    std::size_t at;
    std::uint64_t content;
  };
  static constexpr std::uint64_t mode_max = 0777;
  static constexpr unsigned looks_max = 16;  // at the objects of an attached store, before it counts as damaged

  [[nodiscard]] geometry sizes() const noexcept {
    geometry g = on_.pages.sizes();
    g.size_pages = on_.pages.size_pages();
    return g;
  }
  [[nodiscard]] status check(const store_rights& r, std::uint64_t quota_bytes, std::uint64_t created) const noexcept {
    if (r.mode > mode_max)
      return fail(errc::invalid, "mode of a store: found %o, expected at most %lo", r.mode, mode_max);
    if (quota_bytes != 0 && quota_bytes < sizes().page_bytes()) {
      return fail(errc::invalid, "quota of a store: found %lu bytes, expected at least a page of %lu", quota_bytes,
                  sizes().page_bytes());
    }
    if (created >> 40 != 0)
      return fail(errc::invalid, "creation time of a store: found %lu, expected 40 bits", created);
    return {};
  }
  [[nodiscard]] static std::array<field, 2> rights_of(const store_rights& r) noexcept {
    return {field{offsetof(cluster_header, owner_mode), std::uint64_t{r.owner} | std::uint64_t{r.mode} << 32},
            field{offsetof(cluster_header, group), r.group}};
  }
  // For memory that no other thread knows yet.
  void put(std::uint64_t page, const field& f) noexcept {
    const std::uint64_t sealed = seal_word(f.content, word_seed(page + f.at));
    std::memcpy(on_.base + page + f.at, &sealed, sizeof sealed);
  }
  [[nodiscard]] std::uint64_t word(std::uint64_t page, std::size_t at) const noexcept {
    return load_word(on_.base, page + at) & checked_mask;
  }

  [[nodiscard]] status set(tx::open_transaction& t, std::uint64_t page, std::span<const field> fields) noexcept try {
    access opened{keeper_};
    const auto c = one(page, opened);
    if (!c) return c.error();
    if (!c->first) return fail(errc::corrupt, "cluster at offset %lu is no store page", page);
    opened.open(page, sizes().page_bytes(), true);
    std::vector<tx::assigned_bytes> words;
    words.reserve(fields.size());
    for (const field& f : fields) words.push_back(assigned(page, f));
    status s = t.assign_all(words);
    if (s) opened.leave_open();
    return s;
  } catch (const std::bad_alloc&) {
    return fail(errc::no_memory, "no volatile memory to change a store");
  }
  [[nodiscard]] static tx::assigned_bytes assigned(std::uint64_t page, const field& f) noexcept {
    return {page + f.at, seal_word(f.content, word_seed(page + f.at)), 8};
  }
  [[nodiscard]] status free(tx::open_transaction& t, const cluster& c) noexcept {
    const geometry g = sizes();
    const std::uint64_t at = g.page_offset(c.page);
    if (status s = t.release_cluster(at); !s) return s;
    if (keeper_ != nullptr) keeper_->freed(at, c.pages << g.page_shift);
    return {};
  }
  [[nodiscard]] bool nobody_is_left(std::uint64_t page) noexcept {
    const std::lock_guard guard{lock_};
    const auto at = left_.find(page);
    if (at == left_.end()) return true;
    if (!gone(at->second)) return false;
    left_.erase(at);
    return true;
  }

  // May throw std::bad_alloc.
  [[nodiscard]] result<cluster> one(std::uint64_t offset, access& reads) {
    const geometry g = sizes();
    if (!g.in_data(offset, g.page_bytes()) || (offset - g.data_offset) % g.page_bytes() != 0) {
      return fail(errc::corrupt, "offset %lu of a store is no page of the pool", offset);
    }
    const cluster_reading about = [&](std::uint64_t at, std::uint64_t bytes) { reads.open(at, bytes, false); };
    return cluster_at(on_.base, g, g.page_of(offset), keeper_ == nullptr ? nullptr : &about);
  }
  [[nodiscard]] result<std::vector<cluster>> read(std::uint64_t page, access& reads, bool writes) noexcept {
    const cluster_reading about = [&](std::uint64_t at, std::uint64_t bytes) { reads.open(at, bytes, writes); };
    return clusters_of(on_.base, sizes(), page, keeper_ == nullptr ? nullptr : &about);
  }
  // A cluster that a process has left half done is in no list.  attach() and make_whole() look at its header and give
  // its pages back: these are accessible from before that on, for whoever gets them.  `work` lives as long as the look:
  // the header may be another store's.
  void open_work(const std::vector<cluster>& clusters, access& work) noexcept try {
    const geometry g = sizes();
    const cluster& first = clusters.front();
    const std::uint64_t at = word(g.page_offset(first.page), offsetof(cluster_header, in_work));
    if (keeper_ == nullptr || at == 0 || !g.in_data(at, g.page_bytes())) return;
    const std::uint64_t page = g.page_of(at);
    layout::page_entry e;
    if (entry_fault(load_word(on_.base, g.entry_offset(page)), page, g, g.size_pages, e) != nullptr ||
        e.kind != layout::page_kind::cluster ||
        std::any_of(clusters.begin(), clusters.end(), [&](const cluster& c) { return c.page == page; })) {
      return;
    }
    // The place may have been taken out since, and be another store's.
    const auto c = one(g.page_offset(page), work);
    if (c && c->number == first.number && !c->first) work.freed(g.page_offset(page), c->pages << g.page_shift);
  } catch (const std::bad_alloc&) {
    return;
  }
  // While the result lives no other thread changes which clusters an attached store has, or how long they are.  For one
  // that is not attached it holds nothing: no other thread changes that.
  [[nodiscard]] std::unique_lock<std::mutex> hold(std::uint64_t page) noexcept {
    open_store* const s = attached(page);
    return s == nullptr ? std::unique_lock<std::mutex>{} : std::unique_lock{s->growing};
  }
  // `changing`: other threads may allocate and free there meanwhile.  What looks damaged then may be an extent that has
  // become free, and is looked at again.
  [[nodiscard]] status count_objects(const std::vector<cluster>& clusters, bool changing, store_facts& f) noexcept {
    status s;
    for (unsigned left = changing ? looks_max : 1; left != 0; --left) {
      f.objects = f.used_bytes = 0;
      s = each_room(clusters, [&](std::uint64_t, std::uint64_t bytes, layout::object_layout) {
        ++f.objects;
        f.used_bytes += bytes;
        return true;
      });
      if (s) break;
    }
    return s;
  }
  // Calls visit(offset, bytes, layout) for each object, until it says false.  errc::corrupt names the first damage.
  template <class Visit>
  [[nodiscard]] status each_room(const std::vector<cluster>& clusters, Visit&& visit) noexcept {
    const geometry g = sizes();
    status outcome;
    for (const cluster& c : clusters) {
      bool go_on = true;
      const status s = for_each_object(on_.base, g, c.page, c.page + 1,
                                       [&](std::uint64_t offset, std::uint64_t bytes, layout::object_layout l) {
                                         return go_on = visit(offset, bytes, l);
                                       });
      if (outcome && !s) outcome = s;
      if (!go_on) break;
    }
    return outcome;
  }

  const stores_ground on_;
  store_keeper* keeper_ = nullptr;
  std::mutex lock_;
  std::map<std::uint64_t, left_open> left_;  // by store page: of stores that were detached
};

}  // namespace

std::unique_ptr<store_side> make_store_side(const stores_ground& ground) {
  return std::make_unique<pool_stores>(ground);
}

}  // namespace nvm::engines
