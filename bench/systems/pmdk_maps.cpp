// The maps that libpmemobj itself comes with as examples, compiled from where its package has them: hashmap_tx,
// btree_map and rbtree_map.  A value is an object of its own, allocated and freed in the same transaction, as in their
// own benchmark (pmembench map_insert, map_remove).
extern "C" {
#include <hashmap_tx.h>

#include <btree_map.h>
#include <rbtree_map.h>
}

#include <mutex>
#include <stdexcept>

#include "suite/maps.hpp"
#include "systems/pmemobj_heap.hpp"

namespace nvm::bench {
namespace {

constexpr std::uint64_t value_type = 77;

// The calls of one of the maps by common names.
struct hashmap_calls {
  using handle = TOID(struct hashmap_tx);
  static constexpr const char* name = "libpmemobj's hashmap_tx";
  static constexpr const char* structure = "hashtable";
  static constexpr auto create = hm_tx_create;
  static constexpr auto insert = hm_tx_insert;
  static constexpr auto remove = hm_tx_remove;
  static constexpr auto each = hm_tx_foreach;
};
struct btree_calls {
  using handle = TOID(struct btree_map);
  static constexpr const char* name = "libpmemobj's btree_map";
  static constexpr const char* structure = "bptree";
  static constexpr auto create = btree_map_create;
  static constexpr auto insert = btree_map_insert;
  static constexpr auto remove = btree_map_remove;
  static constexpr auto each = btree_map_foreach;
};
struct rbtree_calls {
  using handle = TOID(struct rbtree_map);
  static constexpr const char* name = "libpmemobj's rbtree_map";
  static constexpr const char* structure = "rbtree";
  static constexpr auto create = rbtree_map_create;
  static constexpr auto insert = rbtree_map_insert;
  static constexpr auto remove = rbtree_map_remove;
  static constexpr auto each = rbtree_map_foreach;
};

void check(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + ": " + pmemobj_errormsg());
}

template <class Calls>
class pmdk_map final : public durable_map {
 public:
  pmdk_map(const engine_settings& settings, unsigned threads) : heap_(settings.heap), shared_(threads > 1) {
    map_ = static_cast<typename Calls::handle*>(heap_.fixed(sizeof *map_));
    check(Calls::create(heap_.pool(), map_, nullptr), "create");
  }

  void insert(unsigned, std::uint64_t key, const value& v) override {
    const auto held = hold();
    heap_.begin();
    insert_now(key, v);
    heap_.commit();
  }
  void toggle(unsigned, std::uint64_t key, const value& v) override {
    const auto held = hold();
    heap_.begin();
    if (const PMEMoid old = Calls::remove(heap_.pool(), *map_, key); !OID_IS_NULL(old)) {
      heap_.free(heap_.at(old.off));
    } else {
      insert_now(key, v);
    }
    heap_.commit();
  }
  void remove(std::uint64_t key) override {
    heap_.begin();
    heap_.free(heap_.at(Calls::remove(heap_.pool(), *map_, key).off));
    heap_.commit();
  }
  void each(const std::function<void(std::uint64_t, const value&)>& visit) override {
    struct call {
      pmemobj_heap* heap;
      const std::function<void(std::uint64_t, const value&)>* visit;
    } c{&heap_, &visit};
    const auto hand_on = [](std::uint64_t key, PMEMoid v, void* argument) {
      const auto* to = static_cast<call*>(argument);
      (*to->visit)(key, *static_cast<const value*>(to->heap->at(v.off)));
      return 0;
    };
    check(Calls::each(heap_.pool(), *map_, hand_on, &c), "foreach");
  }
  std::optional<std::uint64_t> bytes_logged() override { return heap_.bytes_logged(); }

 private:
  void insert_now(std::uint64_t key, const value& v) {
    const PMEMoid object = pmemobj_tx_alloc(sizeof v, value_type);
    if (OID_IS_NULL(object)) check(-1, "pmemobj_tx_alloc");
    std::memcpy(heap_.at(object.off), &v, sizeof v);
    check(Calls::insert(heap_.pool(), *map_, key, object), "insert");
  }
  std::unique_lock<std::mutex> hold() { return shared_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>(); }

  pmemobj_heap heap_;
  std::mutex mutex_;
  bool shared_;
  typename Calls::handle* map_;
};

template <class Calls>
map_kind kind() {
  return {Calls::name, role::peer, Calls::structure, false,
          [](const engine_settings& settings, unsigned threads, std::uint64_t) {
            return std::make_unique<pmdk_map<Calls>>(settings, threads);
          }};
}

}  // namespace

std::vector<map_kind> pmdk_maps() { return {kind<hashmap_calls>(), kind<btree_calls>(), kind<rbtree_calls>()}; }

}  // namespace nvm::bench
