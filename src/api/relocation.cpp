// Relocation of a pool that is being opened at an address that its stored pointers do not all assume.
#include <cinttypes>
#include <new>

#include "api/pool_object.hpp"
#include "nvm/nvm.h"

namespace nvm::api {
namespace {

static_assert(object::relocation_report::shown_max ==
              sizeof(nvm_relocation_report::first_foreign) / sizeof(nvm_relocation_report::first_foreign[0]));

// What pool and program together know of the types of a pool's objects.  Where they differ the pool's map counts: it is
// that of the program that made the objects.  May throw std::bad_alloc.
result<object::pointer_plans> plans_of(nvm_pool* pool) {
  auto ours = object::type_registry::of_program().types();
  if (!ours) return ours.error();
  const std::lock_guard guard{pool->types_lock};
  auto stored = pool->engine->types();
  if (!stored) return stored.error();
  const object::type_map& program = (*ours)->map;
  const bool agree = pool->types != NVM_TYPES_IGNORE && compare_types(*stored, program).differing.empty();
  const object::type_map_writer::words all = agree ? merge_types(*stored, program) : merge_types(program, *stored);
  auto map = object::type_map::read(reinterpret_cast<const std::byte*>(all.data()), all.size() * 8);
  if (!map) return map.error();
  object::pointer_plans plans{*map};
  plans.untyped_are_bytes(untyped_are_bytes(pool));
  return plans;
}

void fill(nvm_relocation_report& out, const object::relocation_report& r, const std::byte* base) noexcept {
  out.objects = r.objects;
  out.pointers = r.pointers;
  out.moved = r.moved;
  out.foreign = r.foreign;
  for (std::size_t i = 0; i < r.first.size() && i < r.foreign; ++i) {
    const object::foreign_pointer& f = r.first[i];
    out.first_foreign[i] = {base + f.object, f.at, f.value, f.type};
  }
}

}  // namespace

nvm_relocation_report relocation_of(nvm_pool* pool) noexcept {
  nvm_relocation_report out = pool->relocated;
  object::relocation_report since;
  pool->engine->add_relocated(since, out.pages_left);
  if (since.objects != 0 || since.pointers != 0) fill(out, since, pool->base());
  return out;
}

status relocate_if_needed(nvm_pool* pool, std::uint32_t how) noexcept try {
  pool_file& file = *pool->file;
  if (!file.must_relocate()) return {};
  nvm_relocation_report& out = pool->relocated;
  out.from = file.superblock().base_address;
  out.bases = file.bases().count + (file.bases().has(file.address()) ? 0 : 1);
  if (how == NVM_RELOCATE_NEVER) {
    return fail(errc::address, "its pointers assume %" PRIu64 " addresses: it has to be relocated", out.bases);
  }
  const std::uint64_t since = platform::monotonic_ns();
  const auto plans = plans_of(pool);
  if (!plans) return plans.error();
  const auto way = how == NVM_RELOCATE_TRANSACTIONS ? object::relocation_way::by_number
                   : how == NVM_RELOCATE_LAZY       ? object::relocation_way::by_page
                                                    : object::relocation_way::by_value;
  object::relocation_report r;
  if (status s = pool->engine->relocate(*plans, way, r); !s) return s;
  fill(out, r, pool->base());
  // relaxed: no other thread has the pool yet.
  pool->relocating.store(relocation_of(pool).pages_left != 0, std::memory_order_relaxed);
  out.duration_ns = platform::monotonic_ns() - since;
  return {};
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory to relocate it");
}

}  // namespace nvm::api
