#include "kv_player.hpp"

#include <sys/types.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "base/plant.hpp"
#include "nvm/region.h"
#include "nvm/stm.h"
#include "space/space.hpp"

namespace {
// The random numbers of the library, so that a run can be repeated.
std::mt19937_64 chance;
// Pools of stores have regions.
[[maybe_unused]] const bool have_regions = [] {
  nvm::tests::make_regions<nvm::any_direct> = &nvm::engines::make_region_side<nvm::any_direct>;
  nvm::tests::make_regions<nvm::any_image> = &nvm::engines::make_region_side<nvm::any_image>;
  return true;
}();
}  // namespace

extern "C" ssize_t __wrap_getrandom(void* to, std::size_t bytes, unsigned);
extern "C" ssize_t __wrap_getrandom(void* to, std::size_t bytes, unsigned) {
  for (std::size_t i = 0; i < bytes; ++i) static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(chance());
  return static_cast<ssize_t>(bytes);
}

namespace nvm::tests {
namespace {

using explore::fault;
using explore::machine;
using explore::pass;
using explore::verdict;
using explore::window;

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "story of stores: %s failed: %s\n", what, nvm_errormsg());
  std::abort();
}

// Everything that a store holds, as the library says.
std::map<std::string, std::string> entries_of(nvm_kv* kv) {
  std::map<std::string, std::string> all;
  const int ended = nvm_kv_scan(
      kv, nullptr,
      [](const nvm_kv_entry* e, void* to) {
        static_cast<decltype(all)*>(to)->emplace(std::string(static_cast<const char*>(e->key), e->key_bytes),
                                                 std::string(static_cast<const char*>(e->value), e->value_bytes));
        return 0;
      },
      &all);
  must(ended == 0, "a scan");
  return all;
}

constexpr const char* home_name = "the home of stores";
nvm_kv* open_in(NVM_POOL* pool, nvm_store* home, const std::string& name, const nvm_kv_options* o = nullptr) {
  return home == nullptr ? nvm_kv_open(pool, name.c_str(), o) : nvm_kv_open_in(home, name.c_str(), o);
}

}  // namespace

kv_player::kv_player(machine& m, explore::digest_history& history, kind_of_medium kind, kv_home where)
    : machine_{m}, history_{history}, kind_{kind}, where_{where} {
  kv_contents found = read_stores(m.base(), m.size());
  must(found.fault.empty(), found.fault.c_str());
  model_ = std::move(found.stores);
  history_.clear();
  history_.state(digest_of(model_));
  start();
}
kv_player::~kv_player() = default;

// Opening a store changes nothing, unless a drop is to be finished.
void kv_player::start() {
  pool_ = open_whole(machine_, kind_);
  must(pool_ != nullptr, last_message());
  if (where_ == kv_home::object_store) {
    home_ = nvm_store_attach(pool(), home_name, NVM_STORE_CREATE);
    must(home_ != nullptr, "attaching an object store");
  }
  open_all();
}
void kv_player::open_all() {
  open_.clear();
  for (const auto& [name, s] : model_) {
    nvm_kv* kv = open_in(pool(), home_, name);
    must(kv != nullptr, "opening a store");
    open_[name] = kv;
  }
}
void kv_player::close_all() {
  for (const auto& [name, kv] : open_) must(nvm_kv_close(kv) == 0, "closing a store");
  open_.clear();
}

void kv_player::detach() {
  must(nvm_store_detach(home_) == -1 && nvm_errno() == NVM_E_BUSY, "refusing to detach what has open stores");
  close_all();
  must(nvm_store_detach(home_) == 0, "detaching");
  home_ = nvm_store_attach(pool(), home_name, 0);
  must(home_ != nullptr, "attaching again");
  open_all();
}
void kv_player::delete_home() {
  close_all();
  must(nvm_store_detach(home_) == 0, "detaching");
  home_ = nullptr;
  operation([&] {
    must(nvm_store_delete(pool(), home_name) == 0, "deleting an object store");
    model_.clear();
  });
}
void kv_player::make_home() {
  home_ = nvm_store_attach(pool(), home_name, NVM_STORE_CREATE);
  must(home_ != nullptr, "making an object store");
}

template <class F>
void kv_player::operation(F&& f) {
  machine_.op_begin();
  f();
  history_.state(digest_of(model_));
  machine_.op_end();
}

void kv_player::open(const std::string& store, enum nvm_kv_index index) {
  operation([&] {
    nvm_kv_options o{};
    o.index = index;
    nvm_kv* kv = open_in(pool(), home_, store, &o);
    must(kv != nullptr, "opening a store");
    open_[store] = kv;
    model_[store].index = static_cast<layout::kv_index>(index);
  });
}

void kv_player::apply(const change& c) {
  auto& entries = model_.at(c.store).entries;
  if (c.removes) {
    entries.erase(c.key);
  } else {
    entries[c.key] = c.value;
  }
}

void kv_player::put(const std::string& store, const std::string& key, const std::string& value) {
  operation([&] {
    must(nvm_kv_put(handle(store), key.data(), key.size(), value.data(), value.size()) == 0, "a put");
    apply({store, key, value});
  });
}

void kv_player::remove(const std::string& store, const std::string& key) {
  operation([&] {
    must(nvm_kv_remove(handle(store), key.data(), key.size()) == 1, "a removal");
    apply({store, key, "", true});
  });
}

void kv_player::update(const std::string& store, const std::string& key, std::size_t from, std::size_t bytes,
                       char with) {
  struct edit {
    std::size_t from, bytes;
    char with;
  } e{from, bytes, with};
  operation([&] {
    const int done = nvm_kv_update(
        handle(store), key.data(), key.size(), 0,
        [](void* value, std::size_t*, std::size_t, void* raw) {
          const auto* edit_of = static_cast<const edit*>(raw);
          std::memset(static_cast<char*>(value) + edit_of->from, edit_of->with, edit_of->bytes);
          return 0;
        },
        &e);
    must(done == 1, "an update");
    model_.at(store).entries.at(key).replace(from, bytes, bytes, with);
  });
}

std::vector<nvm_kv_operation> kv_player::calls(const std::vector<change>& changes) {
  std::vector<nvm_kv_operation> all;
  for (const change& c : changes) {
    nvm_kv_operation o{};
    o.kv = handle(c.store);
    o.kind = c.removes ? NVM_KV_REMOVE : NVM_KV_PUT;
    o.key = c.key.data();
    o.key_bytes = c.key.size();
    o.value = c.value.data();
    o.value_bytes = c.removes ? 0 : c.value.size();
    all.push_back(o);
  }
  return all;
}

bool kv_player::batch(const std::vector<change>& changes) {
  const auto list = calls(changes);
  bool done = false;
  operation([&] {
    done = nvm_kv_batch(pool(), list.data(), list.size(), nullptr) == 0;
    must(done || nvm_errno() == NVM_E_NO_SPACE, "a batch");
    if (!done) return;
    for (const change& c : changes) apply(c);
  });
  return done;
}

void kv_player::transaction(const std::vector<change>& changes, bool commits) {
  struct closure {
    std::vector<nvm_kv_operation> list;
    bool commits;
  } c{calls(changes), commits};
  operation([&] {
    const int ended = nvm_stm_run(
        pool(),
        [](nvm_stm*, void* raw) {
          const auto* all = static_cast<const closure*>(raw);
          for (const nvm_kv_operation& o : all->list) {
            const int code = o.kind == NVM_KV_PUT ? nvm_kv_put(o.kv, o.key, o.key_bytes, o.value, o.value_bytes)
                                                  : nvm_kv_remove(o.kv, o.key, o.key_bytes);
            if (code < 0) return 1;
            // What is there already: a level of its own, which fails and takes nothing of the others along.
            if (o.kind == NVM_KV_PUT && (nvm_kv_put_with(o.kv, o.key, o.key_bytes, "", 0, NVM_KV_PUT_ABSENT) == 0 ||
                                         nvm_errno() != NVM_E_EXISTS)) {
              return 2;
            }
          }
          return all->commits ? 0 : 3;
        },
        &c);
    must(ended == (commits ? 0 : 3), "a transaction of the program");
    if (!commits) return;
    for (const change& e : changes) apply(e);
  });
}

void kv_player::drop(const std::string& store) {
  must(nvm_kv_close(handle(store)) == 0, "closing a store");
  open_.erase(store);
  operation([&] {
    must((home_ == nullptr ? nvm_kv_drop(pool(), store.c_str()) : nvm_kv_drop_in(home_, store.c_str())) == 0, "a drop");
    model_.erase(store);
  });
}

void kv_player::rename(const std::string& store, const std::string& new_name) {
  for (const std::string& name : {store, new_name}) {
    if (open_.contains(name)) must(nvm_kv_close(handle(name)) == 0, "closing a store");
    open_.erase(name);
  }
  operation([&] {
    const int code = home_ == nullptr ? nvm_kv_rename(pool(), store.c_str(), new_name.c_str())
                                      : nvm_kv_rename_in(home_, store.c_str(), new_name.c_str());
    must(code == 0, "a renaming");
    model_[new_name] = std::move(model_.at(store));
    model_.erase(store);
  });
  open_[new_name] = open_in(pool(), home_, new_name);
  must(open_[new_name] != nullptr, "opening a store");
}

void kv_player::look() {
  if (planted_bug != plant::none) return;  // the explorer is to find it
  for (const auto& [name, s] : model_) {
    must(entries_of(handle(name)) == s.entries, "finding what is there");
    nvm_kv_statistics figures{};
    must(nvm_kv_get_statistics(handle(name), &figures) == 0 && figures.entries == s.entries.size(), "the figures");
    for (const auto& [key, value] : s.entries) {
      std::string got(value.size() + 1, '\0');
      std::size_t bytes = 0;
      must(nvm_kv_get(handle(name), key.data(), key.size(), got.data(), got.size(), &bytes) == 1, "a get");
      got.resize(bytes);
      must(got == value, "a value");
    }
  }
}

void kv_player::checkpoint() { must(pool_->checkpoint().has_value(), "a checkpoint"); }
void kv_player::close() {
  operation([&] { must(pool_->close().has_value(), "closing"); });
}
void kv_player::reopen() {
  pool_.reset();
  // A drop that it finishes is no operation: the stores stay as they are.
  start();
}

void kv_player::on_another_thread(const std::function<void()>& f) {
  machine_.detach();
  std::thread([&] {
    machine_.attach();
    machine_.thread(1);
    f();
    machine_.thread(0);
    machine_.detach();
  }).join();
  machine_.attach();
}

// ---- subjects ------------------------------------------------------------------------------------------------------

namespace {

// Those of a pool are recovered when they are first asked for.
verdict recover_regions(machine& m, kind_of_medium kind) {
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return fault(last_message());
  if ((sb->features_incompat & layout::feature_regions) == 0) return pass();
  const auto pool = open_whole(m, kind);
  if (pool == nullptr) return fault(last_message());
  if (nvm_regions_names(pool->handle(), [](const char*, std::uint64_t, void*) { return 0; }, nullptr) != 0) {
    return fault(nvm_errormsg());
  }
  if (is_image(kind) && !pool->close()) return fault(last_message());
  return pass();
}

// Life goes on in every store: what is there is found, more comes and goes, and a new store beside them.
verdict live_on(machine& m, kind_of_medium kind, kv_home where, const std::map<std::string, kv_store_contents>& there) {
  const auto pool = open_whole(m, kind);
  if (pool == nullptr) return fault(last_message());
  const auto failed = [](const std::string& where) { return fault("working on, " + where + ": " + nvm_errormsg()); };
  const auto full = [] { return nvm_errno() == NVM_E_NO_SPACE; };
  nvm_store* home = nullptr;
  if (where == kv_home::object_store) home = nvm_store_attach(pool->handle(), home_name, NVM_STORE_CREATE);
  if (where == kv_home::object_store && home == nullptr) return full() ? pass() : failed("attaching");
  for (const auto& [name, s] : there) {
    nvm_kv* kv = open_in(pool->handle(), home, name);
    if (kv == nullptr) return failed("opening");
    if (entries_of(kv) != s.entries) return fault("the library finds other entries in " + name);
    nvm_kv_statistics figures{};
    if (nvm_kv_get_statistics(kv, &figures) != 0) return failed("the library's own check");
    for (std::uint64_t i = 0; i < 3; ++i) {
      const std::uint64_t key = 0xFEED'0000 + i * 0x1'0000'0001;
      if (nvm_kv_put(kv, &key, sizeof key, "more", 4) != 0) {
        if (full()) continue;
        return failed("a put");
      }
      if (nvm_kv_remove(kv, &key, sizeof key) != 1 && !full()) return failed("a removal");
    }
    if (entries_of(kv) != s.entries) return fault("entries of " + name + " changed while others came and went");
    if (nvm_kv_close(kv) != 0) return failed("closing");
  }
  if (!pool->close()) return fault(last_message());
  return pass();
}

}  // namespace

explore::subject kv_subject_from(kind_of_medium kind, std::string name, kv_steps steps, std::vector<std::byte> image,
                                 kv_home where) {
  auto history = std::make_shared<explore::digest_history>();
  explore::subject s;
  s.name = std::move(name);
  s.image = std::move(image);
  if (!is_image(kind)) s.at = place_of_whole_pools();
  s.run = [steps = std::move(steps), history, kind, where](machine& m) {
    kv_player p{m, *history, kind, where};
    steps(p);
  };
  s.recover = [kind](machine& m) -> verdict {
    if (!recover_image(m, kind)) return fault(last_message());
    return recover_regions(m, kind);
  };
  s.oracle = [history](machine& m, const window& w) -> verdict {
    const kv_contents found = read_stores(m.base(), m.size());
    if (!found.fault.empty()) return fault(found.fault);
    return history->check(digest_of(found.stores), w);
  };
  s.after = [kind, where](machine& m, const window&) {
    return live_on(m, kind, where, read_stores(m.base(), m.size()).stores);
  };
  return s;
}

std::vector<std::byte> kv_image_after(kind_of_medium kind, const crash_shape& shape, const kv_steps& steps,
                                      std::uint64_t seed, kv_home where) {
  chance.seed(seed);
  const std::vector<std::byte> fresh = new_image(shape, kind);
  machine m(fresh.size(), is_image(kind) ? nullptr : place_of_whole_pools());
  std::memcpy(m.base(), fresh.data(), fresh.size());
  explore::digest_history history;
  kv_player p{m, history, kind, where};
  steps(p);
  p.close();
  return {m.base(), m.base() + m.size()};
}

}  // namespace nvm::tests
