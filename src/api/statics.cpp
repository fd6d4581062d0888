// Static pointers of the C interface: the names of the program, and their meeting with those of a pool.
#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "nvm/compiled.h"
#include "nvm/static.h"
#include "object/field_name.hpp"
#include "object/static_images.hpp"
#include "object/static_registry.hpp"
#include "object/undescribed.hpp"
#include "platform/images.hpp"

namespace nvm::api {
namespace {

using object::static_mover;
using object::static_registry;
using object::static_table;
using object::type_map;

std::vector<object::static_object> images() {
  std::vector<object::static_object> all;
  for (const platform::loaded_image& i : platform::loaded_images()) {
    std::string name = i.build + " " + i.path;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
    if (name.size() > layout::static_name_max) name.resize(layout::static_name_max);
    all.push_back({layout::static_kind::image, i.address, i.bytes, std::move(name)});
  }
  return all;
}

// Whether some program has said that objects without a type may lead into it.
bool untyped_may_lead(const nvm_pool* pool) noexcept {
  return pool->file->has_feature(layout::feature_untyped_statics);
}

// Whether the program knows of such fields: it has a type with one, or visitors that may tell of some, or says that
// objects without a type may have some.  In a pool where they may, only programs that say so can use such fields.
result<bool> program_has_statics(const nvm_pool* pool) {
  if (static_registry::of_program().untyped_may_lead()) return true;
  if (untyped_may_lead(pool)) return false;
  auto ours = object::type_registry::of_program().types();
  if (!ours) return pool->types == NVM_TYPES_IGNORE ? result<bool>{false} : result<bool>{ours.error()};
  bool visited = false;
  for (const layout::type_record* r : (*ours)->map.records()) {
    for (std::uint32_t i = 0; i < r->fields; ++i) {
      const layout::field_kind kind = object::fields_of(*r)[i].kind;
      if (kind == layout::field_kind::static_pointer) return true;
      visited = visited || kind == layout::field_kind::by_visitor;
    }
  }
  return visited && static_registry::of_program().any();
}

// The pool's table; of no rows if it has none.
result<static_table> stored_table(const type_map& types) noexcept {
  if (types.statics().empty()) return static_table{};
  return static_table::read(types.statics(), types.place() + (types.bytes().size() - types.statics().size()));
}

// The words that differ between the stored map and `now`: a pool without room for a second map changes the one that it
// has.
std::vector<tx::assigned_bytes> differences(const type_map& types, const object::type_map_writer::words& now) {
  std::vector<tx::assigned_bytes> all;
  for (std::size_t i = 0; i < now.size(); ++i) {
    std::uint64_t old = 0;
    std::memcpy(&old, types.bytes().data() + i * 8, sizeof old);
    if (old != now[i]) all.push_back({types.place() + i * 8, now[i], sizeof now[i]});
  }
  return all;
}

// With the pool's type map, in one transaction.
status publish(nvm_pool* pool, const static_table& table) {
  constexpr std::size_t together = 512;  // words that are stored where they are
  const bool untyped = static_registry::of_program().untyped_may_lead();
  const std::uint32_t features = layout::feature_statics | (untyped ? layout::feature_untyped_statics : 0);
  if (status s = pool->engine->add_feature(features); !s) return s;
  auto types = pool->engine->types();
  if (!types) return types.error();
  const auto bytes = table.bytes();
  const auto all = object::with_statics(merge_types(*types, {}), std::as_bytes(std::span{bytes}));
  std::vector<tx::assigned_bytes> changed;
  const bool fits = all.size() * 8 == types->bytes().size();
  if (fits) changed = differences(*types, all);
  if (fits && changed.empty()) return {};
  const auto in_place = [&](tx::open_transaction& t) { return t.assign_all(changed); };
  if (fits && changed.size() <= together) return in_own_transaction(pool, in_place);
  const status s =
      in_own_transaction(pool, [&](tx::open_transaction& t) { return t.publish_types(all.data(), all.size() * 8); });
  return !s && s.error() == errc::no_space && fits ? in_own_transaction(pool, in_place) : s;
}

// What object::put_statics_right() asks of a pool that is being opened.
struct opened_pool {
  status pass(const static_mover& m, object::relocation_report& r) const noexcept {
    const all_pages_open stores{pool};
    return pool->engine->move_statics(plans, m, r);
  }
  status publish(const static_table& t) const {
    // In a read-only pool the fields of this process's copy are put right, which needs no table.
    return pool->file->read_only() ? status{} : api::publish(pool, t);
  }
  [[nodiscard]] std::string field_of(const object::foreign_pointer& f) const {
    const auto types = pool->engine->types();
    const layout::type_record* const r = types ? types->canonical(f.type) : nullptr;
    return r == nullptr ? "word " + std::to_string(f.at / 8)
                        : std::string{object::name_of(*r)} + "." + object::field_name_at(*r, f.at);
  }

  [[nodiscard]] std::uint32_t first_mark() const noexcept { return mark; }

  nvm_pool* pool;
  object::pointer_plans plans;
  std::uint32_t mark = 0;
};

// Checks objects without a type, if the pool, or this program, says that they may lead into programs.  errc::address:
// they lead into another program, and where cannot be told; both programs are named.
status expect_this_program(const nvm_pool* pool, const static_table& stored, const static_table& program) {
  const char* const path = pool->file->path();
  const std::string before{object::program_of(stored)}, now{object::program_of(program)};
  if (!static_registry::of_program().untyped_may_lead()) {
    return fail(errc::address,
                "%s: objects without a type lead into its program: found build %s, expected that one, or one that is "
                "compiled with -fnvm-statics too; this is build %s",
                path, before.c_str(), now.c_str());
  }
  const auto loaded = images();
  if (loaded.empty() || key_of(loaded.front()).empty()) {
    return fail(errc::address,
                "%s: objects without a type may lead into this program, which does not say which build it is: "
                "expected it to be linked with --build-id",
                path);
  }
  if (!untyped_may_lead(pool)) return {};
  if (const object::static_object* fixed = object::fixed_image_gone(stored, program); fixed != nullptr) {
    return fail(errc::address,
                "%s: objects without a type lead into a program at a fixed place: found build %s, expected that one, "
                "or one that is position-independent before and after; this is build %s",
                path, fixed->name.c_str(), now.c_str());
  }
  return {};
}

// Where a mark of tokens is looked for (static_pointers.hpp); 0: no word is guessed.
result<std::uint32_t> first_mark_of(const nvm_pool* pool, const static_table& stored) {
  constexpr std::uint32_t beginning = std::uint32_t{0x5A} << 24, ways = (1U << 24) - 4096;
  const bool typed_only = stored.state() == layout::static_state::passing && stored.mark() == 0;
  if (!untyped_may_lead(pool) || typed_only) return std::uint32_t{0};
  std::uint32_t random = 0;
  if (status s = platform::random_bytes(&random, sizeof random); !s) return s.error();
  return beginning + 1 + random % (ways - 1);
}

// A field that only a visitor knows would keep the address of another process.
status expect_visitors(nvm_pool* pool, const object::pointer_plans& plans) {
  if (!plans.lack_visitors()) return {};
  const auto found = object::description_of_all(*pool->engine, plans, true);
  if (!found) return found.error();
  if (found->empty()) return {};
  std::map<std::uint32_t, std::uint64_t> types;
  for (const auto& [type, t] : *found) types[type] = t.objects;
  return refuse_undescribed(pool, "it leads into programs, from objects whose visitors this program lacks", types);
}

status put_right_locked(nvm_pool* pool) {
  const auto takes_part = program_has_statics(pool);
  if (!takes_part) return takes_part.error();
  const bool refuses = untyped_may_lead(pool) && pool->types != NVM_TYPES_IGNORE && !pool->file->read_only();
  if (!*takes_part && !refuses) return {};
  static_table stored;
  {
    auto types = pool->engine->types();
    if (!types) return types.error();
    auto read = stored_table(*types);
    if (!read) return read.error();
    stored = std::move(*read);
  }
  const static_table program = static_registry::of_program().table(images);
  opened_pool host{pool, {}};
  if (refuses || static_registry::of_program().untyped_may_lead()) {
    if (status s = expect_this_program(pool, stored, program); !s) return s;
    const auto mark = first_mark_of(pool, stored);
    if (!mark) return mark.error();
    host.mark = *mark;
  }
  if (stored.state() == layout::static_state::passing || !program.says_all_of(stored)) {
    auto plans = plans_to_follow(pool);
    if (!plans) return plans.error();
    host.plans = std::move(*plans);
    if (host.mark != 0) host.plans.guess_static_pointers();
    if (status s = expect_visitors(pool, host.plans); !s) return s;
  }
  std::uint64_t moved = 0;
  if (status s = object::put_statics_right(host, stored, program, moved); !s) return s;
  // All that is stored there from now on belongs to this program, which the table names.
  if (static_registry::of_program().untyped_may_lead() && !pool->file->read_only()) {
    if (status s = pool->engine->add_feature(layout::feature_statics | layout::feature_untyped_statics); !s) return s;
  }
  pool->statics_are_right = true;
  return {};
}

}  // namespace

status put_statics_right(nvm_pool* pool) noexcept try {
  const platform::in_call here;
  const std::lock_guard guard{pool->types_lock};
  return if_intact(pool, put_right_locked(pool));
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "%s: no volatile memory for its static pointers", pool->file->path());
}

status add_statics(nvm_pool* pool) {
  const auto takes_part = program_has_statics(pool);
  if (!takes_part) return takes_part.error();
  if (!*takes_part || pool->file->read_only()) return {};
  auto types = pool->engine->types();
  if (!types) return types.error();
  const auto stored = stored_table(*types);
  if (!stored) return stored.error();
  const static_table program = static_registry::of_program().table(images);
  if (program.says_the_same(*stored) && stored->state() == layout::static_state::at_rest) return {};
  if (!pool->statics_are_right && !stored->none()) {
    return fail(errc::address,
                "%s: a library that was loaded while it is open knows fields that lead into programs: "
                "expected it to be loaded before",
                pool->file->path());
  }
  if (status s = publish(pool, later_table(*stored, program)); !s) return s;
  pool->statics_are_right = true;
  return {};
}

namespace {

// What look() found of each row.
struct found_statics {
  static_table table;
  std::vector<std::uint64_t> fields;
  std::uint64_t unknown = 0;
};
result<found_statics> statics_in(nvm_pool* pool) {
  const std::lock_guard guard{pool->types_lock};
  if (open_transactions(pool) != 0) {
    return fail(errc::tx_open, "%s: objects cannot be walked while a transaction is open", pool->file->path());
  }
  found_statics all;
  auto types = pool->engine->types();
  if (!types) return types.error();
  auto stored = stored_table(*types);
  if (!stored) return stored.error();
  all.table = std::move(*stored);
  object::pointer_plans plans{*types};
  if (untyped_may_lead(pool)) plans.guess_static_pointers();
  object::static_uses uses{all.table.rows().size()};
  object::relocation_report nothing;
  const static_mover looking{static_mover::pass::look, all.table, all.table, false, &uses};
  const all_pages_open stores{pool};
  if (status s = pool->engine->move_statics(plans, looking, nothing); !s) return s.error();
  for (std::uint32_t i = 0; i < all.table.rows().size(); ++i) all.fields.push_back(uses.of_row(i));
  all.unknown = uses.unknown();
  return all;
}

int each_of(const found_statics& all, int (*visit)(const nvm_static_info*, void*), void* argument) {
  const auto& rows = all.table.rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (all.fields[i] == 0) continue;
    const bool is_image = object::is_image(rows[i].kind);
    const auto image = is_image ? std::nullopt : all.table.find_around(rows[i].address).image;
    const nvm_static_info info{is_image ? nullptr : rows[i].name.c_str(),
                               is_image ? rows[i].name.c_str()
                               : image  ? rows[image->row].name.c_str()
                                        : nullptr,
                               all.fields[i]};
    if (const int stop = visit(&info, argument); stop != 0) return stop;
  }
  const nvm_static_info unknown{nullptr, nullptr, all.unknown};
  return all.unknown == 0 ? 0 : visit(&unknown, argument);
}

}  // namespace
}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

int nvm_register_statics(const nvm_static_object* objects, size_t count) {
  if (objects == nullptr && count != 0) return api::report(fail(errc::invalid, "the static objects are NULL"));
  return api::answer(api::static_registry::of_program().add(objects, count, api::images));
}

void nvm_statics_in_untyped(int may) {
  api::static_registry::of_program().untyped_may_lead(may != 0);
  if (may != 0) nvm::object::announce_image(__builtin_return_address(0));
}

int nvm_static(const char* name, const void* address, uint64_t bytes) {
  const nvm_static_object one{name, address, bytes};
  return nvm_register_statics(&one, 1);
}

int __nvm_leads_into_program(const void* p) {
  return api::static_registry::of_program().untyped_may_lead() && nvm::platform::is_in_image(p) ? 1 : 0;
}

int nvm_pool_each_static(NVM_POOL* pool, int (*visit)(const nvm_static_info*, void*), void* argument) try {
  if (pool == nullptr || visit == nullptr) return api::report(fail(errc::invalid, "the pool or the function is NULL"));
  std::optional<nvm::platform::in_call> here{std::in_place};
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  const auto found = api::statics_in(pool);
  const nvm::status whole = api::if_intact(pool, found ? nvm::status{} : nvm::status{found.error()});
  if (!whole) return api::report(whole.error());
  here.reset();
  return api::each_of(*found, visit, argument);
} catch (const std::bad_alloc&) {
  return api::report(fail(errc::no_memory, "no volatile memory for the static pointers"));
}

}  // extern "C"
