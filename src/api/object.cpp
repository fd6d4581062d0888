// Objects of the C interface: allocation with a type, free, resize, and what is known about one.
#include <cstring>
#include <iterator>
#include <optional>

#include "api/carried_exception.hpp"
#include "api/object_stores.hpp"
#include "api/pool_object.hpp"
#include "nvm/nvm.h"

namespace nvm::api {
namespace {

// The name of a call, and that of its counterpart inside of a barrier transaction.
struct call_names {
  const char* call;
  const char* in_barriers;
};
constexpr call_names alloc_call{"nvm_alloc()", "nvm_stm_alloc() or tx.make()"};
constexpr call_names free_call{"nvm_free()", "nvm_stm_free() or tx.free()"};
constexpr call_names realloc_call{"nvm_realloc()", "nvm_stm_alloc(), nvm_stm_copy() and nvm_stm_free()"};
constexpr call_names strdup_call{"nvm_strdup()", "nvm_stm_alloc() and nvm_stm_write()"};

result<entry*> transaction_for(NVM_POOL* pool, const call_names& names) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s.error();
  entry* e = thread_transactions::mine().in(pool);
  if (e == nullptr) {
    if (status s = not_in_barriers(names.call, names.in_barriers); !s) return s.error();
    return fail(errc::no_transaction, "%s: allocation and free need a transaction of this thread", pool->file->path());
  }
  return e;
}

// Offset of p in the pool; bad_pointer for anything outside its data.
result<std::uint64_t> offset_of(const NVM_POOL* pool, const void* p) noexcept {
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(pool->base());
  if (!pool->file->geometry().in_objects(offset, 1)) {
    if (!nvm_is_durable(p)) return fail(errc::bad_pointer, "%p is volatile memory", p);
    const pool_file* other = find_pool(p);
    if (other == nullptr || other == pool->file.get()) {
      return fail(errc::bad_pointer, "%p is not inside the data of %s", p, pool->file->path());
    }
    return fail(errc::bad_pointer, "%p belongs to %s, not to %s", p, other->path(), pool->file->path());
  }
  return offset;
}

std::uint64_t engines_payload(const NVM_POOL* pool, std::uint64_t payload) noexcept {
  return tx::engines_payload(pool->base(), pool->file->geometry().objects_offset(), payload,
                             [&](std::uint64_t place) { return pool->barriers.may_be_aligned(place); });
}

result<object_facts> facts_of(NVM_POOL* pool, const void* object) noexcept {
  if (pool == nullptr) return fail(errc::invalid, "the pool is NULL");
  if (status s = pool->file->usable(); !s) return s.error();
  auto offset = offset_of(pool, object);
  if (!offset) return offset.error();
  auto found = pool->engine->find(*offset);
  if (status s = intact(pool); !s) return s.error();
  if (!found && found.error() == errc::bad_pointer) {
    const std::uint64_t plain = engines_payload(pool, *offset);
    if (plain == 0) return found;
    found = pool->engine->find(plain);
  }
  if (found && found->payload != *offset) {
    return fail(errc::bad_pointer, "%p is inside an object, at whose payload %p pointers to it lead", object,
                static_cast<void*>(pool->base() + found->payload));
  }
  return found;
}

result<void*> allocate(NVM_POOL* pool, std::uint32_t type, std::uint64_t bytes, const call_names& names = alloc_call,
                       std::uint64_t alignment = layout::natural_alignment) noexcept {
  auto e = transaction_for(pool, names);
  if (!e) return e.error();
  open_transaction& t = *(*e)->transaction;
  if (alignment > layout::natural_alignment && pool->engine->translates()) {
    const errc code = fail(errc::engine, "%s is open with translated reads: its objects are aligned to %lu bytes",
                           pool->file->path(), layout::natural_alignment);
    t.doom(code);
    return code;
  }
  auto payload = tx::allocate_aligned(t, pool->base(), type, bytes, alignment, [&] { return admit_alignment(pool); });
  if (status s = if_intact(pool, payload ? status{} : status{payload.error()}); !s) {
    t.doom(s.error());
    return s.error();
  }
  clear_new(*pool, type, pool->base() + *payload, bytes);
  return static_cast<void*>(pool->base() + *payload);
}

// Allocates in the store of `old`, if that is in one: an object of a store moves within its store.
result<void*> allocate_beside(NVM_POOL* pool, const object_facts& old, std::uint32_t type,
                              std::uint64_t bytes) noexcept {
  const store_attachment of = store_holding(pool, old.payload);
  if (of.store == nullptr) return allocate(pool, type, bytes, realloc_call, old.aligned.bytes);
  auto e = transaction_for(pool, realloc_call);
  if (!e) return e.error();
  open_transaction& t = *(*e)->transaction;
  const auto payload = t.allocate_in(of, type, bytes);
  if (status s = if_intact(pool, payload ? status{} : status{payload.error()}); !s) {
    t.doom(s.error());
    return s.error();
  }
  clear_new(*pool, type, pool->base() + *payload, bytes);
  return static_cast<void*>(pool->base() + *payload);
}

// Before the size or type of an object changes.  A relocation that goes on in the background finds the pointers of a
// page by the headers of its objects, and a transaction's header may be taken back after that.  A page that a thread
// reads is right: this costs a load a page, as long as there are pages that are not.
void show_all_pages(NVM_POOL& pool, const object_facts& o) noexcept {
  // relaxed: a thread that still sees true asks under the lock of the relocation.
  if (!pool.relocating.load(std::memory_order_relaxed)) [[likely]]
    return;
  constexpr std::uint64_t worth_asking_bytes = 64 * 1024;
  if (o.bytes >= worth_asking_bytes && relocation_of(&pool).pages_left == 0) {
    pool.relocating.store(false, std::memory_order_relaxed);
    return;
  }
  const std::byte* const end = pool.base() + o.payload + o.bytes;
  for (const std::byte* at = pool.base() + o.header(); at < end; at += platform::page_bytes()) {
    (void)*const_cast<const volatile std::byte*>(at);
  }
  (void)*const_cast<const volatile std::byte*>(end - 1);
}

// Gives the object a new size inside its room: its header changes, and the bytes that are added become the
// transaction's.
status resize_in_place(NVM_POOL* pool, open_transaction& t, const object_facts& o, std::uint32_t type,
                       std::uint64_t bytes) noexcept {
  const std::uint64_t at = o.header();
  show_all_pages(*pool, o);
  // Without the count of references, which no program changes.
  constexpr std::uint64_t changed_bytes = offsetof(layout::object_header, references);
  const log::byte_range changed[] = {{at, changed_bytes}, {o.payload + o.bytes, bytes > o.bytes ? bytes - o.bytes : 0}};
  if (status s = t.announce(changed, std::size(changed)); !s) return s;
  // All of its room is accessible from here on: an abort may take the new size back.
  platform::memory_watch::accessible(pool->base() + o.payload, o.usable);
  auto* h = reinterpret_cast<layout::object_header*>(pool->base() + at);
  layout::object_header next = layout::make_object_header(bytes + o.aligned.padding(), type, at);
  next.size_generation_check |= h->size_generation_check & layout::alignment_mask;
  std::memcpy(h, &next, changed_bytes);
  if (bytes > o.bytes) clear_new(*pool, type, pool->base() + o.payload + o.bytes, bytes - o.bytes);
  return {};
}

// Asked after the call has stored an object's contents: on a page that is lost they are gone.
status stored_in(NVM_POOL* pool) noexcept {
  const status s = intact(pool);
  if (s) return s;
  if (entry* e = thread_transactions::mine().in(pool); e != nullptr) e->transaction->doom(s.error());
  return s;
}
void* zeroed(NVM_POOL* pool, void* p, std::size_t bytes) noexcept {
  std::memset(p, 0, bytes);
  const status s = stored_in(pool);
  return s ? p : report_null<void>(s.error());
}

}  // namespace

}  // namespace nvm::api

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

void* nvm_alloc(NVM_POOL* pool, uint32_t type_id, size_t size) {
  const nvm::platform::in_call here;
  auto p = api::allocate(pool, type_id, size);
  return p ? *p : api::report_null<void>(p.error());
}

void* nvm_calloc(NVM_POOL* pool, uint32_t type_id, size_t count, size_t size) {
  const nvm::platform::in_call here;
  const std::size_t bytes = nvm::checked_mul(count, size).value_or(SIZE_MAX);  // which is refused
  auto p = api::allocate(pool, type_id, bytes);
  return p ? api::zeroed(pool, *p, bytes) : api::report_null<void>(p.error());
}

void* nvm_alloc_aligned(NVM_POOL* pool, uint32_t type_id, size_t size, size_t alignment) {
  const nvm::platform::in_call here;
  auto p = api::allocate(pool, type_id, size, api::alloc_call, alignment);
  return p ? *p : api::report_null<void>(p.error());
}

void* nvm_calloc_aligned(NVM_POOL* pool, uint32_t type_id, size_t count, size_t size, size_t alignment) {
  const nvm::platform::in_call here;
  const std::size_t bytes = nvm::checked_mul(count, size).value_or(SIZE_MAX);  // which is refused
  auto p = api::allocate(pool, type_id, bytes, api::alloc_call, alignment);
  return p ? api::zeroed(pool, *p, bytes) : api::report_null<void>(p.error());
}

int nvm_free(NVM_POOL* pool, void* object) {
  if (object == nullptr) return 0;
  const nvm::platform::in_call here;
  auto e = api::transaction_for(pool, api::free_call);
  if (!e) return api::report(e.error());
  auto offset = api::offset_of(pool, object);
  if (!offset) return api::report(offset.error());
  if (nvm::status s = api::admits_change(*pool, *offset, 1); !s) return api::report(s.error());
  const nvm::status freed = api::if_intact(pool, api::let_go_at(pool, *(*e)->transaction, *offset));
  if (freed.error() == errc::io) (*e)->transaction->doom(errc::io);
  if (freed && pool->checked && !api::has_no_counts(*pool, *offset)) [[unlikely]]
    api::freeing(pool, object, __builtin_return_address(0));
  return api::answer(freed);
}

void* nvm_realloc(NVM_POOL* pool, void* object, uint32_t type_id, size_t size) {
  const nvm::platform::in_call here;
  if (object == nullptr) return nvm_alloc(pool, type_id, size);
  auto e = api::transaction_for(pool, api::realloc_call);
  if (!e) return api::report_null<void>(e.error());
  auto old = api::facts_of(pool, object);
  if (!old) return api::report_null<void>(old.error());
  if (nvm::status s = api::admits_change(*pool, old->header(), sizeof(nvm::layout::object_header)); !s) {
    return api::report_null<void>(s.error());
  }
  // Stays where it is unless it would waste more than half of its room; the room must fit the new size exactly, since
  // slots and size prove each other.
  // In home space the log says how large the room is.
  const nvm::geometry g = pool->file->geometry();
  const std::uint64_t padding = old->aligned.padding();
  const std::uint64_t room = old->usable + old->aligned.gap - sizeof(nvm::layout::object_header);
  const bool fits = size != 0 && size <= nvm::layout::object_bytes_max - padding;
  const bool same_slots =
      fits && (g.home_bytes != 0 ? size + padding <= room && size > old->usable / 2
                                 : nvm::layout::same_room(old->bytes + padding, size + padding, g.page_shift));
  // Of a new object only the bytes that were asked for become durable: to grow, it moves.
  if (same_slots && !(old->reserved && size > old->bytes)) {
    nvm::status s = api::resize_in_place(pool, *(*e)->transaction, *old, type_id, size);
    if (s) s = api::stored_in(pool);
    return s ? object : api::report_null<void>(s.error());
  }
  auto p = api::allocate_beside(pool, *old, type_id, size);
  if (!p) return api::report_null<void>(p.error());
  std::memcpy(*p, object, old->bytes < size ? old->bytes : size);
  if (nvm::status s = api::stored_in(pool); !s) return api::report_null<void>(s.error());
  if (nvm::status s = api::let_go_at(pool, *(*e)->transaction, old->header() + sizeof(nvm::layout::object_header));
      !s) {
    // The old object stays, so the new one must not.
    api::report(s.error());
    (void)nvm_free(pool, *p);
    api::report(s.error());
    return nullptr;
  }
  return *p;
}

char* nvm_strdup(NVM_POOL* pool, const char* text) {
  const nvm::platform::in_call here;
  if (text == nullptr) return api::report_null<char>(fail(errc::invalid, "the text is NULL"));
  const size_t bytes = std::strlen(text) + 1;
  auto p = api::allocate(pool, nvm::layout::type_of_text, bytes, api::strdup_call);
  if (!p) return api::report_null<char>(p.error());
  std::memcpy(*p, text, bytes);
  if (nvm::status s = api::stored_in(pool); !s) return api::report_null<char>(s.error());
  return static_cast<char*>(*p);
}

size_t nvm_size_of(NVM_POOL* pool, const void* object) {
  const nvm::platform::in_call here;
  auto o = api::facts_of(pool, object);
  if (o) return o->bytes;
  api::report(o.error());
  return 0;
}

uint32_t nvm_type_of(NVM_POOL* pool, const void* object) {
  const nvm::platform::in_call here;
  auto o = api::facts_of(pool, object);
  if (o) return o->type;
  api::report(o.error());
  return 0;
}

int nvm_pool_each(NVM_POOL* pool, int (*visit)(void*, uint32_t, size_t, void*), void* argument) {
  if (pool == nullptr || visit == nullptr) return api::report(fail(errc::invalid, "the pool or the function is NULL"));
  std::optional<nvm::platform::in_call> here{std::in_place};
  if (nvm::status s = pool->file->usable(); !s) return api::report(s.error());
  const api::all_pages_open stores{pool};
  std::unique_lock<std::mutex> resting;
  if (pool->references != nullptr) resting = pool->references->hold_thread();
  if (pool->engine->open_transactions() != 0) {
    return api::report(
        fail(errc::tx_open, "%s: objects cannot be walked while a transaction is open", pool->file->path()));
  }
  struct context {
    NVM_POOL* pool;
    int (*visit)(void*, uint32_t, size_t, void*);
    void* argument;
    api::carried_exception thrown;
  } c{pool, visit, argument, {}};
  c.thrown.of(*pool->file);
  auto answer = pool->engine->each(
      [](void* raw, const api::object_facts& o) {
        auto* k = static_cast<context*>(raw);
        return k->thrown.call([&] { return k->visit(k->pool->base() + o.payload, o.type, o.bytes, k->argument); }, 1);
      },
      &c);
  const nvm::status whole = api::if_intact(pool, answer ? nvm::status{} : nvm::status{answer.error()});
  here.reset();
  c.thrown.go_on();
  return whole ? *answer : api::report(whole.error());
}

}  // extern "C"
