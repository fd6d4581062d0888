// Key-value stores against std::map: random calls of every kind, on every index, medium and kind of key.
#include <algorithm>
#include <cstring>
#include <map>

#include "../sanitized.hpp"
#include "kv_testing.hpp"

namespace nvm::tests {
namespace {

struct parameters : ground_and_index {
  key_kind keys;
};
std::vector<parameters> all_parameters() {
  std::vector<parameters> all;
  for (const ground_and_index& g : grounds_and_indexes()) {
    for (const key_kind& k : key_kinds) {
      // Red-black trees have keys of eight bytes.
      if (g.index != NVM_KV_RBTREE || k.make(1).size() + k.make(9).size() == 16) all.push_back({g, k});
    }
  }
  return all;
}
std::string name_of(const testing::TestParamInfo<parameters>& p) {
  return std::string{p.param.where.name} + "_" + nvm_kv_index_name(p.param.index) + "_" + p.param.keys.name;
}

class kv_model : public testing::TestWithParam<parameters> {
 protected:
  bool ordered() const { return GetParam().index == NVM_KV_BTREE || GetParam().index == NVM_KV_RBTREE; }

  std::string some_key(random_source& random, unsigned keys) const {
    return GetParam().keys.make(std::uniform_int_distribution<unsigned>{0, keys}(random));
  }
  static std::string some_value(random_source& random) {
    static constexpr std::size_t sizes[] = {0, 1, 8, 100, 128, 129, 128, 1000, 6000};
    std::string v(sizes[random() % std::size(sizes)] + random() % 3, '\0');
    for (std::size_t at = 0; at < v.size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();
      std::memcpy(v.data() + at, &word, std::min(sizeof word, v.size() - at));
    }
    return v;
  }

  void compare(const kv& store, const model& expected) const {
    const auto size = store.size();
    ASSERT_TRUE(size) << nvm_errormsg();
    ASSERT_EQ(*size, expected.size());
    const auto s = store.statistics();  // and a full check
    ASSERT_TRUE(s) << nvm_errormsg();
    ASSERT_EQ(s->entries, expected.size());
    model found;
    std::string last;
    kv_cursor cursor = store.entries();
    while (auto e = cursor.next()) {
      ASSERT_TRUE(found.emplace(e->key, e->value).second) << "met twice";
      if (ordered() && found.size() > 1) {
        ASSERT_LT(last, e->key);
      }
      last = e->key;
    }
    ASSERT_EQ(cursor.code(), NVM_OK) << nvm_errormsg();
    ASSERT_TRUE(found == expected);
  }

  // A range of the store, in either direction.
  static void compare_range(const kv& store, const model& expected, random_source& random, const std::string& from,
                            const std::string& to) {
    kv_range r;
    r.backward = random() % 2 == 0;
    r.exclusive = random() % 2 == 0;
    if (random() % 4 != 0) r.from = from;
    if (random() % 2 == 0) r.to = to;
    r.limit = random() % 3 == 0 ? 1 + random() % 40 : 0;
    std::vector<std::string> wanted;
    const auto take = [&](const std::string& key) {
      if (r.limit != 0 && wanted.size() == r.limit) return;
      if (r.from && (r.backward ? key > *r.from : key < *r.from)) return;
      if (r.from && r.exclusive && key == *r.from) return;
      if (r.to && (r.backward ? key <= *r.to : key >= *r.to)) return;
      wanted.push_back(key);
    };
    if (r.backward) {
      for (auto i = expected.rbegin(); i != expected.rend(); ++i) take(i->first);
    } else {
      for (const auto& [key, value] : expected) take(key);
    }
    std::vector<std::string> found;
    kv_cursor cursor = store.entries(r);
    for (const auto& e : cursor) found.emplace_back(e.key);
    ASSERT_EQ(cursor.code(), NVM_OK) << nvm_errormsg();
    ASSERT_EQ(found, wanted);
  }

  // Together or not at all.
  void one_batch(kv& store, model& expected, random_source& random, unsigned keys, const std::string& key) const {
    kv_batch batch;
    model then = expected;
    for (unsigned i = random() % 20; i-- != 0;) {
      const std::string k = some_key(random, keys);
      if (random() % 3 == 0) {
        batch.remove(store, k);
        then.erase(k);
      } else {
        const std::string value = some_value(random);
        batch.put(store, k, value);
        then[k] = value;
      }
    }
    const bool fails = random() % 2 == 0;
    if (fails) batch.put(store, key, "", then.count(key) != 0 ? NVM_KV_PUT_ABSENT : NVM_KV_PUT_PRESENT);
    const auto done = batch.commit();
    ASSERT_EQ(static_cast<bool>(done), !fails) << nvm_errormsg();
    if (fails) {
      ASSERT_EQ(batch.failed(), batch.size() - 1);
    } else {
      expected = std::move(then);
    }
  }

  void one_call(kv& store, model& expected, random_source& random, unsigned keys) const {
    const std::string key = some_key(random, keys);
    const auto known = expected.find(key);
    const unsigned choice = random() % 100;
    if (choice < 40) {
      const std::string value = some_value(random);
      ASSERT_TRUE(store.put(key, value)) << nvm_errormsg();
      expected[key] = value;
    } else if (choice < 65) {
      const auto removed = store.remove(key);
      ASSERT_EQ(removed.code(), NVM_OK) << nvm_errormsg();
      ASSERT_EQ(removed.has_value(), known != expected.end());
      expected.erase(key);
    } else if (choice < 75) {
      const auto value = store.get(key);
      ASSERT_EQ(value.code(), NVM_OK) << nvm_errormsg();
      ASSERT_EQ(value.has_value(), known != expected.end());
      if (value) {
        ASSERT_EQ(*value, known->second);
      }
    } else if (choice < 80) {
      const bool stays = random() % 4 == 0;
      const std::string more = some_value(random);
      const auto updated = store.update(key, [&](std::string& value) {
        if (value.size() > 20) value[10] = 'u';
        if (random() % 2 == 0) value += more.substr(0, 40);
        if (random() % 4 == 0) value.resize(value.size() / 2);
        if (!stays && known != expected.end()) known->second = value;
        return !stays;
      });
      ASSERT_EQ(updated.code(), NVM_OK) << nvm_errormsg();
      ASSERT_EQ(updated.has_value(), known != expected.end());
    } else if (choice < 88) {
      const unsigned flag = random() % 2 == 0 ? NVM_KV_PUT_ABSENT : NVM_KV_PUT_PRESENT;
      const std::string value = some_value(random);
      const bool there = known != expected.end();
      const auto done = store.put(key, value, flag);
      const int refusal = flag == NVM_KV_PUT_ABSENT ? NVM_E_EXISTS : NVM_E_NOT_FOUND;
      if ((flag == NVM_KV_PUT_ABSENT) != there) {
        ASSERT_TRUE(done) << nvm_errormsg();
        expected[key] = value;
      } else {
        ASSERT_EQ(done.code(), refusal) << nvm_errormsg();
      }
    } else if (choice < 94) {
      one_batch(store, expected, random, keys, key);
    } else if (ordered()) {
      compare_range(store, expected, random, key, some_key(random, keys));
    }
  }
};

TEST_P(kv_model, does_what_a_map_does) {
  const pool_place place{GetParam().where};
  // What the address sanitizer could see in a call depends less on how many entries there are.
  const bool few = by_address_sanitizer || GetParam().index == NVM_KV_LIST;
  const unsigned calls = rounds_of_build(place.ssd() ? 400U : few ? 4000U : 15000U);
  const unsigned keys = place.ssd() ? 80 : GetParam().index == NVM_KV_LIST ? 150 : 900;
  random_source random{7};
  model expected;
  {
    pool p = place.create();
    kv store = open_store(p, "model", GetParam().index);
    for (unsigned i = 0; i < calls; ++i) {
      ASSERT_NO_FATAL_FAILURE(one_call(store, expected, random, keys)) << "call " << i;
      if (i % (calls / 8) == 0) {
        ASSERT_NO_FATAL_FAILURE(compare(store, expected)) << "call " << i;
      }
    }
    ASSERT_NO_FATAL_FAILURE(compare(store, expected));
  }
  EXPECT_EQ(place.findings(), 0);
  pool p = place.open();
  kv store = open_store(p, "model", NVM_KV_DETECT);
  ASSERT_EQ(store.index(), GetParam().index);
  ASSERT_NO_FATAL_FAILURE(compare(store, expected));
  // Down to nothing, in another order.
  std::vector<std::string> left;
  for (const auto& [key, value] : expected) left.push_back(key);
  std::shuffle(left.begin(), left.end(), random);
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_TRUE(store.remove(left[i])) << nvm_errormsg();
    expected.erase(left[i]);
    if (i % (left.size() / 4 + 1) == 0) {
      ASSERT_NO_FATAL_FAILURE(compare(store, expected));
    }
  }
  ASSERT_NO_FATAL_FAILURE(compare(store, {}));
}

INSTANTIATE_TEST_SUITE_P(everywhere, kv_model, testing::ValuesIn(kinds_of_build(all_parameters())), name_of);

}  // namespace
}  // namespace nvm::tests
