// Types of the C interface: those of the program, those of a pool, and their meeting when a pool is opened.
#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "nvm/describe.h"
#include "object/described_type.hpp"
#include "object/static_table.hpp"

namespace nvm::api {
namespace {

using object::type_comparison;
using object::type_map;

static_assert(NVM_FIELD_SIGNED == static_cast<int>(layout::field_kind::signed_integer) &&
              NVM_FIELD_POINTER == static_cast<int>(layout::field_kind::pointer) &&
              NVM_FIELD_STRUCTURE == static_cast<int>(layout::field_kind::structure) &&
              NVM_FIELD_WEAK_POINTER == static_cast<int>(layout::field_kind::weak_pointer) &&
              NVM_FIELD_UNION == static_cast<int>(layout::field_kind::tagged_union) &&
              NVM_FIELD_RESET == static_cast<int>(layout::field_kind::reset));

// Whether the pool holds an object whose type `concerned` says.  The pool has no open transaction.
template <class Concerned>
result<bool> holds_object(nvm_pool* pool, const Concerned& concerned) {
  const all_pages_open stores{pool};
  auto found = pool->engine->each(
      [](void* raw, const object_facts& o) { return (*static_cast<const Concerned*>(raw))(o.type) ? 1 : 0; },
      const_cast<Concerned*>(&concerned));
  if (!found) return found.error();
  return *found != 0;
}

status mismatch(const nvm_pool* pool, const object::type_difference& d) noexcept {
  char stored[170];
  char ours[170];
  object::describe(*d.stored, stored, sizeof stored);
  object::describe(*d.ours, ours, sizeof ours);
  return fail(errc::type_mismatch,
              "%s holds objects of a type that has another layout in this program: found %s, "
              "expected %s",
              pool->file->path(), stored, ours);
}

// errc::type_mismatch: an object of the pool is of a type whose layout there is not that of the program.  A program
// that accepts other layouts reads old objects itself, before fields of the new layout are made zero.  May throw
// std::bad_alloc.
status expect_same_layouts(nvm_pool* pool, type_comparison c, const type_map& stored) {
  if (pool->types == NVM_TYPES_ACCEPT) {
    std::erase_if(c.differing, [](const object::type_difference& d) {
      return !object::has_reset_fields(*d.stored) && !object::has_reset_fields(*d.ours);
    });
  }
  if (c.differing.empty()) return {};
  // The objects of open transactions are unknown: a library that is loaded late is then refused.
  if (open_transactions(pool) == 0) {
    auto held = holds_object(pool, [&](std::uint32_t type) { return object::concerns(c, stored, type); });
    if (!held) return held.error();
    if (!*held) return {};
  }
  return mismatch(pool, c.differing.front());
}

// errc::type_mismatch: an object of the pool is of a type that the pool's map lacks, and that the program says has
// fields which are NVM_RESET.  A program that accepts other layouts says that these are the objects'.  May throw
// std::bad_alloc.
status expect_known_layouts(nvm_pool* pool, const type_map& stored, const type_map& ours) {
  if (pool->types == NVM_TYPES_ACCEPT || open_transactions(pool) != 0) return {};
  std::vector<const layout::type_record*> unknown;  // by ascending id
  for (const layout::type_record* r : ours.records()) {
    if (stored.find(r->id) == nullptr && object::has_reset_fields(*ours.canonical(r->id))) unknown.push_back(r);
  }
  if (unknown.empty()) return {};
  const layout::type_record* of = nullptr;
  auto held = holds_object(pool, [&](std::uint32_t type) {
    const auto at = std::lower_bound(unknown.begin(), unknown.end(), type,
                                     [](const layout::type_record* r, std::uint32_t id) { return r->id < id; });
    if (at == unknown.end() || (*at)->id != type) return false;
    of = *at;
    return true;
  });
  if (!held) return held.error();
  if (!*held) return {};
  return fail(errc::type_mismatch,
              "%s holds objects of type %s, which has fields that are NVM_RESET, and does not know its layout; "
              "NVM_TYPES_ACCEPT says that they have the program's",
              pool->file->path(), object::name_of(*of));
}

// The types of both maps.  Libraries that do not know of fields that are NVM_RESET must not open the pool: what these
// hold would seem to mean something, and repair would drop the map.
status write_types(nvm_pool* pool, const type_map& stored, const type_map& ours) {
  if (object::have_reset_fields(stored) || object::have_reset_fields(ours)) {
    if (status s = pool->engine->add_feature(layout::feature_reset); !s) return s;
  }
  const auto map = object::with_statics(merge_types(stored, ours), stored.statics());
  return in_own_transaction(pool, [&](tx::open_transaction& t) { return t.publish_types(map.data(), map.size() * 8); });
}

// errc::engine: a type has fields that the pool's engine cannot keep without a log.
status admit_reset_fields(const nvm_pool* pool, const type_map& ours) {
  if (!pool->engine->rebuilds_pages() || !object::have_reset_fields(ours)) return {};
  object::reset_report none;
  return pool->engine->reset_fields(object::reset_plans{ours}, none);
}

// `opening`: static pointers are put right afterwards.
status update_locked(nvm_pool* pool, bool opening) {
  auto& program = object::type_registry::of_program();
  const unsigned now = program.generation();
  if (pool->types != NVM_TYPES_IGNORE) {
    auto ours = program.types();
    if (!ours) return ours.error();
    auto stored = pool->engine->types();
    if (!stored) return stored.error();
    const type_comparison c =
        compare_types(*stored, (*ours)->map, opening ? object::when::at_open : object::when::later);
    // Before the pool has such a type.
    if (status s = admit_reset_fields(pool, (*ours)->map); !s) return s;
    if (status s = expect_same_layouts(pool, c, *stored); !s) return s;
    if (status s = expect_known_layouts(pool, *stored, (*ours)->map); !s) return s;
    if (c.changes && !pool->file->read_only()) {
      const status s = write_types(pool, *stored, (*ours)->map);
      // Data that can be read and freed without their description are worth more than a refusal.
      if (!s && s.error() != errc::no_space) return s;
      if (pool->references != nullptr) {
        if (status known = pool->references->learn_types(); !known) return known;
      }
    }
    if (opening) pool->compared = std::move(*ours);
  }
  if (!opening) {
    if (status s = add_statics(pool); !s) return s;
  }
  pool->types_seen.store(now, std::memory_order_relaxed);
  return {};
}

// Ids of the types whose objects may have the pool's layout or another one of the program, ascending.  May throw
// std::bad_alloc.
std::vector<std::uint32_t> ignored_differences(const type_map& stored) {
  std::vector<std::uint32_t> ids;
  const auto ours = object::type_registry::of_program().types();
  if (!ours) {  // the program contradicts itself
    for (const layout::type_record* r : stored.records()) ids.push_back(r->id);
    return ids;
  }
  for (const object::type_difference& d : compare_types(stored, (*ours)->map).differing) ids.push_back(d.stored->id);
  return ids;
}

// Fields that the pool or the program says are NVM_RESET.  The program's word counts where both have the type: they
// agree by now, or no object is of the type.
status reset_locked(nvm_pool* pool) {
  const auto ours = std::exchange(pool->compared, nullptr);
  auto stored = pool->engine->types();
  // A damaged map has refused programs with types already, and is in nobody else's way.
  if (!stored && stored.error() == errc::corrupt) stored = type_map{};
  if (!stored) return stored.error();
  if (!object::have_reset_fields(*stored) && (ours == nullptr || !object::have_reset_fields(ours->map))) return {};
  object::reset_plans plans;
  if (ours != nullptr) plans.add(ours->map);
  plans.add(*stored, pool->types == NVM_TYPES_IGNORE ? ignored_differences(*stored) : std::vector<std::uint32_t>{});
  if (plans.none()) return {};
  object::reset_report done;
  return pool->engine->reset_fields(plans, done);
}

struct visit_context {
  int (*visit)(const nvm_type_info*, void*);
  void* argument;
};

// May throw std::bad_alloc.
int each_of(const type_map& map, const visit_context& c) {
  std::vector<nvm_field_info> fields;
  for (const layout::type_record* r : map.records()) {
    const layout::type_record* meant = map.canonical(r->id);
    fields.clear();
    for (std::uint32_t i = 0; i < meant->fields; ++i) {
      const layout::type_field& f = object::fields_of(*meant)[i];
      const bool tagged = f.kind == layout::field_kind::tagged_union;
      fields.push_back({object::text_at(*meant, f.name), f.offset, f.element_bytes, f.count,
                        static_cast<std::uint32_t>(f.kind), tagged ? 0 : f.target, f.inner, 0,
                        object::tag_of(*meant, f)});
    }
    nvm_type_info info{};
    info.id = r->id;
    info.canonical_id = meant->id;
    info.name = object::name_of(*r);
    info.size = meant->size;
    info.fingerprint = meant->fingerprint;
    info.align = meant->align;
    info.field_count = meant->fields;
    info.fields = fields.data();
    if (const int stop = c.visit(&info, c.argument); stop != 0) return stop;
  }
  return 0;
}

// Objects of unknown types in a pool without open transactions.  May throw std::bad_alloc.
result<object::undescribed_types> undescribed_in(nvm_pool* pool) {
  const std::lock_guard guard{pool->types_lock};
  if (open_transactions(pool) != 0) {
    return fail(errc::tx_open, "%s: objects cannot be walked while a transaction is open", pool->file->path());
  }
  auto stored = pool->engine->types();
  if (!stored) return stored.error();
  const object::pointer_plans plans{*stored};
  return object::description_of_all(*pool->engine, plans, untyped_are_bytes(pool));
}

}  // namespace

result<object::pointer_plans> plans_to_follow(nvm_pool* pool) {
  auto stored = pool->engine->types();
  if (!stored) return stored.error();
  if (pool->types == NVM_TYPES_IGNORE) {
    auto ours = object::type_registry::of_program().types();
    if (!ours) return ours.error();
    if (const auto c = compare_types(*stored, (*ours)->map); !c.differing.empty()) {
      char theirs[170];
      object::describe(*c.differing.front().stored, theirs, sizeof theirs);
      return fail(errc::type_mismatch,
                  "%s: a type has another layout in this program, and its objects may be either: found %s",
                  pool->file->path(), theirs);
    }
  }
  object::pointer_plans plans{*stored};
  plans.untyped_are_bytes(untyped_are_bytes(pool));
  return plans;
}

status refuse_undescribed(const nvm_pool* pool, const char* why, const std::map<std::uint32_t, std::uint64_t>& types) {
  std::string list;
  std::size_t named = 0;
  for (const auto& [type, n] : types) {
    if (named++ == 6) break;
    char text[64];
    std::snprintf(text, sizeof text, "%s%lu of type 0x%08x", list.empty() ? "" : ", ", n, type);
    list += text;
  }
  if (types.size() > 6) list += ", and more";
  return fail(errc::type_mismatch, "%s: %s: %s", pool->file->path(), why, list.c_str());
}

status update_types(nvm_pool* pool) noexcept try {
  const platform::in_call here;
  const std::lock_guard guard{pool->types_lock};
  if (has_types(pool)) return {};
  return if_intact(pool, update_locked(pool, !pool->opened));
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "%s: no volatile memory for the types of the program", pool->file->path());
}

status reset_fields(nvm_pool* pool) noexcept try {
  const std::lock_guard guard{pool->types_lock};
  return if_intact(pool, reset_locked(pool));
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "%s: no volatile memory for the fields to be reset", pool->file->path());
}

}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

int nvm_register_types(const void* layouts, size_t bytes) {
  if (layouts == nullptr) return api::report(fail(errc::invalid, "the layouts are NULL"));
  return api::answer(nvm::object::type_registry::of_program().add(layouts, bytes));
}

int nvm_describe_type(const nvm_type_description* type) try {
  if (type == nullptr || type->name == nullptr || (type->field_count != 0 && type->fields == nullptr)) {
    return api::report(fail(errc::invalid, "the type, its name or its fields are NULL"));
  }
  const auto map = nvm::object::map_of(*type);
  auto& program = nvm::object::type_registry::of_program();
  const nvm::status added = program.add(map.data(), map.size() * 8);
  if (added) return 0;
  const std::string why = nvm::last_message();
  return api::report(program.lacks(fail(added.error(), "the description of %s: %s", type->name, why.c_str())).error());
} catch (const std::bad_alloc&) {
  return api::report(fail(errc::no_memory, "no volatile memory for the description of %s", type->name));
}

int nvm_register_visitor(uint32_t type_id, nvm_visitor function) {
  if (function == nullptr) return api::report(fail(errc::invalid, "the visitor of type id 0x%x is NULL", type_id));
  return api::answer(nvm::object::visitor_registry::of_program().add(type_id, function));
}

void nvm_visit_field(nvm_visit* visit, const void* field, enum nvm_field_kind kind) {
  visit->tell(visit, field, static_cast<std::uint32_t>(kind));
}

int nvm_pool_each_type(NVM_POOL* pool, int (*visit)(const nvm_type_info*, void*), void* argument) try {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  const api::visit_context c{visit, argument};
  if (pool == nullptr) {
    auto ours = nvm::object::type_registry::of_program().types();
    return ours ? api::each_of((*ours)->map, c) : api::report(ours.error());
  }
  std::optional<nvm::platform::in_call> here{std::in_place};
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  // A copy, so that the function may do what it likes, begin transactions for example.
  std::vector<std::uint64_t> copy;
  nvm::object::type_map map;
  {
    const std::lock_guard guard{pool->types_lock};
    auto stored = pool->engine->types();
    if (!stored) return api::report(api::if_intact(pool, stored.error()).error());
    if (!stored->records().empty()) copy = merge_types(*stored, {});
  }
  if (nvm::status s = api::intact(pool); !s) return api::report(s.error());
  if (copy.empty()) return 0;
  here.reset();
  auto read = nvm::object::type_map::read(reinterpret_cast<const std::byte*>(copy.data()), copy.size() * 8);
  return read ? api::each_of(*read, c) : api::report(read.error());
} catch (const std::bad_alloc&) {
  return api::report(fail(errc::no_memory, "no volatile memory for the types"));
}

int nvm_pool_each_undescribed(NVM_POOL* pool, int (*visit)(uint32_t, uint64_t, uint32_t, void*), void* argument) try {
  if (pool == nullptr || visit == nullptr) return api::report(fail(errc::invalid, "the pool or the function is NULL"));
  std::optional<nvm::platform::in_call> here{std::in_place};
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  const auto found = api::undescribed_in(pool);
  const nvm::status whole = api::if_intact(pool, found ? nvm::status{} : nvm::status{found.error()});
  if (!whole) return api::report(whole.error());
  here.reset();
  for (const auto& [type, t] : *found) {
    if (const int stop = visit(type, t.objects, t.visitor_of, argument); stop != 0) return stop;
  }
  return 0;
} catch (const std::bad_alloc&) {
  return api::report(fail(errc::no_memory, "no volatile memory for the types"));
}

}  // extern "C"
