#include <cstdlib>
#include <cstring>

#include "engine/heap_engine.hpp"
#include "image_process.hpp"
#include "media/memory_device.hpp"
#include "store_player.hpp"

namespace nvm::tests {
namespace {

using explore::machine;

class machine_stack final : public engines::plain_stack {
 public:
  explicit machine_stack(machine& m) noexcept : medium_{m.media()} {}
  recorder<ordered_media>& top() noexcept { return medium_; }
  static result<std::unique_ptr<engines::structure_side>> open_structures(std::byte*, structure_pages&,
                                                                          const engines::structure_settings&) noexcept {
    return fail(errc::engine, "none here");
  }
  static result<std::unique_ptr<engines::region_side>> open_regions(std::byte*, region_pages&,
                                                                    engines::region_wishes) noexcept {
    return fail(errc::engine, "none here");
  }

 private:
  recorder<ordered_media>& medium_;
};

class image_stack final : public engines::plain_stack {
 public:
  explicit image_stack(std::unique_ptr<image_process> p) noexcept : process_{std::move(p)} {}
  image_media& top() noexcept { return *process_->medium; }
  status close() noexcept { return process_->medium->close(); }
  static result<std::unique_ptr<engines::structure_side>> open_structures(std::byte*, structure_pages&,
                                                                          const engines::structure_settings&) noexcept {
    return fail(errc::engine, "none here");
  }
  static result<std::unique_ptr<engines::region_side>> open_regions(std::byte*, region_pages&,
                                                                    engines::region_wishes) noexcept {
    return fail(errc::engine, "none here");
  }

 private:
  std::unique_ptr<image_process> process_;
};

// The file of a pool that is trimmed.  What is cut off holds a mark, which no pool may have: it would be longer than
// its file.
struct cut_file {
  machine& m;
  store_ground on;

  void put(std::uint64_t offset, std::uint64_t bytes, std::uint8_t fill) const {
    if (on != store_ground::ssd) {
      std::memset(m.base() + offset, fill, bytes);
      return;
    }
    const std::vector<std::byte> all(bytes, std::byte{fill});
    explore::device device{m};
    if (!device.write(offset, all.data(), bytes)) std::abort();
  }
  static void punched(void* raw, std::uint64_t offset, std::uint64_t bytes) noexcept {
    static_cast<cut_file*>(raw)->put(offset, bytes, 0);
  }
  static void cut(void* raw, std::uint64_t bytes) noexcept {
    auto& f = *static_cast<cut_file*>(raw);
    const std::uint64_t end = geometry_of(*pick_superblock(f.m.base(), f.m.size())).capacity_bytes();
    if (bytes < end) f.put(bytes, end - bytes, cut_mark);
  }
  static constexpr std::uint8_t cut_mark = 0xEE;
  [[nodiscard]] file_hooks hooks() noexcept { return {punched, cut, this}; }
};

class opened final : public store_process {
 public:
  opened(std::unique_ptr<cut_file> cuts, pool_file::pointer file, std::byte* base, image_media* image)
      : cuts_{std::move(cuts)}, file_{std::move(file)}, base_{base}, image_{image} {}
  template <template <class> class Engine, class Stack>
  status start(std::unique_ptr<Stack> on, unsigned lanes) {
    auto e = engines::start<Stack, Engine>(std::move(on), *file_, lanes);
    if (!e) return e.error();
    engine_ = std::move(*e);
    return {};
  }
  engines::engine& engine() noexcept override { return *engine_; }
  std::byte* base() noexcept override { return base_; }
  status checkpoint() override {
    if (image_ != nullptr) return image_->checkpoint_step();
    return {};
  }

 private:
  std::unique_ptr<cut_file> cuts_;
  pool_file::pointer file_;
  std::byte* base_;
  image_media* image_;
  std::unique_ptr<engines::engine> engine_;
};

layout::superblock superblock_for(store_ground on, std::uint64_t pages) {
  superblock_request r;
  r.shape.page_shift = 10;
  r.shape.size_pages = pages;
  r.shape.capacity_pages = pages;
  if (on == store_ground::ssd) {
    r.shape.ring_bytes = 32 * 1024;
  } else {
    r.shape.lane_count = 2;
    r.shape.lane_bytes = on == store_ground::undo ? 1024 : 4096;
  }
  r.medium = on == store_ground::ssd ? NVM_MEDIUM_SSD : NVM_MEDIUM_SHM;
  r.engine = on == store_ground::redo             ? NVM_ENGINE_REDO
             : on == store_ground::mnemosyne      ? NVM_ENGINE_MNEMOSYNE
             : on == store_ground::mnemosyne_undo ? NVM_ENGINE_MNEMOSYNE_UNDO
                                                  : NVM_ENGINE_UNDO;
  for (unsigned i = 0; i < 16; ++i) r.uuid[i] = static_cast<std::uint8_t>(i * 7 + 1);
  const auto sb = make_superblock(r);
  if (!sb) std::abort();
  return *sb;
}

}  // namespace

const char* name_of(store_ground g) noexcept {
  static constexpr const char* names[] = {"undo", "redo", "ssd", "mnemosyne", "mnemosyne_undo"};
  return names[static_cast<unsigned>(g)];
}

std::vector<std::byte> new_store_image(store_ground on, std::uint64_t pages) {
  const layout::superblock sb = superblock_for(on, pages);
  std::vector<std::byte> bytes(round_up(geometry_of(sb).capacity_bytes(), sector_bytes));
  format_image(bytes.data(), sb);
  if (on != store_ground::ssd) return bytes;
  memory_device file{std::move(bytes)};
  if (!format_ring(file, ring_of(sb))) std::abort();
  return file.content();
}

bool ends_in_its_file(machine& m) {
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return true;  // recovery says so
  const geometry g = geometry_of(*sb);
  for (std::uint64_t page = 0; page < g.size_pages; ++page) {
    std::uint64_t word = 0;
    std::memcpy(&word, m.base() + g.page_offset(page), sizeof word);
    if (word == cut_file::cut_mark * 0x0101'0101'0101'0101U) return false;
  }
  return true;
}

std::unique_ptr<store_process> open_store_process(machine& m, store_ground on) {
  auto cuts = std::make_unique<cut_file>(cut_file{m, on});
  const file_hooks hooks = cuts->hooks();
  if (on == store_ground::ssd) {
    auto process = std::make_unique<image_process>(m);
    if (!process->open(m)) return nullptr;
    auto file = pool_file::in_memory(process->view.get(), process->superblock, hooks);
    if (!file) return nullptr;
    auto p = std::make_unique<opened>(std::move(cuts), std::move(*file), process->view.get(), process->medium.get());
    constexpr unsigned lanes = 2;
    if (!p->start<tx::undo_engine>(std::make_unique<image_stack>(std::move(process)), lanes)) return nullptr;
    return p;
  }
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return nullptr;
  auto file = pool_file::in_memory(m.base(), *sb, hooks);
  if (!file) return nullptr;
  auto p = std::make_unique<opened>(std::move(cuts), std::move(*file), m.base(), nullptr);
  const auto start = [&]<template <class> class Engine>() {
    return p->start<Engine>(std::make_unique<machine_stack>(m), sb->lane_count);
  };
  const status s = on == store_ground::redo             ? start.operator()<tx::redo_engine>()
                   : on == store_ground::mnemosyne      ? start.operator()<tx::mnemosyne_engine>()
                   : on == store_ground::mnemosyne_undo ? start.operator()<tx::mnemosyne_undo_engine>()
                                                        : start.operator()<tx::undo_engine>();
  if (!s) return nullptr;
  return p;
}

status recover_stores(machine& m, store_ground on) {
  const auto sb = pick_superblock(m.base(), m.size());
  if (!sb) return sb.error();
  if (on == store_ground::ssd) {
    explore::device device{m};
    const auto replayed = replay(device, ring_of(*sb));
    return replayed ? status{} : status{replayed.error()};
  }
  tx::recovery_report report;
  if (on == store_ground::redo) {
    std::uint64_t used = 0;
    return tx::recover_redo(m.media(), m.base(), geometry_of(*sb), tx::pool_key(sb->uuid), log::validation::checksum,
                            report, used);
  }
  if (on == store_ground::mnemosyne || on == store_ground::mnemosyne_undo) {
    const auto kind = on == store_ground::mnemosyne ? log::mnemosyne_kind::redo : log::mnemosyne_kind::undo;
    return tx::recover_mnemosyne(m.media(), m.base(), geometry_of(*sb), kind, log::validation::checksum, report,
                                 [](unsigned, std::uint64_t) {});
  }
  return tx::recover(m.media(), m.base(), geometry_of(*sb), tx::pool_key(sb->uuid), report,
                     [](unsigned, std::uint64_t, std::uint32_t) {});
}

}  // namespace nvm::tests
