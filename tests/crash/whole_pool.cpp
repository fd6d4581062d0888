#include "whole_pool.hpp"

#include <utility>

#include "api/object_stores.hpp"
#include "api/open_regions.hpp"
#include "api/pool_object.hpp"
#include "engine/heap_engine.hpp"
#include "image_process.hpp"

namespace nvm::tests {
namespace {

using explore::machine;

// A stack of an engine with regions, and without structures.  No thread of the pool's own tidies up: the explorer runs
// those of the story.
template <engines::stack Inner>
class with_regions final : public engines::any_stack<any_of<engines::medium_of<Inner>>> {
 public:
  using any_type = any_of<engines::medium_of<Inner>>;
  explicit with_regions(std::unique_ptr<Inner> inner) noexcept
      : engines::any_stack<any_type>{any_type{inner->top()}}, inner_{std::move(inner)} {}
  status close() noexcept override { return inner_->close(); }
  void statistics(nvm_statistics& out) noexcept override { inner_->statistics(out); }
  [[nodiscard]] std::uint32_t persist() const noexcept override { return inner_->persist(); }
  [[nodiscard]] result<std::unique_ptr<engines::region_side>> open_regions(std::byte* base, region_pages& pages,
                                                                           engines::region_wishes) noexcept override {
    if (make_regions<any_type> != nullptr) return make_regions<any_type>(this->top(), base, pages, {});
    return fail(errc::engine, "a pool that is opened like this has no regions");
  }

 private:
  std::unique_ptr<Inner> inner_;
};
template <engines::stack Inner>
std::unique_ptr<engines::any_stack<any_of<engines::medium_of<Inner>>>> having_regions(std::unique_ptr<Inner> inner) {
  return std::make_unique<with_regions<Inner>>(std::move(inner));
}

class machine_stack : public engines::plain_stack {
 public:
  explicit machine_stack(machine& m) noexcept : medium_{m.media()} {}
  recorder<ordered_media>& top() noexcept { return medium_; }
  static std::uint32_t persist() noexcept { return NVM_PERSIST_NONE; }

 private:
  recorder<ordered_media>& medium_;
};

class image_stack {
 public:
  explicit image_stack(std::unique_ptr<image_process> p) noexcept : process_{std::move(p)} {}
  image_media& top() noexcept { return *process_->medium; }
  status close() noexcept { return process_->medium->close(); }
  static void statistics(nvm_statistics&) noexcept {}
  static std::uint32_t persist() noexcept { return NVM_PERSIST_NONE; }

 private:
  std::unique_ptr<image_process> process_;
};

class opened_pool final : public whole_pool {
 public:
  explicit opened_pool(image_media* image) : image_{image} {}
  ~opened_pool() override { end(); }
  opened_pool(const opened_pool&) = delete;
  opened_pool& operator=(const opened_pool&) = delete;

  // What nvm_pool_open() does once the file is mapped.
  template <template <class> class Engine, class Stack>
  status start(pool_file::pointer file, std::unique_ptr<Stack> on, unsigned lanes) {
    pool_.number = ++number_;
    pool_.lanes = std::make_shared<api::lane_owner>();
    auto engine = engines::start<Stack, Engine>(std::move(on), *file, lanes);
    if (!engine) return engine.error();
    pool_.engine = std::move(*engine);
    pool_.lanes->lanes = pool_.engine.get();
    pool_.file = std::move(file);
    pool_.barriers.ready();
    pool_.types_seen = object::type_registry::of_program().generation();
    return {};
  }

  NVM_POOL* handle() noexcept override { return &pool_; }
  std::byte* base() noexcept override { return pool_.base(); }
  status checkpoint() override {
    if (image_ != nullptr) return image_->checkpoint_step();
    return {};
  }
  status close() override {
    leave();
    api::object_stores::end(&pool_, false);
    api::close_regions(&pool_);
    return pool_.engine->come_to_rest(false);
  }
  std::uint64_t grown_bytes() const noexcept override {
    nvm_statistics s{};
    pool_.engine->statistics(s);
    return s.grown_bytes;
  }
  std::uint64_t stalls() const noexcept override { return image_ == nullptr ? 0 : image_->statistics().stalls; }

 private:
  void leave() noexcept {
    if (pool_.lanes == nullptr) return;
    const std::lock_guard guard{pool_.lanes->lock};
    pool_.lanes->lanes = nullptr;
  }
  void end() noexcept {
    leave();
    pool_.stores.reset();
    pool_.object_stores.reset();
    if (pool_.regions != nullptr) {
      const std::lock_guard guard{pool_.regions->lock};
      pool_.regions->side.reset();
    }
    pool_.engine.reset();
    pool_.file.reset();
  }
  static inline unsigned number_ = 1U << 20;  // of all engines: threads know pools by it
  nvm_pool pool_;
  image_media* image_;
};

}  // namespace

void* place_of_whole_pools() noexcept {
  return reinterpret_cast<void*>(platform::window_base + 5 * platform::granule_bytes);
}

std::unique_ptr<whole_pool> open_whole(machine& m, kind_of_medium kind) {
  if (is_image(kind)) {
    auto process = std::make_unique<image_process>(m, place_of_whole_pools());
    if (!process->open(m)) return nullptr;
    auto file = pool_file::in_memory(process->view.get(), process->superblock);
    auto p = std::make_unique<opened_pool>(process->medium.get());
    constexpr unsigned lanes = 3;
    auto stack = having_regions(std::make_unique<image_stack>(std::move(process)));
    if (!file || !p->start<tx::undo_engine>(std::move(*file), std::move(stack), lanes)) return nullptr;
    return p;
  }
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return nullptr;
  auto file = pool_file::in_memory(m.base(), *sb);
  if (!file) return nullptr;
  auto stack = having_regions(std::make_unique<machine_stack>(m));
  auto p = std::make_unique<opened_pool>(nullptr);
  const unsigned lanes = sb->lane_count;
  const auto started = [&]<template <media> class Engine>() {
    return p->start<Engine>(std::move(*file), std::move(stack), lanes);
  };
  status s;
  switch (kind.log) {
    case log_kind::lanes:
      s = started.operator()<tx::undo_engine>();
      break;
    case log_kind::rings:
      s = started.operator()<tx::redo_engine>();
      break;
    case log_kind::new_words:
      s = started.operator()<tx::mnemosyne_engine>();
      break;
    case log_kind::old_words:
      s = started.operator()<tx::mnemosyne_undo_engine>();
      break;
    case log_kind::none:
      return nullptr;
  }
  return s ? std::move(p) : nullptr;
}

}  // namespace nvm::tests

// The explorer's memory is no file, and lies outside of where pools are mapped: durable as the machine is, its
// addresses are nobody's.
extern "C" NVM_POOL* nvm_pool_of(const void*) { return nullptr; }
