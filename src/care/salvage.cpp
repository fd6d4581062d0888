// Salvage of a key-value store from a pool file that no process has open: reads the image that a check looks at, as far
// as possible.
#include <cstddef>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "api/pool_object.hpp"
#include "base/given_options.hpp"
#include "care/log_in_image.hpp"
#include "care/regions.hpp"
#include "engine/recover_image.hpp"
#include "engine/ssd.hpp"
#include "kv/kv.hpp"
#include "nvm/store_kv.h"
#include "space/cluster_image.hpp"
#include "space/space.hpp"
#include "store/store.hpp"
#include "tier/tier.hpp"

namespace nvm::care {
namespace {

static_assert(NVM_KV_LED_TO == static_cast<int>(keyed::proof::led_to) &&
              NVM_KV_SWEPT == static_cast<int>(keyed::proof::swept) &&
              NVM_KV_UNPROVED == static_cast<int>(keyed::proof::none));

struct salvage_call {
  const nvm_kv_salvage_options& how;
  std::int64_t lost = 0;

  void tell(const keyed::fault& f) {
    ++lost;
    if (how.lost == nullptr) return;
    const platform::out_of_call theirs;
    how.lost(f.place, f.has_key ? f.key.data() : nullptr, f.key.size(), f.what, how.argument);
  }
  [[nodiscard]] keyed::salvage_report report() {
    return {[this](const keyed::salvaged& s) {
              const nvm_kv_entry e{s.key.data(), s.key.size(), s.value.data(), s.value.size()};
              const platform::out_of_call theirs;
              if (how.entry != nullptr) how.entry(&e, static_cast<enum nvm_kv_proof>(s.how), how.argument);
            },
            [this](const keyed::fault& f) { tell(f); }};
  }
};

// Both copies need not agree: either is better than none.
std::uint64_t directory_in(const std::byte* base, const geometry& g) noexcept {
  for (unsigned copy = 0; copy < 2; ++copy) {
    const std::uint64_t at = anchor_word_at(g, copy, anchor_word::stores);
    const std::uint64_t word = load_word(base, at);
    if (word_holds(word, word_seed(at)) && (word & checked_mask) != 0) return word & checked_mask;
  }
  return 0;
}

// Where the store lies: in an object store, or, number 0, in none.
struct place_of_store {
  std::uint32_t number = 0;
  std::uint64_t directory = 0;
};
result<place_of_store> home_in(const std::byte* base, const geometry& g, std::string_view name) {
  const auto catalogue_at = read_anchor_word(base, g, anchor_word::catalogue);
  if (!catalogue_at) return catalogue_at.error();
  // Read in place; nothing is changed.
  stores::names_reader m{{const_cast<std::byte*>(base), g.data_offset, g.size_bytes()}};
  std::optional<std::uint64_t> page;
  if (*catalogue_at != 0) {
    const auto catalogue = read_catalogue(m, *catalogue_at);
    if (!catalogue) return catalogue.error();
    const auto found = find_name(m, *catalogue, name);
    if (!found) return found.error();
    page = *found;
  }
  if (!page) return fail(errc::not_found, "there is no store \"%.*s\"", static_cast<int>(name.size()), name.data());
  if (!g.in_data(*page, g.page_bytes())) return fail(errc::corrupt, "offset %lu of a store is no page of it", *page);
  const auto c = cluster_at(base, g, g.page_of(*page));
  if (!c) return c.error();
  const std::uint64_t at = cluster_word_at(g, c->page, offsetof(layout::cluster_header, key_values));
  const std::uint64_t word = load_word(base, at);
  return place_of_store{c->number, word_holds(word, word_seed(at)) ? word & checked_mask : 0};
}

// Whether places lie in pages of an object store, or, number 0, of none.
class pages_of_home {
 public:
  pages_of_home(const std::byte* base, const geometry& g, std::uint32_t number) noexcept
      : base_{base}, g_{g}, number_{number} {}
  [[nodiscard]] bool has(std::uint64_t at) noexcept {
    if (at - from_ < bytes_) return is_home_;
    bytes_ = 0;
    const std::uint64_t head = cluster_head(base_, g_, g_.page_of(at));
    if (head == no_cluster) return number_ == 0;
    const auto c = cluster_at(base_, g_, head);
    if (!c) return false;
    from_ = g_.page_offset(head);
    bytes_ = c->pages << g_.page_shift;
    return is_home_ = c->number == number_;
  }

 private:
  const std::byte* base_;
  const geometry& g_;
  const std::uint32_t number_;
  std::uint64_t from_ = 0, bytes_ = 0;  // the cluster of the last one
  bool is_home_ = false;
};

status salvage_in_place(pool_file& file, std::string_view home, std::string_view store,
                        const keyed::salvage_report& report) {
  const geometry g = file.geometry();
  const std::byte* base = file.base();
  const auto lies = home.empty() ? result{place_of_store{0, directory_in(base, g)}} : home_in(base, g, home);
  if (!lies) return lies.error();
  pages_of_home pages{base, g, lies->number};
  keyed::read_from_image bytes{base, g};
  const keyed::object_source from{bytes,
                                  [&](const keyed::object_source::visitor& visit) {
                                    // Damaged extents are passed over, so that the rest is read.
                                    (void)for_each_object(
                                        base, g, [&](std::uint64_t at, std::uint64_t room, layout::object_layout l) {
                                          layout::object_header header{};
                                          if (l != layout::object_layout::typed || room <= sizeof header) return true;
                                          if (!pages.has(at)) return true;
                                          std::memcpy(&header, base + at, sizeof header);
                                          visit(at + sizeof header, header.type, room - sizeof header);
                                          return true;
                                        });
                                  },
                                  [&](const keyed::store_facts& facts, const keyed::lewat::rest_report& regions) {
                                    return read_entries_in_regions(file.base(), g, facts, regions);
                                  }};
  return keyed::salvage(from, lies->directory, store, report);
}

// In a copy that was not accepted, the parts may be of different moments.
status tell_of_copy(platform::file& file, salvage_call& call) {
  layout::owner_record owner;
  if (status s = file.read(layout::owner_sector, &owner, sizeof owner); !s) return s;
  if (check_not_a_copy(owner, file).error() != errc::copy) return {};
  call.tell(
      {"the file is a copy of a pool that was in use, or whose owner had died: what is read of it may be of "
       "different moments",
       layout::owner_sector,
       false,
       {}});
  return {};
}

status run(const char* path, std::string_view home, const char* store, salvage_call& call) {
  pool_open_options o;
  o.read_only = true;
  o.accept_copy = true;
  auto tier = tier::pool_tier::make(nullptr);
  if (!tier) return tier.error();
  o.tier = (*tier)->step();
  auto opened = pool_file::open(path, o);
  if (!opened) return opened.error();
  pool_file& file = **opened;
  if (status s = tell_of_copy(file.file(), call); !s) return s;
  status applied;
  if (has_image(file.superblock())) {
    if (const auto records = engines::apply_log_in_memory(file); !records) applied = records.error();
  }
  const bool clean = file.superblock().state == static_cast<std::uint32_t>(layout::pool_state::clean);
  const bool is_log = engine_of(file.superblock().engine).is_its_log();
  if (applied && !clean && !is_log) applied = engines::recover_image(file);
  if (applied.error() == errc::no_memory) return applied;
  if (!applied) {
    const std::string why = std::string{"what the log has cannot be had: "} + last_message();
    call.tell({why.c_str(), file.superblock().log_offset, false, {}});
  }
  if (is_log && !home.empty()) return fail(errc::engine, "a pool of this engine has no object stores");
  const status done =
      is_log ? salvage_in_log(file, store, call.report()) : salvage_in_place(file, home, store, call.report());
  const status whole = file.intact();
  if (whole) return done;
  if (!done) return whole;
  // The rest was read: a page that is lost reads as zeros.
  const std::string why = last_message();
  call.tell({why.c_str(), 0, false, {}});
  return {};
}

}  // namespace
}  // namespace nvm::care

namespace api = nvm::api;
namespace care = nvm::care;
namespace engines = nvm::engines;
using nvm::errc;
using nvm::fail;

namespace {

int64_t salvage(const char* path, std::string_view home, const char* store, const nvm_kv_salvage_options* options) {
  const auto known = nvm::given_options<56>(options, "nvm_kv_salvage_options");
  if (!known) return api::report(known.error());
  const nvm_kv_salvage_options& how = *known;
  if (path == nullptr || store == nullptr) return api::report(fail(errc::invalid, "the path or the name is NULL"));
  care::salvage_call call{how};
  const nvm::platform::in_call here;
  try {
    if (nvm::status s = care::run(path, home, store, call); !s) return api::report(api::about(path, s.error()));
  } catch (const std::bad_alloc&) {
    return api::report(fail(errc::no_memory, "%s: no volatile memory to salvage a key-value store", path));
  }
  return call.lost;
}

}  // namespace

extern "C" int64_t nvm_kv_salvage(const char* path, const char* store, const nvm_kv_salvage_options* options) {
  return salvage(path, {}, store, options);
}
extern "C" int64_t nvm_kv_salvage_in(const char* path, const char* store, const char* name,
                                     const nvm_kv_salvage_options* options) {
  if (store == nullptr || *store == '\0')
    return api::report(fail(errc::invalid, "the name of the object store is NULL or empty"));
  return salvage(path, store, name, options);
}
