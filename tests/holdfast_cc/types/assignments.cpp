// The same in C++.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>
#include <new>

NVM_STRUCT node {
  NVM_PTR(node) next;
  int x;
};

void f(NVM_POOL *pool, node *n, node &r) {
  node local{};
  n->next = new node;  // expected-warning {{'next' of durable 'node' receives the address of memory from new}}
  r.next = &local;     // expected-warning {{receives the address of a variable}}
  *n = node{&local, 1};  // expected-warning {{receives the address of a variable}}
  void *place = nvm_alloc(pool, NVM_TYPE_ID(node), sizeof(node));
  n->next = new (place) node{&local, 2};  // expected-warning {{receives the address of a variable}}
  n->next = new (place) node{n, 2};
  n->next = &r;
  node *m = new node;
  m->next = &local;
  local.next = m;
}
template <class T>
void g(T *n) {
  T local;
  n->next = &local;  // expected-warning {{receives the address of a variable}}
}
template void g<node>(node *);
