// A name proves itself: records of the directory have sums that no other store's have, since its seed is 0 and theirs
// are not.
#include "care/mend_directory.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "kv/readable.hpp"
#include "nvm/nvm.h"

namespace nvm::care {
namespace {

constexpr keyed::store_facts directory_facts{keyed::kv_index::btree, 0, true};

class directory_mender {
 public:
  directory_mender(keyed::stores& all, const std::vector<object_of_stores>& objects, const told_notes& tell)
      : all_{all}, tell_{tell} {
    for (const object_of_stores& o : objects) {
      if (o.type == layout::kv_type_header && o.bytes >= sizeof(layout::kv_header)) headers_.insert(o.place);
      if (o.type == layout::kv_type_record) records_.push_back(o.place);
    }
  }

  status run() {
    if (headers_.empty()) return {};
    bool sound = false;
    if (status s = read(sound); !s || sound) return s;
    name_the_others();
    if (status s = make_anew(); !s) return s;
    note(mending::mended, place_, "made anew, with " + std::to_string(names_.size()) + " names");
    return {};
  }

 private:
  void note(mending how, std::uint64_t at, const std::string& what) const {
    tell_(note_of(how, at, "directory of key-value stores" + keyed::place_name(all_) + ": " + what));
  }

  // Reads records that links lead to, and all others that could be the directory's.
  status read(bool& sound) {
    return keyed::run(all_.pool, [&](nvm_stm* tx) -> status {
      names_.clear();
      named_.clear();
      own_records_.clear();
      faults_.clear();
      unproved_.clear();
      const auto named = keyed::directory_place(tx, all_);
      old_ = named ? *named : 0;
      keyed::store any{all_.bytes, old_ == 0 ? *headers_.begin() : old_, directory_facts, {}};
      keyed::operation op{tx, any};
      keyed::read_by_transaction from{op};
      status s;
      if (old_ != 0) s = walk(from);
      sound = s && old_ != 0 && faults_.empty() && all_.directory != nullptr;
      if (!s || sound) return s;
      keyed::inspection own;
      own.tell = [](const keyed::fault&) { return true; };
      own.wants_values = true;
      own.begin(from, directory_facts);
      for (const std::uint64_t place : records_) {
        if (!own.read_record(place)) continue;
        add(own.key(), own.value());
        own_records_.insert(place);
      }
      find_old(from);
      return {};
    });
  }
  status walk(keyed::byte_source& from) {
    keyed::inspection names;
    names.wants_values = true;
    names.tell = [&](const keyed::fault& f) {
      faults_.emplace_back(f.what, f.place);
      if (f.has_key && names.key().size() <= layout::kv_name_bytes_max && names.value().size() == sizeof old_) {
        unproved_.emplace_back(names.key(), names.value());
      }
      return true;
    };
    names.meet = [&](const keyed::entry_found& e) {
      if (!add(e.key, e.value)) faults_.emplace_back("an entry names no store", e.place);
    };
    const status s = names.run(from, old_);
    if (s.error() == errc::no_memory) return s;
    if (!s || names.facts().index != keyed::kv_index::btree) faults_.emplace_back("its header does not hold", old_);
    return {};
  }
  // False: it names no store.  The first name of a store counts, and the first store of a name.
  bool add(std::string_view name, std::string_view value) {
    std::uint64_t place = 0;
    if (name.empty() || name.size() > layout::kv_name_bytes_max || value.size() != sizeof place) return false;
    std::memcpy(&place, value.data(), sizeof place);
    if (!headers_.contains(place) || place == old_) return false;
    const auto known = names_.find(std::string{name});
    if (known != names_.end()) return known->second == place;
    if (!named_.insert(place).second) return false;
    names_.emplace(name, place);
    return true;
  }
  // The header of the directory is no store's, whether the anchor leads there or not.
  void find_old(keyed::byte_source& from) {
    directories_ = {old_};
    for (const std::uint64_t place : headers_) {
      layout::kv_header header{};
      keyed::store_facts facts;
      const bool holds = from.read(place, &header, sizeof header) && keyed::check_header(header, place, facts);
      const bool is_one = holds ? facts.seed == 0 : leads_to_names(from, header.root);
      if (is_one && !named_.contains(place)) directories_.insert(place);
    }
  }
  // Whether the first leaf of a tree has records of the directory.
  [[nodiscard]] bool leads_to_names(keyed::byte_source& from, std::uint64_t node) const {
    for (unsigned level = 0; level < layout::tree_levels_max; ++level) {
      layout::leaf leaf{};
      layout::inner inner{};
      if (!from.read(node, &leaf, sizeof leaf)) return false;
      if (layout::unpack_meta(leaf.meta).kind == layout::node_kind::leaf) {
        return std::any_of(std::begin(leaf.slots), std::end(leaf.slots), [&](const layout::leaf_slot& slot) {
          return own_records_.contains(layout::place_of(slot.record));
        });
      }
      if (!from.read(node, &inner, sizeof inner)) return false;
      node = inner.children[0];
    }
    return false;
  }

  void name_the_others() {
    for (const auto& [what, place] : faults_) note(mending::mended, place, what);
    // Records that links lead to, of which the name, the place or the sum is damaged.
    for (const auto& [name, value] : unproved_) {
      std::uint64_t place = 0;
      if (name.find('\0') != std::string::npos || names_.contains(name) || !add(name, value)) continue;
      std::memcpy(&place, value.data(), sizeof place);
      const keyed::readable as_it_stands{name.data(), name.size()};
      note(mending::kept, place, std::string{"the name of a store, as it stands: \""} + as_it_stands.text + "\"");
    }
    unsigned n = 0;
    for (const std::uint64_t place : headers_) {
      if (named_.contains(place) || directories_.contains(place)) continue;
      std::string name;
      do {
        name = "lost-" + std::to_string(++n);
      } while (names_.contains(name));
      names_.emplace(name, place);
      note(mending::lost, place, "the name of a store, which is \"" + name + "\" from now on");
    }
  }

  status make_anew() {
    if (status made = keyed::make_directory(all_, place_); !made) return made;
    all_.directory = std::make_unique<nvm_kv>(all_, place_, directory_facts, std::string{});
    all_.directory->store.handles.store(1, std::memory_order_relaxed);
    for (const auto& [name, place] : names_) {
      const status s = keyed::run_on(*all_.directory, [&](keyed::operation& op) {
        return keyed::put(op, keyed::key_of(name), {reinterpret_cast<const std::byte*>(&place), sizeof place}, 0);
      });
      if (!s) return s;
    }
    return {};
  }

  keyed::stores& all_;
  const told_notes& tell_;
  std::set<std::uint64_t> headers_;
  std::vector<std::uint64_t> records_;
  std::map<std::string, std::uint64_t> names_;
  std::set<std::uint64_t> named_;
  std::set<std::uint64_t> directories_;
  std::set<std::uint64_t> own_records_;
  std::vector<std::pair<const char*, std::uint64_t>> faults_;
  std::vector<std::pair<std::string, std::string>> unproved_;  // names and values of records that links lead to
  std::uint64_t old_ = 0;                                      // place of the header that the anchor names; 0: none
  std::uint64_t place_ = 0;                                    // of the new one
};

}  // namespace

status mend_directory(keyed::stores& all, const std::vector<object_of_stores>& objects, const told_notes& tell) {
  return directory_mender{all, objects, tell}.run();
}

}  // namespace nvm::care
