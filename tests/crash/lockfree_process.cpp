#include "lockfree_process.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>

#include "image_process.hpp"
#include "lockfree/lockfree.hpp"

namespace nvm::tests {

using explore::machine;
using lockfree::byte_nodes;
using lockfree::node_head;
using lockfree::sealed_bytes;
using lockfree::sealed_words;
using lockfree::word_nodes;

key_bytes bytes_of_key(std::uint64_t key) noexcept {
  key_bytes b{};
  const std::uint64_t first = __builtin_bswap64(key >> 8);
  std::memcpy(b.data(), &first, 8);
  b[8] = static_cast<std::byte>(key);
  return b;
}
std::uint64_t key_of_bytes(const std::byte* from) noexcept {
  std::uint64_t first = 0;
  std::memcpy(&first, from, 8);
  return __builtin_bswap64(first) << 8 | static_cast<std::uint64_t>(from[8]);
}

namespace {

template <class Memory>
using words_list = lockfree::list<Memory, word_nodes>;
template <class Memory>
using bytes_list = lockfree::list<Memory, byte_nodes>;
template <class Memory>
using words_hash = lockfree::hash_table<Memory, word_nodes, lockfree::word_hash>;
template <class Memory>
using bytes_hash = lockfree::hash_table<Memory, byte_nodes, coarse_hash>;
template <class Memory>
using words_skip = lockfree::skip_list<Memory, word_nodes>;
template <class Memory>
using bytes_skip = lockfree::skip_list<Memory, byte_nodes>;
template <class Memory>
using words_tree = lockfree::tree<Memory, word_nodes>;
template <class Memory>
using bytes_tree = lockfree::tree<Memory, byte_nodes>;
// With volatile links.
template <class Memory>
using sealed_words_list = lockfree::list<Memory, sealed_words>;
template <class Memory>
using sealed_bytes_list = lockfree::list<Memory, sealed_bytes>;
template <class Memory>
using sealed_words_hash = lockfree::hash_table<Memory, sealed_words, lockfree::word_hash>;
template <class Memory>
using sealed_bytes_hash = lockfree::hash_table<Memory, sealed_bytes, coarse_hash>;
template <class Memory>
using sealed_words_skip = lockfree::skip_list<Memory, sealed_words>;
template <class Memory>
using sealed_bytes_skip = lockfree::skip_list<Memory, sealed_bytes>;

// One structure with the sessions of all threads.
template <media M>
class attached {
 public:
  using thread = typename lockfree::domain<M>::thread;
  attached() = default;
  attached(const attached&) = delete;
  attached& operator=(const attached&) = delete;
  virtual ~attached() = default;
  virtual lockfree::structure& as_structure() = 0;
  // `had`: entries when the pool was closed, if they were counted.
  virtual status rebuild(std::optional<std::uint64_t> had) = 0;
  virtual std::uint64_t count_linked() = 0;
  virtual result<lockfree::written> write(thread& t, std::uint64_t key, const value_bytes& value,
                                          lockfree::write_rule rule) = 0;
  virtual result<bool> remove(thread& t, std::uint64_t key) = 0;
  virtual std::optional<value_bytes> look_up(thread& t, std::uint64_t key) = 0;
  virtual void end(thread& t) = 0;
  virtual void forget() = 0;
  virtual void fill_up(thread& t) = 0;
  virtual void set_count(std::int64_t n) = 0;
  virtual std::uint64_t count_keys() = 0;
  virtual bool has_deletions() = 0;
  virtual status finish_deletions(thread& t) = 0;
};

template <media M, class Structure, class Nodes>
class attached_as final : public attached<M> {
  static constexpr bool Words = !Nodes::of_bytes;

 public:
  using structure_type = Structure;
  using session = typename structure_type::session;
  using typename attached<M>::thread;

  template <class... Settings>
  attached_as(lockfree::domain<M>& d, const typename lockfree::catalogue<M>::found& f, Settings... settings)
      : in_{d}, it_{d, f, settings...} {}

  lockfree::structure& as_structure() override { return it_; }
  status rebuild(std::optional<std::uint64_t> had) override {
    if constexpr (requires { it_.found_nodes(); }) {
      if (status s = it_.rebuild(1U, had); !s) return s;
      if (had && it_.found_nodes() != *had) {
        return fail(errc::corrupt, "%lu entries, and %lu when the pool was closed", it_.found_nodes(), *had);
      }
    }
    return {};
  }
  std::uint64_t count_linked() override {
    std::uint64_t n = 0;
    (void)it_->check([&](const node_head*) { ++n; });
    return n;
  }
  result<lockfree::written> write(thread& t, std::uint64_t key, const value_bytes& value,
                                  lockfree::write_rule rule) override {
    if constexpr (Words) {
      std::uint64_t word = 0;
      std::memcpy(&word, value.data(), 8);
      return it_->write(of(t), key, word, rule);
    } else {
      const key_bytes k = bytes_of_key(key);
      return it_->write(of(t), std::span{k}, {std::span{value}, 0, true}, rule);
    }
  }
  result<bool> remove(thread& t, std::uint64_t key) override {
    if constexpr (Words) {
      return it_->remove(of(t), key);
    } else {
      const key_bytes k = bytes_of_key(key);
      return it_->remove(of(t), std::span{k});
    }
  }
  std::optional<value_bytes> look_up(thread& t, std::uint64_t key) override {
    std::optional<value_bytes> found;
    if constexpr (Words) {
      (void)it_->look_up(of(t), key, [&](const node_head* n) {
        const std::uint64_t word = Nodes::value_of(n);
        found.emplace(8);
        std::memcpy(found->data(), &word, 8);
      });
    } else {
      const key_bytes k = bytes_of_key(key);
      (void)it_->look_up(of(t), std::span{k}, [&](const node_head* n) {
        const auto v = Nodes::value_of(n);
        found.emplace(v.bytes.begin(), v.bytes.end());
      });
    }
    return found;
  }
  void end(thread& t) override {
    const auto at = sessions_.find(t.number());
    if (at == sessions_.end()) return;
    it_.memory().end(at->second);
    sessions_.erase(at);
  }
  void forget() override { it_.memory().heap().abandon(); }
  void fill_up(thread& t) override {
    if constexpr (requires { it_->bits(); }) {
      of(t).lately = 31;
      it_->set_count(std::int64_t{1} << it_->bits());
    }
  }
  void set_count(std::int64_t n) override {
    if constexpr (requires { it_->set_count(n); }) it_->set_count(n);
  }
  std::uint64_t count_keys() override { return it_.count_keys(); }
  bool has_deletions() override {
    if constexpr (requires { it_.has_deletions(); }) return it_.has_deletions();
    return false;
  }
  status finish_deletions(thread& t) override {
    if constexpr (requires { it_.finish_deletions(t); }) return it_.finish_deletions(t);
    return {};
  }

 private:
  session& of(thread& t) { return sessions_.try_emplace(t.number(), t).first->second; }
  lockfree::domain<M>& in_;
  structure_type it_;
  std::map<unsigned, session> sessions_;
};

template <media M>
class process final : public lockfree_process {
 public:
  process(M& medium, std::byte* base, const layout::superblock& sb, const lockfree_variant& v, std::uint64_t life,
          std::unique_ptr<image_process> image)
      : image_{std::move(image)},
        medium_{medium},
        base_{base},
        variant_{v},
        space_{medium, lanes_, base, geometry_of(sb)},
        seeds_{mix_seed(0x5EED, life)} {}

  // run_as(n): what follows is done by another thread.
  status open(const std::function<void(unsigned)>& run_as) {
    // As after a kill: recovery writes back what it acts on.
    if (variant_.in_store) space_.write_back_map();
    if (status s = space_.boot(0, 1); !s) return s;
    if (variant_.in_store) {
      const auto store = space_.attach(space_.sizes().data_offset, false);
      if (!store) return store.error();
      space_.make_known(**store);
      store_ = *store;
      const auto inside = space_.structures_in(*store_);
      if (!inside) return inside.error();
      pages_ = *inside;
    }
    catalogue_.emplace(medium_, base_, *pages_);
    if (status s = names().open(); !s) return s;
    if (status s = names().check_states(); !s) return s;
    names().free_foreign_pages(recovered_);
    lockfree::domain_settings settings;
    settings.with_link_cache = variant_.link_cache;
    settings.all_at_once = variant_.all_at_once;
    settings.area_shift = names().exists() ? names().area_shift() : variant_.area_shift;
    settings.generation_nodes = variant_.generation_nodes;
    domain_.emplace(medium_, base_, *pages_, settings);
    if (status s = domain_->exists(); !s) return s;
    status attached_all;
    const status read = names().each([&](const found_type& f, std::string_view name) {
      if (status s = attach(f, name); !s) attached_all = s;
    });
    if (!read) return read;
    if (!attached_all) return attached_all;
    // By threads that have nothing else to make durable.
    run_as(3);
    for (auto& [name, s] : structures_) {
      if (status rebuilt = s.it->rebuild(names().tally(s.found)); !rebuilt) return rebuilt;
    }
    run_as(2);
    typename lockfree::catalogue<M>::recovery r;
    const auto of_owner = [&](std::uint16_t owner) -> lockfree::structure* {
      for (auto& [name, s] : structures_) {
        if (s.found.owner == owner) return &s.it->as_structure();
      }
      return nullptr;
    };
    if (status s = names().begin_recovery(r, of_owner, variant_.recovery); !s) return s;
    for (unsigned part = 0; part < 2; ++part) {
      run_as(part);
      names().recover_part(r);
    }
    run_as(2);
    if (status s = names().check_recovery(r); !s) return s;
    return names().end_recovery(r, recovered_, [&] {
      for (auto& [name, s] : structures_) s.keys = s.it->count_keys();
      return finish_deletions();
    });
  }
  std::uint64_t count(std::string_view name) const override {
    const auto at = structures_.find(name);
    return at != structures_.end() ? at->second.keys : counted_.find(name)->second;
  }

  status create(std::string_view name, shape_of_structure shape, unsigned bits) override {
    if (status s = names().need(variant_.area_shift); !s) return s;
    const std::uint64_t flags =
        lockfree::layout::entry_map | lockfree::layout::entry_sums |
        (has_words(shape) ? 0 : lockfree::layout::entry_bytes) |
        (variant_.volatile_links ? lockfree::layout::entry_volatile_links | lockfree::layout::entry_tally : 0);
    const auto made = names().create(name, kind_of(shape), bits, flags, [&](std::uint16_t owner) {
      if (variant_.volatile_links) return make_sealed(owner, bits);
      switch (kind_of(shape)) {
        case lockfree::layout::kind::hash:
          return make_hash(owner, bits);
        case lockfree::layout::kind::skip_list:
          return make_root<words_skip<memory_type>>(owner);
        case lockfree::layout::kind::tree:
          return make_root<words_tree<memory_type>>(owner);
        default:
          return make_root<words_list<memory_type>>(owner);
      }
    });
    if (!made) return made.error();
    if (status s = attach(*made, name); !s) return s;
    return structures_.find(name)->second.it->rebuild(std::nullopt);
  }
  bool has(std::string_view name) const override {
    return structures_.find(name) != structures_.end() || counted_.find(name) != counted_.end();
  }
  status need_directory() override { return names().need(variant_.area_shift); }
  void drop(std::string_view name) override {
    const auto at = structures_.find(name);
    for (auto& t : threads_) {
      if (t != nullptr) at->second.it->end(*t);
    }
    at->second.it->forget();
    names().drop(at->second.found);
    // Its nodes may still wait for being freed.
    dropped_.push_back(std::move(at->second.it));
    structures_.erase(at);
  }

  result<lockfree::written> write(unsigned t, std::string_view name, std::uint64_t key, const value_bytes& value,
                                  lockfree::write_rule rule) override {
    auto w = of(name).write(thread(t), key, value, rule);
    note(t);
    return w;
  }
  result<bool> remove(unsigned t, std::string_view name, std::uint64_t key) override {
    auto r = of(name).remove(thread(t), key);
    note(t);
    return r;
  }
  std::optional<value_bytes> look_up(unsigned t, std::string_view name, std::uint64_t key) override {
    auto found = of(name).look_up(thread(t), key);
    note(t);
    return found;
  }
  void enter(unsigned t, std::string_view) override { thread(t).enter(); }
  void leave(unsigned t, std::string_view) override { thread(t).leave(); }
  void end_thread(unsigned t) override {
    for (auto& [name, s] : structures_) s.it->end(thread(t));
    domain_->leave(thread(t));
    threads_[t] = nullptr;
  }
  void fill_up(unsigned t, std::string_view name) override { of(name).fill_up(thread(t)); }

  void settle() override { domain_->links.settle_all(); }
  status wait() override { return medium_.durable(std::max(lsn_, medium_.last_lsn())); }
  bool has_thread(unsigned t) const noexcept override { return threads_[t] != nullptr; }
  status close(bool counts) override {
    domain_->come_to_rest();
    for (auto& [name, s] : structures_) {
      if (counts) names().set_tally(s.found, s.it->count_linked());
    }
    if (store_ != nullptr) {
      // They refer to its pages.
      for (const auto& [name, one] : structures_) counted_[name] = one.keys;
      structures_.clear();
      dropped_.clear();
      domain_.reset();
      if (status s = space_.detach(*store_); !s) return s;
    }
    if (image_ == nullptr) return {};
    if (status s = wait(); !s) return s;
    return image_->medium->close();
  }
  lockfree::recovery_report recovered() const noexcept override { return recovered_; }

 private:
  [[nodiscard]] lockfree::catalogue<M>& names() noexcept { return *catalogue_; }
  using found_type = typename lockfree::catalogue<M>::found;
  using thread_type = typename lockfree::domain<M>::thread;
  using memory_type = lockfree::node_memory<M>;
  struct member {
    found_type found;
    std::unique_ptr<attached<M>> it;
    std::uint64_t keys = 0;  // when it was opened
  };
  status finish_deletions() {
    if (std::none_of(structures_.begin(), structures_.end(), [](auto& s) { return s.second.it->has_deletions(); })) {
      return {};
    }
    const auto t = domain_->join([&](unsigned number) { return names().table_word(number); });
    if (!t) return t.error();
    for (auto& [name, s] : structures_) {
      if (status done = s.it->finish_deletions(**t); !done) return done;
    }
    domain_->leave(**t);
    domain_->come_to_rest();
    return {};
  }

  template <template <class> class Shape, class Nodes>
  std::unique_ptr<attached<M>> linked(const found_type& f) {
    return std::make_unique<attached_as<M, lockfree::durable<M, Shape>, Nodes>>(*domain_, f, variant_.all_at_once);
  }
  template <template <class> class Shape, class Nodes>
  std::unique_ptr<attached<M>> sealed(const found_type& f) {
    return std::make_unique<attached_as<M, lockfree::rebuilt<M, Nodes, Shape>, Nodes>>(*domain_, f);
  }
  // nullptr: it is of no kind.
  std::unique_ptr<attached<M>> opened(const found_type& f) {
    if (f.kind == lockfree::layout::kind::none || f.kind > lockfree::layout::kind::tree) return nullptr;
    const bool volatile_links = (f.flags & lockfree::layout::entry_volatile_links) != 0;
    switch (shape_of(f.kind, (f.flags & lockfree::layout::entry_bytes) != 0)) {
      case shape_of_structure::words_list:
        return volatile_links ? sealed<sealed_words_list, sealed_words>(f) : linked<words_list, word_nodes>(f);
      case shape_of_structure::bytes_list:
        return volatile_links ? sealed<sealed_bytes_list, sealed_bytes>(f) : linked<bytes_list, byte_nodes>(f);
      case shape_of_structure::words_hash:
        return volatile_links ? sealed<sealed_words_hash, sealed_words>(f) : linked<words_hash, word_nodes>(f);
      case shape_of_structure::bytes_hash:
        return volatile_links ? sealed<sealed_bytes_hash, sealed_bytes>(f) : linked<bytes_hash, byte_nodes>(f);
      case shape_of_structure::words_skip:
        return volatile_links ? sealed<sealed_words_skip, sealed_words>(f) : linked<words_skip, word_nodes>(f);
      case shape_of_structure::bytes_skip:
        return volatile_links ? sealed<sealed_bytes_skip, sealed_bytes>(f) : linked<bytes_skip, byte_nodes>(f);
      case shape_of_structure::words_tree:
        return volatile_links ? nullptr : linked<words_tree, word_nodes>(f);
      case shape_of_structure::bytes_tree:
        return volatile_links ? nullptr : linked<bytes_tree, byte_nodes>(f);
    }
    return nullptr;
  }
  status attach(const found_type& f, std::string_view name) {
    if ((f.flags & lockfree::layout::entry_volatile_links) != 0) {
      if (const char* what = lockfree::sealed_root_fault(base_, f.root)) return fail(errc::corrupt, "%s", what);
    }
    std::unique_ptr<attached<M>> it = opened(f);
    if (it == nullptr) return fail(errc::corrupt, "'%.*s' is of no kind", int(name.size()), name.data());
    structures_[std::string{name}] = {f, std::move(it), 0};
    return {};
  }
  result<std::uint64_t> make_sealed(std::uint16_t owner, unsigned bits) {
    auto run = pages_->take_run(0, nvm::layout::slot_protocol::self_validating, owner, sizeof(lockfree::sealed_root));
    if (!run) return run.error();
    // Two structures at the same place, one after the other, have seeds of their own.
    seeds_ = mix_seed(seeds_, *run + structures_.size() + dropped_.size());
    lockfree::make_sealed_root(base_ + *run, *run, bits, seeds_);
    medium_.flush(base_ + *run, sizeof(lockfree::sealed_root));
    return *run;
  }
  template <class Structure>
  result<std::uint64_t> make_root(std::uint16_t owner) {
    auto run = pages_->take_run(0, nvm::layout::slot_protocol::epoch, owner, Structure::root_bytes);
    if (!run) return run.error();
    Structure::make_root(base_ + *run);
    medium_.flush(base_ + *run, Structure::root_bytes);
    return *run;
  }
  result<std::uint64_t> make_hash(std::uint16_t owner, unsigned bits) {
    using table = words_hash<memory_type>;
    auto run = pages_->take_run(0, nvm::layout::slot_protocol::epoch, owner, sizeof(lockfree::hash_root));
    if (!run) return run.error();
    auto array = pages_->take_run(0, nvm::layout::slot_protocol::epoch, owner, table::array_bytes(bits));
    if (!array) return array.error();
    table::make_root(base_ + *run, *run, bits, 0x1234'5678, base_ + *array, *array);
    medium_.flush(base_ + *run, sizeof(lockfree::hash_root));
    medium_.flush(base_ + *array, table::array_bytes(bits));
    return *run;
  }
  attached<M>& of(std::string_view name) { return *structures_.find(name)->second.it; }
  thread_type& thread(unsigned t) {
    // In this order, so that a thread has the same number in each process, and makes nodes of the same heights.
    for (unsigned i = 0; i <= t; ++i) {
      if (threads_[i] != nullptr) continue;
      auto joined = domain_->join([&](unsigned number) { return names().table_word(number); });
      if (!joined) std::abort();
      threads_[i] = *joined;
    }
    return *threads_[t];
  }
  void note(unsigned t) { lsn_ = std::max(lsn_, threads_[t]->client.lsn); }

  std::unique_ptr<image_process> image_;
  M& medium_;
  std::byte* const base_;
  const lockfree_variant variant_;
  log::nothing_logged lanes_;
  space<M, log::nothing_logged> space_;
  structure_pages* pages_ = &space_;
  open_store* store_ = nullptr;
  std::optional<lockfree::catalogue<M>> catalogue_;
  std::optional<lockfree::domain<M>> domain_;
  std::map<std::string, member, std::less<>> structures_;
  std::map<std::string, std::uint64_t, std::less<>> counted_;  // keys of them, when it is closed
  std::vector<std::unique_ptr<attached<M>>> dropped_;
  std::array<thread_type*, 8> threads_{};
  lsn_t lsn_ = 0;
  std::uint64_t seeds_;
  lockfree::recovery_report recovered_;
};

}  // namespace

std::unique_ptr<lockfree_process> open_lockfree(machine& m, const lockfree_variant& v, std::uint64_t life) {
  const auto run_as = [&m, opener = m.thread()](unsigned n) { m.thread(n == 2 ? opener : 101 + n); };
  if (v.image) {
    auto image = std::make_unique<image_process>(m);
    if (!image->open(m)) return nullptr;
    image_media& medium = *image->medium;
    std::byte* const base = image->view.get();
    const layout::superblock sb = image->superblock;
    auto p = std::make_unique<process<image_media>>(medium, base, sb, v, life, std::move(image));
    if (!p->open(run_as)) return nullptr;
    return p;
  }
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return nullptr;
  auto p = std::make_unique<process<recorder<ordered_media>>>(m.media(), m.base(), *sb, v, life, nullptr);
  if (!p->open(run_as)) return nullptr;
  return p;
}

}  // namespace nvm::tests
