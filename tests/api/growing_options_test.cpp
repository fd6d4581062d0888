// Structs of options of another length than the library's: of programs compiled with an older or a newer header.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <type_traits>

#include "nvm/gc.h"
#include "nvm/kv.h"
#include "nvm/lockfree.h"
#include "nvm/log.h"
#include "nvm/region.h"
#include "nvm/space.h"
#include "nvm/store.h"
#include "nvm/tier.h"
#include "scratch.hpp"

namespace nvm::tests {
namespace {

constexpr std::size_t longest = 4096;

// The first fields of a struct that goes on.
template <class Options>
struct longer {
  Options known{};
  unsigned char more[longest + 16 - sizeof(Options)] = {};
};

void expect_invalid(bool accepted, const char* part) {
  EXPECT_FALSE(accepted) << part;
  EXPECT_EQ(nvm_errno(), NVM_E_INVALID) << part;
  EXPECT_NE(std::string{nvm_errormsg()}.find(part), std::string::npos) << nvm_errormsg() << ", expected: " << part;
}

// call(options): whether they were accepted.
template <class Options, class Call>
void expect_lengths(const char* name, Call&& call) {
  SCOPED_TRACE(name);
  using length = decltype(Options::struct_bytes);
  longer<Options> o;
  const auto told = [&](std::size_t bytes) {
    o.known.struct_bytes = static_cast<length>(bytes);
    return call(&o.known);
  };
  for (const std::size_t bytes : {std::size_t{0}, sizeof(Options), sizeof(Options) + 8, longest}) {
    EXPECT_TRUE(told(bytes)) << bytes << ": " << nvm_errormsg();
  }
  for (const std::size_t bytes : {std::size_t{1}, sizeof(Options) - 1, longest + 1}) {
    const std::string found = "struct_bytes: found " + std::to_string(bytes) + ", expected 0, or ";
    expect_invalid(told(bytes), found.c_str());
  }
  // A field of a later release, and one at the very end.
  for (const std::size_t at : {std::size_t{0}, sizeof(Options) % 16 + 3, longest - sizeof(Options) - 1}) {
    o.more[at] = 1;
    EXPECT_TRUE(told(0)) << "the program does not say that it has the field: " << nvm_errormsg();
    EXPECT_TRUE(told(sizeof(Options))) << nvm_errormsg();
    EXPECT_TRUE(told(sizeof(Options) + at)) << nvm_errormsg();
    const std::string found = std::string{name} + ": a field at byte " + std::to_string(sizeof(Options) + at);
    expect_invalid(told(longest), found.c_str());
    o.more[at] = 0;
  }
  // The last word that the library knows: a reserved one.
  for (const std::size_t bytes : {std::size_t{0}, sizeof(Options)}) {
    Options reserved{};
    reserved.struct_bytes = static_cast<length>(bytes);
    reinterpret_cast<unsigned char*>(&reserved)[sizeof reserved - 1] = 1;
    expect_invalid(call(&reserved), (std::string{"a reserved field of "} + name + " is ").c_str());
  }
}

TEST(growing_options, are_read_as_far_as_both_sides_know_them) {
  const scratch s{false};
  NVM_POOL* const pool = s.create();
  ASSERT_NE(pool, nullptr);
  expect_lengths<nvm_gc_options>("nvm_gc_options",
                                 [&](const nvm_gc_options* o) { return nvm_gc(pool, o, nullptr) == 0; });
  expect_lengths<nvm_kv_options>("nvm_kv_options", [&](const nvm_kv_options* o) {
    nvm_kv* const kv = nvm_kv_open(pool, "kv", o);
    return kv != nullptr && nvm_kv_close(kv) == 0;
  });
  expect_lengths<nvm_kv_drop_options>("nvm_kv_drop_options", [&](const nvm_kv_drop_options* o) {
    nvm_kv* const kv = nvm_kv_open(pool, "dropped", nullptr);
    EXPECT_NE(kv, nullptr) << nvm_errormsg();
    EXPECT_EQ(nvm_kv_close(kv), 0);
    return nvm_kv_drop_with(pool, "dropped", o) == 0;
  });
  expect_lengths<nvm_lf_options>("nvm_lf_options", [&](const nvm_lf_options* o) {
    nvm_lf* const lf = nvm_lf_open(pool, "lf", o);
    return lf != nullptr && nvm_lf_close(lf) == 0;
  });
  expect_lengths<nvm_regions_options>("nvm_regions_options", [&](const nvm_regions_options* o) {
    return nvm_regions_open(pool, "regions", o) != nullptr;
  });
  expect_lengths<nvm_trim_options>("nvm_trim_options",
                                   [&](const nvm_trim_options* o) { return nvm_pool_trim(pool, o, nullptr) == 0; });
  expect_lengths<nvm_store_options>("nvm_store_options", [&](const nvm_store_options* o) {
    return nvm_store_create(pool, "store", o) == 0 && nvm_store_delete(pool, "store") == 0;
  });
  expect_lengths<nvm_stores_options>("nvm_stores_options",
                                     [&](const nvm_stores_options* o) { return nvm_stores_configure(pool, o) == 0; });
  nvm_store* const kept = nvm_store_attach(pool, "kept", NVM_STORE_CREATE);
  ASSERT_NE(kept, nullptr) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_begin(pool), 0) << nvm_errormsg();
  EXPECT_EQ(nvm_store_set_root(kept, nvm_store_strdup(kept, "root")), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_tx_commit(pool), 0) << nvm_errormsg();
  ASSERT_EQ(nvm_store_detach(kept), 0) << nvm_errormsg();
  expect_lengths<nvm_store_gc_options>("nvm_store_gc_options", [&](const nvm_store_gc_options* o) {
    return nvm_store_gc(pool, "kept", o, nullptr) == 0;
  });
  EXPECT_EQ(nvm_pool_close(pool), 0) << nvm_errormsg();

  const std::string path = s.path();
  expect_lengths<nvm_check_options>("nvm_check_options", [&](const nvm_check_options* o) {
    return nvm_pool_check_with(path.c_str(), o, nullptr) == 0;
  });
  expect_lengths<nvm_kv_salvage_options>("nvm_kv_salvage_options", [&](const nvm_kv_salvage_options* o) {
    return nvm_kv_salvage(path.c_str(), "kv", o) == 0;
  });
}

TEST(growing_options, of_pools_are_read_as_far_as_both_sides_know_them) {
  const scratch s{false};
  const std::string path = s.path();
  const auto opens = [&](const nvm_pool_options* o) {
    NVM_POOL* const pool = nvm_pool_open_or_create(path.c_str(), o);
    return pool != nullptr && nvm_pool_close(pool) == 0;
  };
  nvm_pool_options o{};
  expect_lengths<nvm_pool_options>("nvm_pool_options", opens);
  expect_lengths<nvm_log_options>("nvm_log_options", [&](const nvm_log_options* log) {
    o = {};
    o.log = log;
    return opens(&o);
  });
  expect_lengths<nvm_tier_options>("nvm_tier_options", [&](const nvm_tier_options* tier) {
    longer<nvm_tier_options> with_path;
    std::memcpy(static_cast<void*>(&with_path), tier,
                tier->struct_bytes > sizeof(nvm_tier_options) ? longest : sizeof *tier);
    const std::string second = s.path("second");
    with_path.known.path = second.c_str();
    with_path.known.fast_bytes = std::uint64_t{1} << 20;
    const std::string first = s.path("first");
    o = {};
    o.tier = &with_path.known;
    NVM_POOL* const pool = nvm_pool_open_or_create(first.c_str(), &o);
    return pool != nullptr && nvm_pool_close(pool) == 0;
  });
}

}  // namespace
}  // namespace nvm::tests
