// Order.  The directory (mend_directory.cpp); look at every store; read the readable parts of damaged ones; take their
// names out of the directory; free objects that no sound store leads to; put the entries into new stores; give these
// the names.  Freeing comes before putting, so that a full pool has room.
#include "care/mend_stores.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "care/mend_directory.hpp"
#include "kv/open_stores.hpp"
#include "kv/readable.hpp"
#include "nvm/nvm.h"
#include "nvm/store_kv.h"

namespace nvm::care {
namespace {

constexpr const char* new_name = "\x01made anew";  // until it has the name of the damaged one

struct closes_pool {
  void operator()(NVM_POOL* pool) const noexcept { (void)nvm_pool_close(pool); }
};

// Notes where something was read.
class noting_source final : public keyed::byte_source {
 public:
  noting_source(keyed::byte_source& from, std::set<std::uint64_t>& places) noexcept : from_{from}, places_{places} {}
  bool read(std::uint64_t place, void* to, std::uint64_t bytes) override {
    if (!from_.read(place, to, bytes)) return false;
    places_.insert(place);
    return true;
  }
  std::uint64_t objects_max() override { return from_.objects_max(); }

 private:
  keyed::byte_source& from_;
  std::set<std::uint64_t>& places_;
};

// Segments without a bucket in use are led to as well.
void note_segments(keyed::byte_source& from, std::uint64_t header_place) {
  layout::kv_header header{};
  if (!from.read(header_place, &header, sizeof header)) return;
  for (unsigned k = 0; k < layout::segment_lists; ++k) {
    const std::uint64_t list = header.segments[k];
    const std::uint64_t count = k == 0 ? 1 : std::uint64_t{1} << (k - 1);
    for (std::uint64_t i = 0; list != 0 && i < count; ++i) {
      std::uint64_t segment = list;
      if (k != 0 && !from.read(list + 8 * i, &segment, sizeof segment)) break;
      std::uint64_t number = 0;
      if (segment != 0) (void)from.read(segment, &number, sizeof number);
    }
  }
}

struct entry {
  std::string key, value;
};
struct fault_told {
  std::string what;
  std::uint64_t place = 0;
  bool has_key = false;
  std::string key{};
};
struct damaged_store {
  std::string name;
  std::uint64_t header = 0;
  keyed::store_facts facts{};
  std::uint64_t counted = 0;  // entries, as its header says
  std::uint64_t unproved = 0;
  bool is_unknown = false;  // its index is unknown
  std::vector<entry> entries{};
  std::vector<fault_told> faults{};
};

// Number of the object store whose pages have the place; 0: none's.
std::uint32_t home_of(NVM_POOL* pool, std::uint64_t place) noexcept {
  const auto side = pool->engine->stores();
  return side ? (*side)->number_at(place) : 0;
}

class store_mender {
 public:
  // For stores in an attached object store; nullptr: for the pool's own.
  store_mender(NVM_POOL* pool, nvm_store* home, const told_notes& tell) : pool_{pool}, home_{home}, tell_{tell} {}

  status run() {
    // Its answer does not matter: it opens the directory, if that can be opened.
    nvm_kv_options existing{};
    existing.mode = NVM_KV_OPEN_ONLY;
    if (nvm_kv* const left = open(existing); left != nullptr) (void)nvm_kv_close(left);
    all_ =
        static_cast<keyed::stores*>(home_ == nullptr ? pool_->stores.get() : home_->kept(api::contents_of::key_values));
    if (all_ == nullptr) return last_code();
    if (status s = list_objects(); !s) return s;
    if (status s = mend_directory(*all_, objects_, tell_); !s || all_->directory == nullptr) return s;
    if (status s = look_at_all(); !s) return s;
    for (damaged_store& d : damaged_) {
      if (status s = is_dropped(d) ? status{} : read(d); !s) return s;
    }
    for (const damaged_store& d : damaged_) {
      if (status s = forget_name(d.name); !s) return s;
    }
    if (status s = free_unreached(); !s) return s;
    for (const damaged_store& d : damaged_) {
      if (is_dropped(d)) continue;
      if (status s = d.is_unknown ? status{} : make_anew(d); !s) return s;
      tell(d);
    }
    for (const auto& [name, facts] : of_regions_) {
      if (status s = mend_entries(name, facts); !s) return s;
    }
    return {};
  }

 private:
  using object = object_of_stores;
  // Its drop could not come to its end: all that is left of it is room.
  [[nodiscard]] static bool is_dropped(const damaged_store& d) { return d.name == keyed::dropped_name(d.header); }
  [[nodiscard]] nvm_kv* open(const nvm_kv_options& how) {
    return home_ == nullptr ? nvm_kv_open(pool_, new_name, &how) : nvm_kv_open_in(home_, new_name, &how);
  }
  [[nodiscard]] int give_name(const std::string& name) {
    return home_ == nullptr ? nvm_kv_rename(pool_, new_name, name.c_str())
                            : nvm_kv_rename_in(home_, new_name, name.c_str());
  }
  // Objects of stores.
  status list_objects() {
    const auto add = [](void* payload, std::uint32_t type, std::size_t bytes, void* raw) {
      auto& in = *static_cast<store_mender*>(raw);
      if (type < layout::kv_type_header || type > layout::kv_type_separator) return 0;
      const auto place = static_cast<std::uint64_t>(static_cast<std::byte*>(payload) - in.all_->bytes.base);
      if (home_of(in.pool_, place) != (in.home_ == nullptr ? 0 : in.home_->number)) return 0;
      in.objects_.push_back({place, bytes, type});
      return 0;
    };
    return nvm_pool_each(pool_, add, this) == 0 ? status{} : status{last_code()};
  }

  // Walks the store of that header, and notes its objects; false: something is not as it must be.
  bool is_sound(keyed::byte_source& from, std::uint64_t header, keyed::inspection& walk, status& s) {
    std::set<std::uint64_t> places;
    noting_source noting{from, places};
    bool sound = true;
    walk.tell = [&sound](const keyed::fault&) { return sound = false; };
    const status walked = walk.run(noting, header);
    if (walked.error() == errc::no_memory) s = walked;
    sound = sound && walked;
    if (!sound) return false;
    if (walk.facts().index == keyed::kv_index::hash) note_segments(noting, header);
    reached_.merge(places);
    return true;
  }
  status look_at_all() {
    return keyed::run_on(*all_->directory, [&](keyed::operation& op) -> status {
      keyed::read_by_transaction from{op};
      std::vector<std::pair<std::string, std::uint64_t>> named;
      reached_.clear();
      damaged_.clear();
      of_regions_.clear();
      status s;
      keyed::inspection names;
      names.wants_values = true;
      names.meet = [&](const keyed::entry_found& e) {
        std::uint64_t place = 0;
        if (e.value.size() != sizeof place) return;
        std::memcpy(&place, e.value.data(), sizeof place);
        named.emplace_back(e.key, place);
      };
      if (!is_sound(from, op.of.header_place, names, s)) {
        return s ? status{fail(errc::corrupt, "the directory of key-value stores is damaged")} : s;
      }
      for (const auto& [name, place] : named) {
        keyed::inspection walk;
        if (!is_sound(from, place, walk, s)) damaged_.push_back({.name = name, .header = place});
        if (!s) return s;
        if (walk.header_holds() && walk.facts().index == keyed::kv_index::regions) {
          of_regions_.emplace_back(name, walk.facts());
        }
      }
      return {};
    });
  }

  status read(damaged_store& d) {
    return keyed::run_on(*all_->directory, [&](keyed::operation& op) -> status {
      d = {.name = d.name, .header = d.header};
      keyed::read_by_transaction from{op};
      const keyed::object_source source{from,
                                        [this](const auto& visit) {
                                          for (const object& o : objects_) visit(o.place, o.type, o.bytes);
                                        },
                                        [this](const keyed::store_facts& facts, const keyed::lewat::rest_report& each) {
                                          return read_regions(facts, each);
                                        }};
      std::unordered_set<std::string> known;
      const keyed::salvage_report report{
          [&](const keyed::salvaged& e) {
            if (!known.insert(std::string{e.key}).second) return;
            d.entries.push_back({std::string{e.key}, std::string{e.value}});
            d.unproved += e.how == keyed::proof::none ? 1 : 0;
          },
          [&](const keyed::fault& f) { d.faults.push_back({f.what, f.place, f.has_key, std::string{f.key}}); },
          [&](const keyed::store_facts& facts) { d.facts = facts; }};
      if (status s = keyed::salvage(source, op.of.header_place, d.name, report); !s) return s;
      layout::kv_header header{};
      if (from.read(d.header, &header, sizeof header)) {
        for (const layout::kv_stripe& stripe : header.stripes) d.counted += stripe.entries;
      }
      d.is_unknown = keyed::name_of(d.facts.index) == nullptr;
      // Its header counts nothing.
      if (d.facts.index == keyed::kv_index::regions) d.counted = d.entries.size() + keys_in(d.faults);
      return {};
    });
  }

  status forget_name(const std::string& name) {
    return keyed::run_on(*all_->directory, [&](keyed::operation& op) {
      bool removed = false;
      return keyed::remove(op, keyed::key_of(name), removed);
    });
  }

  [[nodiscard]] bool is_reached(const object& o) const {
    const auto place = reached_.lower_bound(o.place);
    return place != reached_.end() && *place < o.place + o.bytes;
  }
  // `each` for all in batches, each of which is one transaction.
  template <class T, class Each>
  status in_batches(const std::vector<T>& all, Each&& each) {
    constexpr std::size_t batch = 64;
    for (std::size_t first = 0; first < all.size(); first += batch) {
      const status s = keyed::run(pool_, [&](nvm_stm* tx) -> status {
        for (std::size_t i = first; i < std::min(first + batch, all.size()); ++i) {
          if (each(tx, all[i]) != 0) return last_code();
        }
        return {};
      });
      if (!s) return s;
    }
    return {};
  }
  status free_unreached() {
    std::vector<object> free;
    // Forgetting names has changed the directory: it is walked again.
    if (status s = note_directory(); !s) return s;
    objects_.clear();
    if (status s = list_objects(); !s) return s;
    for (const object& o : objects_) {
      if (!is_reached(o)) free.push_back(o);
    }
    return in_batches(free,
                      [this](nvm_stm* tx, const object& o) { return nvm_stm_free(tx, all_->bytes.base + o.place); });
  }
  status note_directory() {
    return keyed::run_on(*all_->directory, [&](keyed::operation& op) -> status {
      keyed::read_by_transaction from{op};
      keyed::inspection names;
      status s;
      if (is_sound(from, op.of.header_place, names, s) || !s) return s;
      return fail(errc::corrupt, "the directory of key-value stores is damaged");
    });
  }

  status make_anew(const damaged_store& d) {
    nvm_kv_options how{};
    how.mode = NVM_KV_CREATE_ONLY;
    how.index = static_cast<std::uint32_t>(d.facts.index);
    how.flags = d.facts.with_sums ? 0 : NVM_KV_NO_CHECKSUMS;
    nvm_kv* const kv = open(how);
    if (kv == nullptr) return last_code();
    const auto put = [kv](nvm_stm*, const entry* e) {
      return nvm_kv_put(kv, e->key.data(), e->key.size(), e->value.data(), e->value.size());
    };
    std::vector<const entry*> order;
    order.reserve(d.entries.size());
    for (const entry& e : d.entries) order.push_back(&e);
    // The newest of a list is the first.
    if (d.facts.index == keyed::kv_index::list) std::reverse(order.begin(), order.end());
    const bool in_regions = d.facts.index == keyed::kv_index::regions;
    for (const entry* e : order) {
      if (in_regions && put(nullptr, e) != 0) return last_code();
    }
    if (status s = in_regions ? keyed::lewat::drop_set(pool_, d.facts.seed) : in_batches(order, put); !s) return s;
    (void)nvm_kv_close(kv);
    return give_name(d.name) == 0 ? status{} : status{last_code()};
  }

  static std::uint64_t keys_in(const std::vector<fault_told>& faults) {
    return static_cast<std::uint64_t>(
        std::count_if(faults.begin(), faults.end(), [](const fault_told& f) { return f.has_key; }));
  }

  status read_regions(const keyed::store_facts& facts, const keyed::lewat::rest_report& each) {
    nvm_regions_options o{};
    o.mode = 1;
    nvm_regions* const set = nvm_regions_open(pool_, keyed::lewat::set_name(facts.seed).c_str(), &o);
    if (set == nullptr) return last_code();
    const auto part = api::part_in(pool_);
    if (!part) return part.error();
    if (status s = keyed::lewat::read_at_rest(*set->of, (*part)->number(), facts, each); !s) return s;
    return nvm_regions_wait(set) == 0 ? status{} : status{last_code()};
  }
  // Takes damaged entries out of the regions of a store.
  status mend_entries(const std::string& name, const keyed::store_facts& facts) {
    const keyed::readable readable{name.data(), name.size()};
    keyed::lewat::rest_report how;
    how.takes_out = true;
    how.lost = [&](const char* what, std::uint64_t rid, bool has_key, std::string_view key) {
      char text[512];
      const keyed::readable entry{key.data(), key.size()};
      std::snprintf(text, sizeof text, "key-value store \"%s\"%s%s%s, in region %016lx: %s: taken out", readable.text,
                    has_key ? ": entry \"" : "", has_key ? entry.text : "", has_key ? "\"" : "", rid, what);
      tell_(note_of(mending::lost, 0, text));
    };
    return read_regions(facts, how);
  }

  void tell(const damaged_store& d) {
    const keyed::readable name{d.name.data(), d.name.size()};
    const notes_about note{tell_, std::string{"key-value store \""} + name.text + "\"" + keyed::place_name(*all_)};
    if (d.is_unknown) return note(mending::lost, d.header, ": all of it, for nothing says what its index was");
    const std::uint64_t named = keys_in(d.faults);
    // Damaged links and counters lose nothing if all entries are there.
    const bool all_known = d.entries.size() + named == d.counted;
    note(mending::mended, d.header, ": made anew, with " + std::to_string(d.entries.size()) + " entries");
    if (d.unproved != 0 && d.facts.with_sums) {
      note(mending::kept, d.header, ": nothing proves its " + std::to_string(d.unproved) + " entries");
    }
    for (const fault_told& f : d.faults) {
      const keyed::readable key{f.key.data(), f.key.size()};
      const std::string entry = f.has_key ? std::string{": entry \""} + key.text + "\"" : std::string{};
      note(f.has_key || !all_known ? mending::lost : mending::mended, f.place, entry + ": " + f.what);
    }
    if (d.entries.size() + named < d.counted) {
      note(mending::lost, d.header,
           ": " + std::to_string(d.counted - d.entries.size() - named) + " entries whose keys cannot be read");
    }
  }

  NVM_POOL* const pool_;
  nvm_store* const home_;
  const told_notes& tell_;
  keyed::stores* all_ = nullptr;
  std::vector<object> objects_;
  std::set<std::uint64_t> reached_;  // places inside of objects of sound stores
  std::vector<damaged_store> damaged_;
  std::vector<std::pair<std::string, keyed::store_facts>> of_regions_;
};

// Names of the object stores that have anything of a key-value store in them.
std::vector<std::string> homes_in(NVM_POOL* pool) {
  struct list {
    NVM_POOL* pool;
    std::set<std::uint32_t> numbers{};
    std::vector<std::string> names{};
  } found{pool};
  const auto look = [](void* payload, std::uint32_t type, std::size_t, void* raw) {
    auto& in = *static_cast<list*>(raw);
    if (type < layout::kv_type_header || type > layout::kv_type_separator) return 0;
    const auto place = static_cast<std::uint64_t>(static_cast<std::byte*>(payload) - in.pool->base());
    if (const std::uint32_t number = home_of(in.pool, place); number != 0) in.numbers.insert(number);
    return 0;
  };
  (void)nvm_pool_each(pool, look, &found);
  if (found.numbers.empty()) return {};
  const auto name = [](const nvm_store_info* info, void* raw) {
    auto& in = *static_cast<list*>(raw);
    if (in.numbers.contains(info->number)) in.names.emplace_back(info->name);
    return 0;
  };
  (void)nvm_store_list(pool, nullptr, name, &found);
  return std::move(found.names);
}

}  // namespace

status mend_stores(const std::string& path, const told_notes& tell) {
  std::unique_ptr<NVM_POOL, closes_pool> pool{nvm_pool_open(path.c_str())};
  if (pool == nullptr) return last_code();
  if (status s = store_mender{pool.get(), nullptr, tell}.run(); !s) return s;
  for (const std::string& name : homes_in(pool.get())) {
    nvm_store* const home = nvm_store_attach(pool.get(), name.c_str(), 0);
    if (home == nullptr) return last_code();
    if (status s = store_mender{pool.get(), home, tell}.run(); !s) return s;
    if (nvm_store_detach(home) != 0) return last_code();
  }
  return nvm_pool_close(pool.release()) == 0 ? status{} : status{last_code()};
}

}  // namespace nvm::care
