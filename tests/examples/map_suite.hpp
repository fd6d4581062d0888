// One suite for every example structure: random steps compared with std::map after each.
//
// `Calls` adapts a structure: types `handle`, static create, open, close, put, get, remove, count, check, contents.
// With EXAMPLE_DURABLE the structure lives in a pool, which steps also close, open and roll back.
#pragma once

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#ifdef EXAMPLE_DURABLE
#include "durable_pool.hpp"
#endif

namespace examples {

using model = std::map<std::uint64_t, std::string>;

#ifdef EXAMPLE_DURABLE

template <class Calls>
class subject {
 public:
  explicit subject(nvm_medium medium = NVM_MEDIUM_SHM) : pool_(medium), handle_(Calls::create(pool_.get())) {}
  ~subject() { Calls::close(handle_); }
  typename Calls::handle operator*() const { return handle_; }

  void reopen() {
    Calls::close(std::exchange(handle_, nullptr));
    pool_.reopen();
    handle_ = Calls::open(pool_.get());
  }
  // Runs f in a transaction, which commits or not.
  template <class F>
  void in_transaction(bool commits, F f) {
    RC_ASSERT(nvm_tx_begin(pool_.get()) == 0);
    f();
    RC_ASSERT((commits ? nvm_tx_commit(pool_.get()) : nvm_tx_abort(pool_.get())) == 0);
  }

 private:
  durable_pool pool_;
  typename Calls::handle handle_;
};

#else

template <class Calls>
class subject {
 public:
  subject() : handle_(Calls::create()) {}
  ~subject() { Calls::close(handle_); }
  typename Calls::handle operator*() const { return handle_; }
  void reopen() {}
  template <class F>
  void in_transaction(bool commits, F f) {
    if (commits) f();
  }

 private:
  typename Calls::handle handle_;
};

#endif

// One step, for the keys first, first + stride, ... (count of them).
struct step {
  enum kind { put, remove, put_aborted, remove_aborted, put_at_once, put_level_aborted, reopen, kinds } what;
  std::uint64_t first;
  unsigned count, stride;
  std::size_t size;
};

inline std::ostream& operator<<(std::ostream& out, const step& s) {
  static const char* const names[] = {
      "put", "remove", "put_aborted", "remove_aborted", "put_at_once", "put_level_aborted", "reopen"};
  return out << names[s.what] << '(' << s.first << " + " << s.count << " * " << s.stride << ", " << s.size << " bytes)";
}

inline rc::Gen<step> any_step() {
  return rc::gen::apply(
      [](int what, std::uint64_t first, unsigned count, unsigned stride, std::size_t size) {
        return step{static_cast<step::kind>(what), first, count, stride, size};
      },
      rc::gen::inRange(0, static_cast<int>(step::kinds)),
      rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 1500), rc::gen::just(UINT64_MAX - 20)),
      rc::gen::inRange(1u, 300u), rc::gen::inRange(1u, 8u),
      // one size often: it is overwritten in place
      rc::gen::oneOf(rc::gen::just<std::size_t>(64), rc::gen::inRange<std::size_t>(0, 80),
                     rc::gen::inRange<std::size_t>(1000, 5000)));
}

inline std::string value_for(std::uint64_t key, std::size_t size) {
  std::string value(size, '\0');
  for (std::size_t i = 0; i < size; i++) value[i] = static_cast<char>(key * 31 + i);
  return value;
}

template <class Calls>
void put_all(typename Calls::handle handle, const step& s, model& expected) {
  std::uint64_t key = s.first;
  for (unsigned i = 0; i < s.count; i++, key += s.stride) {
    const std::string value = value_for(key + s.count, s.size);
    RC_ASSERT(Calls::put(handle, key, value) == (expected.count(key) ? 0 : 1));
    expected[key] = value;
  }
}

template <class Calls>
void remove_all(typename Calls::handle handle, const step& s, model& expected) {
  std::uint64_t key = s.first;
  for (unsigned i = 0; i < s.count; i++, key += s.stride) {
    RC_ASSERT(Calls::remove(handle, key) == static_cast<int>(expected.erase(key)));
  }
}

template <class Calls>
void run(subject<Calls>& it, const step& s, model& expected) {
  model scratch = expected;
  switch (s.what) {
    case step::put:
      return put_all<Calls>(*it, s, expected);
    case step::remove:
      return remove_all<Calls>(*it, s, expected);
    case step::put_at_once:
      return it.in_transaction(true, [&] { put_all<Calls>(*it, s, expected); });
    case step::put_aborted:
      return it.in_transaction(false, [&] { put_all<Calls>(*it, s, scratch); });
    case step::remove_aborted:
      return it.in_transaction(false, [&] { remove_all<Calls>(*it, s, scratch); });
    case step::put_level_aborted:
      // One level is taken back, and the transaction around it goes on.
      return it.in_transaction(true, [&] {
        it.in_transaction(false, [&] { put_all<Calls>(*it, s, scratch); });
        const step less{step::put, s.first, s.count / 2 + 1, s.stride + 1, s.size};
        put_all<Calls>(*it, less, expected);
      });
    default:
      return it.reopen();
  }
}

template <class Calls>
void compare(typename Calls::handle handle, const model& expected) {
  const char* finding = Calls::check(handle);
  RC_ASSERT(std::string(finding ? finding : "") == "");
  RC_ASSERT(Calls::count(handle) == expected.size());
  // A difference is reported by its steps; the contents would fill pages.
  const bool same = Calls::contents(handle) == expected;
  RC_ASSERT(same);
  for (const auto& [key, value] : expected) {
    const bool found = Calls::get(handle, key) == value;
    RC_ASSERT(found);
  }
  for (std::uint64_t key : {std::uint64_t{0}, std::uint64_t{700}, UINT64_MAX}) {
    RC_ASSERT(Calls::get(handle, key).has_value() == (expected.count(key) == 1));
  }
}

// extent: 1 for runs of up to a hundred steps, less for shorter ones.
template <class Calls, class... Medium>
bool equals_a_map_after_random_steps(double extent, Medium... medium) {
  return rc::check([=] {
    subject<Calls> it(medium...);
    model expected;
    const auto steps = *rc::gen::scale(extent, rc::gen::container<std::vector<step>>(any_step()));
    for (const step& s : steps) {
      run(it, s, expected);
      compare<Calls>(*it, expected);
    }
    it.reopen();
    compare<Calls>(*it, expected);
  });
}

template <class Calls>
void keeps_every_key_while_it_grows_and_empties() {
  subject<Calls> it;
  constexpr std::uint64_t keys = 60'000, stride = 7919;  // a prime: visits each residue once
  for (std::uint64_t i = 0, key = 0; i < keys; i++, key = (key + stride) % keys) {
    ASSERT_EQ(Calls::put(*it, key, std::to_string(key)), 1);
    if (i % 20'000 == 0) {
      EXPECT_EQ(Calls::check(*it), nullptr);
    }
  }
  EXPECT_EQ(Calls::check(*it), nullptr);
  EXPECT_EQ(Calls::count(*it), keys);
  it.reopen();
  for (std::uint64_t key = 0; key < keys; key++) ASSERT_EQ(Calls::get(*it, key), std::to_string(key));
  for (std::uint64_t i = 0, key = 1; i < keys; i++, key = (key + stride) % keys) {
    ASSERT_EQ(Calls::remove(*it, key), 1);
    if (i % 20'000 == 0) {
      EXPECT_EQ(Calls::check(*it), nullptr);
    }
  }
  EXPECT_EQ(Calls::check(*it), nullptr);
  EXPECT_EQ(Calls::count(*it), 0u);
}

#ifdef EXAMPLE_DURABLE
// What a structure keeps in ordinary memory has to follow a level that is taken back, not only a whole transaction.
template <class Calls>
void goes_on_behind_a_level_that_was_taken_back() {
  subject<Calls> it;
  model expected, scratch;
  for (unsigned round = 0; round < 4; ++round) {
    it.in_transaction(true, [&] {
      scratch = expected;
      it.in_transaction(false, [&] { put_all<Calls>(*it, {step::put, round, 300, 2, 40}, scratch); });
      EXPECT_TRUE(Calls::contents(*it) == expected);
      put_all<Calls>(*it, {step::put, round, 200, 3, 50}, expected);
      EXPECT_TRUE(Calls::contents(*it) == expected);
      scratch = expected;
      it.in_transaction(false, [&] { remove_all<Calls>(*it, {step::remove, 0, 400, 1, 0}, scratch); });
      EXPECT_TRUE(Calls::contents(*it) == expected);
    });
    compare<Calls>(*it, expected);
  }
}

template <class Calls>
void refuses_a_pool_with_another_root() {
  durable_pool pool(NVM_MEDIUM_SHM);
  EXPECT_EQ(Calls::open(pool.get()), nullptr);
  ASSERT_EQ(nvm_tx_begin(pool.get()), 0);
  void* other = nvm_calloc(pool.get(), 1, 1, 64);
  ASSERT_NE(other, nullptr);
  ASSERT_EQ(nvm_pool_set_root(pool.get(), other), 0);
  ASSERT_EQ(nvm_tx_commit(pool.get()), 0);
  EXPECT_EQ(Calls::open(pool.get()), nullptr);
}
#endif

}  // namespace examples
