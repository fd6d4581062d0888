#include "ground.hpp"

#include <cstdlib>
#include <cstring>
#include <map>

#include "image_process.hpp"
#include "stm_ground.hpp"

namespace nvm::tests {
namespace {

using explore::machine;

// The heap on any medium, with any engine: over the types that whole_pool.cpp has its engines over, so that a compiler
// makes each of them once.
template <class Any, class Engine = tx::undo_engine<Any>>
class heap_ground : public ground {
 public:
  using heap_type = tx::heap<Any, Engine>;
  using transaction_type = typename heap_type::transaction_type;

  template <media M>
  heap_ground(M& m, std::byte* base, const layout::superblock& sb, unsigned lanes)
      : medium_{m},
        base_{base},
        superblock_{sb},
        heap_{medium_,
              base,
              geometry_of(sb),
              tx::pool_key(sb.uuid),
              lanes,
              [this](std::uint64_t n) { return grow(n); },
              tx::engine_settings{static_cast<log::validation>(sb.validation)}} {}

  status boot() { return heap_.boot(); }

  std::byte* base() noexcept override { return base_; }
  unsigned lanes() noexcept override { return heap_.lanes().count(); }
  bool acquire(unsigned lane) override {
    const auto got = heap_.lanes().acquire(lane);
    return got && *got == lane;
  }
  void release(unsigned lane) override { heap_.lanes().release(lane); }
  status begin(unsigned lane) override { return of(lane).begin(); }
  result<std::uint64_t> alloc(unsigned lane, std::uint64_t bytes) override {
    return tx::allocate_typed(heap_, of(lane), 7, bytes);
  }
  status free(unsigned lane, std::uint64_t payload) override {
    return of(lane).release(payload - sizeof(layout::object_header), layout::object_layout::typed);
  }
  status paint(unsigned lane, const painted* ranges, std::size_t count) override {
    std::vector<log::byte_range> list;
    for (std::size_t i = 0; i < count; ++i) list.push_back({ranges[i].offset, ranges[i].bytes});
    if (status s = of(lane).announce(list.data(), list.size()); !s) return s;
    for (std::size_t i = 0; i < count; ++i) std::memset(base_ + ranges[i].offset, ranges[i].fill, ranges[i].bytes);
    return {};
  }
  status look(unsigned, std::uint64_t offset, std::uint64_t bytes, std::byte* out) override {
    std::memcpy(out, base_ + offset, bytes);
    return {};
  }
  status set_root(unsigned lane, std::uint64_t payload) override { return tx::set_root(heap_, of(lane), payload); }
  status assign(unsigned lane, std::span<const tx::assigned_word> words) override {
    status done;
    for (const tx::assigned_word& w : words) {
      if (done) done = of(lane).assign(&w, 1);
    }
    return done;
  }
  status publish_types(unsigned lane, const void* map, std::uint64_t bytes) override {
    return object::publish_types(heap_, geometry_of(superblock_), of(lane), map, bytes);
  }
  status commit_level(unsigned lane) override { return of(lane).commit_level(); }
  void abort_level(unsigned lane) override { of(lane).abort_level(); }
  result<lsn_t> commit(unsigned lane) override {
    auto lsn = of(lane).commit();
    (void)of(lane).take_hooks();
    return lsn;
  }
  void abort(unsigned lane) override {
    of(lane).abort();
    (void)of(lane).take_hooks();
  }
  status durable(lsn_t lsn) override { return medium_.durable(lsn); }
  std::uint64_t grown() const noexcept override { return grown_; }

 protected:
  heap_type& heap() { return heap_; }
  transaction_type& of(unsigned lane) { return **heap_.of_lane(lane); }

 private:
  result<std::uint64_t> grow(std::uint64_t pages) {
    if (pages > superblock_.capacity_pages) {
      return fail(errc::no_space, "capacity of %llu pages",
                  static_cast<unsigned long long>(superblock_.capacity_pages));
    }
    superblock_.size_pages = pages;
    write_superblock(medium_, base_, superblock_);
    ++grown_;
    return pages;
  }

  Any medium_;
  std::byte* base_;
  layout::superblock superblock_;
  std::uint64_t grown_ = 0;
  heap_type heap_;
};

template <class Engine>
class in_place_ground final : public heap_ground<any_direct, Engine> {
 public:
  using base_class = heap_ground<any_direct, Engine>;
  in_place_ground(machine& m, const layout::superblock& sb) : base_class{m.media(), m.base(), sb, sb.lane_count} {}
  status checkpoint() override { return {}; }
  status sync_appended() override { return {}; }
  void die_while_syncing() override {}
  status close() override {
    this->heap().come_to_rest();
    return {};
  }
  std::uint64_t stalls() const noexcept override { return 0; }
};

// What is painted waits in volatile lines, a set for each level, until the commit.
template <class Engine>
class write_back_ground final : public heap_ground<any_direct, Engine> {
 public:
  using heap_ground = tests::heap_ground<any_direct, Engine>;
  using heap_ground::base;
  using heap_ground::heap;
  using heap_ground::of;
  write_back_ground(machine& m, const layout::superblock& sb)
      : heap_ground{m.media(), m.base(), sb, sb.lane_count}, written_(sb.lane_count) {}
  status begin(unsigned lane) override {
    written_[lane].emplace_back();
    return heap_ground::begin(lane);
  }
  status paint(unsigned lane, const painted* ranges, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      const painted& r = ranges[i];
      if (of(lane).covers({r.offset, r.bytes})) {
        std::memset(base() + r.offset, r.fill, r.bytes);
        continue;
      }
      if constexpr (requires { heap_ground::transaction_type::logs_each_store; }) {
        const std::vector<std::byte> contents(r.bytes, std::byte{r.fill});
        if (status s = of(lane).log_store(r.offset, contents.data(), r.bytes); !s) return s;
      }
      for (std::uint64_t at = r.offset; at < r.offset + r.bytes; ++at) {
        const std::uint64_t line = (reinterpret_cast<std::uintptr_t>(base()) + at) / line_bytes;
        isolation::written_line& w = written_[lane].back()[line];
        w.line = line;
        w.mask |= std::uint64_t{1} << at % line_bytes;
        w.bytes[at % line_bytes] = std::byte{r.fill};
      }
    }
    return {};
  }
  status commit_level(unsigned lane) override {
    auto inner = std::move(written_[lane].back());
    written_[lane].pop_back();
    for (const auto& [line, w] : inner) {
      isolation::written_line& outer = written_[lane].back()[line];
      outer.line = line;
      outer.mask |= w.mask;
      for (unsigned b = 0; b < line_bytes; ++b) {
        if ((w.mask >> b & 1) != 0) outer.bytes[b] = w.bytes[b];
      }
    }
    return heap_ground::commit_level(lane);
  }
  void abort_level(unsigned lane) override {
    written_[lane].pop_back();
    heap_ground::abort_level(lane);
  }
  result<lsn_t> commit(unsigned lane) override {
    std::vector<isolation::written_line> lines;
    for (const auto& [line, w] : written_[lane].back()) lines.push_back(w);
    written_[lane].clear();
    if (status s = of(lane).enter_commit(lines); !s) {
      heap_ground::abort(lane);
      return s.error();
    }
    auto lsn = of(lane).commit_lines(lines, isolation::version_clock::of_process().next());
    (void)of(lane).take_hooks();
    return lsn;
  }
  void abort(unsigned lane) override {
    written_[lane].clear();
    heap_ground::abort(lane);
  }
  status checkpoint() override {
    if constexpr (heap_ground::heap_type::lanes_type::ordered) heap().lanes().truncate();
    return {};
  }
  status sync_appended() override { return {}; }
  void die_while_syncing() override {}
  status close() override {
    heap().come_to_rest();
    return {};
  }
  std::uint64_t stalls() const noexcept override { return 0; }

 private:
  using level = std::map<std::uint64_t, isolation::written_line>;
  std::vector<std::vector<level>> written_;  // of each lane
};

class image_ground final : private std::unique_ptr<image_process>, public heap_ground<any_image> {
 public:
  static constexpr unsigned volatile_lanes = 2;
  explicit image_ground(std::unique_ptr<image_process> p)
      : std::unique_ptr<image_process>{std::move(p)},
        heap_ground{*process().medium, process().view.get(), process().superblock, volatile_lanes} {}
  status checkpoint() override { return process().medium->checkpoint_step(); }
  status sync_appended() override { return process().medium->sync_appended(); }
  void die_while_syncing() override {
    process().device.die_at_next_sync();
    if (process().medium->sync_appended()) std::abort();  // there was nothing to sync
  }
  status close() override {
    heap().come_to_rest();
    return process().medium->close();
  }
  std::uint64_t stalls() const noexcept override { return process().medium->statistics().stalls; }

 private:
  [[nodiscard]] image_process& process() const noexcept { return *get(); }
};

}  // namespace

std::unique_ptr<ground> open_ground(machine& m, kind_of_medium kind) {
  if (is_stm(kind)) return open_stm_ground(m, kind);
  if (is_image(kind)) {
    auto p = std::make_unique<image_process>(m);
    if (!p->open(m)) return nullptr;
    auto g = std::make_unique<image_ground>(std::move(p));
    if (!g->boot()) return nullptr;
    return g;
  }
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return nullptr;
  const auto booted = [](auto g) -> std::unique_ptr<ground> {
    if (!g->boot()) return nullptr;
    return g;
  };
  using medium = any_direct;
  if (is_redo(kind)) return booted(std::make_unique<write_back_ground<tx::redo_engine<medium>>>(m, *sb));
  if (!is_mnemosyne(kind)) return booted(std::make_unique<in_place_ground<tx::undo_engine<medium>>>(m, *sb));
  if (mnemosyne_kind_of(kind) == log::mnemosyne_kind::redo)
    return booted(std::make_unique<write_back_ground<tx::mnemosyne_engine<medium>>>(m, *sb));
  return booted(std::make_unique<in_place_ground<tx::mnemosyne_undo_engine<medium>>>(m, *sb));
}

}  // namespace nvm::tests
