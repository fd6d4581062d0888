// Allocation, free and root in barrier transactions, and pools that are full.
#include <cstring>
#include <vector>

#include "place.hpp"

namespace nvm::tests {
namespace {

class stm_objects : public everywhere {};
NVM_EVERY_POOL(stm_objects);

struct node {
  long value;
  node* next;
};

TEST_P(stm_objects, exist_when_the_transaction_has_committed) {
  node* made = nullptr;
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    made = t.make<node>(7, node{1, nullptr});
    made->value = 2;
    t.store(&made->next, made);
    EXPECT_EQ(t.load(&made->value), 2);
    EXPECT_EQ(t.load(&made->next), made);
    t.set_root(made);
    EXPECT_EQ(t.root<node>(), made);
  }));
  EXPECT_EQ(nvm_pool_get_root(here.pool()), made);
  EXPECT_EQ(here.objects(), 1U);
  EXPECT_EQ(nvm_pool_get_root(here.pool()), made);
  EXPECT_EQ(made->value, 2);
  EXPECT_EQ(made->next, made);
  EXPECT_EQ(nvm_type_of(here.pool(), made), 7U);
}

TEST_P(stm_objects, vanish_with_the_transaction) {
  EXPECT_FALSE(atomic(here.pool(), [&](tx& t) {
    for (int i = 0; i < 10; ++i) t.set_root(t.make<node>(7, node{i, nullptr}));
    return false;
  }));
  EXPECT_EQ(nvm_pool_get_root(here.pool()), nullptr);
  EXPECT_EQ(here.objects(), 0U);
}

TEST_P(stm_objects, of_an_inner_level_vanish_with_it) {
  node* outer = nullptr;
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    outer = t.make<node>(7, node{1, nullptr});
    t.set_root(outer);
    EXPECT_FALSE(atomic(here.pool(), [&](tx& u) {
      node* inner = u.make<node>(7, node{2, nullptr});
      u.store(&outer->next, inner);
      u.store(&outer->value, 5);
      u.set_root(inner);
      u.cancel();
    }));
    EXPECT_EQ(t.root<node>(), outer);
    EXPECT_EQ(outer->value, 1);
    EXPECT_EQ(outer->next, nullptr);
    EXPECT_TRUE(atomic(here.pool(), [&](tx& u) { u.store(&outer->next, u.make<node>(7, node{3, nullptr})); }));
    EXPECT_EQ(t.load(&t.load(&outer->next)->value), 3);
  }));
  EXPECT_EQ(here.objects(), 2U);
  EXPECT_EQ(outer->value, 1);
  EXPECT_EQ(outer->next->value, 3);
}

TEST_P(stm_objects, are_freed_by_the_commit_only) {
  node* made = nullptr;
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) { made = t.make<node>(7, node{1, nullptr}); }));
  EXPECT_FALSE(atomic(here.pool(), [&](tx& t) {
    t.free(made);
    return false;
  }));
  EXPECT_EQ(made->value, 1);
  EXPECT_EQ(nvm_size_of(here.pool(), made), sizeof(node));
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    EXPECT_FALSE(atomic(here.pool(), [&](tx& u) {
      u.free(made);
      return false;
    }));
    t.free(made);
    t.free(t.make<node>(7, node{2, nullptr}));
    t.free(nullptr);
  }));
  EXPECT_EQ(here.objects(), 0U);
}

TEST_P(stm_objects, a_wrong_pointer_rolls_back) {
  auto* x = here.shared<long>(4);
  for (void* wrong : {static_cast<void*>(x + 1), static_cast<void*>(reinterpret_cast<char*>(here.pool()))}) {
    if (!nvm_is_durable(wrong)) continue;
    const outcome done = atomic(here.pool(), [&](tx& t) {
      t.store(x, 1);
      t.free(wrong);
      ADD_FAILURE() << "freed";
    });
    EXPECT_EQ(done.code(), NVM_E_BAD_POINTER);
  }
  EXPECT_EQ(*x, 0);
  const outcome twice = atomic(here.pool(), [&](tx& t) {
    t.free(x);
    t.free(x);
  });
  EXPECT_EQ(twice.code(), NVM_E_BAD_POINTER);
  EXPECT_EQ(here.objects(), 1U);
}

TEST_P(stm_objects, a_full_pool_rolls_back_and_goes_on) {
  // On ssd half of the log is less than the pool.
  const int why = GetParam() == where::ssd ? NVM_E_LOG_FULL : NVM_E_NO_SPACE;
  auto* x = here.shared<long>(4);
  int made = 0;
  const outcome full = atomic(here.pool(), [&](tx& t) {
    t.store(x, 1);
    for (;; ++made) (void)t.alloc(1, 4000);
  });
  EXPECT_EQ(full.code(), why);
  EXPECT_GT(made, 100);
  EXPECT_EQ(*x, 0);
  // In a level the one around goes on.
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    t.store(x, 2);
    EXPECT_EQ(atomic(here.pool(),
                     [&](tx& u) {
                       u.store(x, 3);
                       for (;;) (void)u.alloc(1, 4000);
                     })
                  .code(),
              why);
    EXPECT_EQ(t.load(x), 2);
    (void)t.alloc(1, 4000);
  }));
  EXPECT_EQ(*x, 2);
  EXPECT_EQ(here.objects(), 2U);
  // In C a failure that is not noticed must not commit half.
  const auto careless = [](nvm_stm* t, void* p) {
    nvm_stm_store64(t, static_cast<std::uint64_t*>(p), 9);
    EXPECT_EQ(nvm_stm_alloc(t, 1, std::size_t{1} << 40), nullptr);
    return 0;
  };
  EXPECT_EQ(nvm_stm_run(here.pool(), careless, x), -1);
  EXPECT_TRUE(nvm_errno() == NVM_E_NO_SPACE || nvm_errno() == NVM_E_TOO_LARGE) << nvm_errormsg();
  EXPECT_EQ(*x, 2);
}

TEST_P(stm_objects, a_transaction_without_pool_has_no_objects) {
  const outcome done = atomic([&](tx& t) { (void)t.alloc(1, 16); });
  EXPECT_EQ(done.code(), NVM_E_NO_TRANSACTION);
}

class stm_volatile_objects : public everywhere {};
NVM_EVERYWHERE(stm_volatile_objects);

TEST_P(stm_volatile_objects, follow_the_transaction) {
  auto* head = here.shared<node*>(1);
  EXPECT_FALSE(atomic(here.pool(), [&](tx& t) {
    auto* n = static_cast<node*>(t.malloc(sizeof(node)));
    n->value = 1;
    EXPECT_FALSE(atomic(here.pool(), [&](tx& u) {
      u.store(&n->value, 2);
      u.free(n);
      (void)u.malloc(100);
      return false;
    }));
    EXPECT_EQ(n->value, 1);
    return false;
  }));
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
      node* old = t.load(head);
      auto* n = static_cast<node*>(t.malloc(sizeof(node)));
      n->value = i;
      t.store(head, n);
      t.free(old);
    }));
  }
  EXPECT_EQ((*head)->value, 299);
  ASSERT_TRUE(atomic(here.pool(), [&](tx& t) {
    t.free(t.load(head));
    t.store(head, nullptr);
  }));
}

}  // namespace
}  // namespace nvm::tests
