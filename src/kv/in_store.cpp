// The calls of nvm/store_kv.h: key-value stores that lie in an object store, with a registry for each that is attached.
//
// Lock order: registry, transactions.  The lock of object stores is taken before, and not held: a thread that detaches
// a store shuts the registry first.
#include "nvm/store_kv.h"

#include <memory>
#include <new>
#include <optional>

#include "base/given_options.hpp"
#include "kv/open_stores.hpp"

namespace nvm::keyed {
namespace {

// call(stores) -> status, outside of transactions.
template <class Call>
status on_stores_in(nvm_store* store, const char* name, Call&& call) noexcept try {
  if (store == nullptr) return fail(errc::invalid, "the store is NULL");
  if (status s = store->pool->file->usable(); !s) return s;
  if (status s = not_in_barriers(name, "it before the transaction or after it"); !s) return s;
  if (status s = not_in_announced(); !s) return s;
  const auto all = api::object_stores::of(store->pool);
  if (!all) return all.error();
  const auto contents = (*all)->contents(*store, api::contents_of::key_values, [&](engines::store_side& side) {
    return std::make_shared<stores>(*store, side);
  });
  if (!contents) return contents.error();
  // Held until then: after a detach and some hundred others the registry may be freed.
  return answer_about_names(store->pool, call(static_cast<stores&>(**contents)));
} catch (const std::bad_alloc&) {
  return fail(errc::no_memory, "no volatile memory for a key-value store");
}

}  // namespace
}  // namespace nvm::keyed

namespace api = nvm::api;
using nvm::errc;
using nvm::fail;

extern "C" {

nvm_kv* nvm_kv_open_in(nvm_store* store, const char* name, const nvm_kv_options* options) {
  const nvm::platform::in_call here;
  const auto known = nvm::given_options<56>(options, "nvm_kv_options");
  if (!known) return api::report_null<nvm_kv>(known.error());
  const nvm_kv_options& o = *known;
  if (nvm::status s = keyed::check_name(name); !s) return api::report_null<nvm_kv>(s.error());
  if (nvm::status s = keyed::check_options(o); !s) return api::report_null<nvm_kv>(s.error());
  nvm_kv* out = nullptr;
  const nvm::status s = keyed::on_stores_in(store, "nvm_kv_open_in()",
                                            [&](keyed::stores& all) { return keyed::open_named(all, name, o, out); });
  return s ? out : api::report_null<nvm_kv>(s.error());
}

int nvm_kv_each_in(nvm_store* store, int (*visit)(const char*, enum nvm_kv_index, void*), void* argument) {
  if (visit == nullptr) return api::report(fail(errc::invalid, "the function is NULL"));
  std::vector<keyed::named_index> found;
  {
    const nvm::platform::in_call here;
    const nvm::status s = keyed::on_stores_in(store, "nvm_kv_each_in()",
                                              [&](keyed::stores& all) { return keyed::list_stores(all, found); });
    if (!s) return api::report(s.error());
  }
  for (const auto& [name, index] : found) {
    if (const int stop = visit(name.c_str(), index, argument); stop != 0) return stop;
  }
  return 0;
}

int nvm_kv_drop_in(nvm_store* store, const char* name) {
  const nvm::platform::in_call here;
  if (nvm::status s = keyed::check_name(name); !s) return api::report(s.error());
  return api::answer(
      keyed::on_stores_in(store, "nvm_kv_drop_in()", [&](keyed::stores& all) { return keyed::drop_store(all, name); }));
}

int nvm_kv_rename_in(nvm_store* store, const char* name, const char* new_name) {
  const nvm::platform::in_call here;
  if (nvm::status s = keyed::check_name(name); !s) return api::report(s.error());
  if (nvm::status s = keyed::check_name(new_name); !s) return api::report(s.error());
  return api::answer(keyed::on_stores_in(store, "nvm_kv_rename_in()",
                                         [&](keyed::stores& all) { return keyed::rename_store(all, name, new_name); }));
}

nvm_store* nvm_kv_store_of(const nvm_kv* kv) { return kv == nullptr ? nullptr : kv->of.home; }

}  // extern "C"
