// Assignments to fields of durable structures.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/nvm.h>
#include <stdlib.h>
#include <string.h>

typedef NVM_STRUCT Node {
  NVM_PTR(struct Node) next;
  NVM_PTR(const char) text;
  NVM_PTR(struct Node) many[2];
  NVM_VOLATILE_PTR(void) cache;
} Node;
static Node global;
static char buffer[10];
Node *some(void);
void take(Node **);

void provably_volatile(NVM_POOL *pool, Node *n) {
  Node local;
  static Node kept;
  n->next = malloc(sizeof *n);  // expected-warning {{'next' of durable 'struct Node' receives the address of memory}}
  n->next = (Node *)calloc(1, sizeof *n);  // expected-warning {{receives the address of memory from outside}}
  n->next = &local;                        // expected-warning {{receives the address of a variable}}
  n->next = &kept;                         // expected-warning {{receives the address of a variable}}
  n->next = &global;                       // expected-warning {{receives the address of a variable}}
  n->next = global.many[1] ? &global : NULL;  // expected-warning {{receives the address of a variable}}
  n->text = "text";             // expected-warning {{'text' of durable 'struct Node' receives}}
  n->text = buffer + 3;                       // expected-warning {{receives the address of a variable}}
  n->text = strdup("text");                   // expected-warning {{receives the address of memory}}
  n->many[1] = &local;                        // expected-warning {{'many' of durable 'struct Node' receives}}
  (*n).next = &local;                         // expected-warning {{receives the address of a variable}}
  *n = (Node){.text = "text"};  // expected-warning {{'text' of durable 'struct Node' receives}}
  *n = (Node){.many = {0, &local}};           // expected-warning {{'many' of durable 'struct Node' receives}}
  nvm_pool_set_root(pool, &local);  // expected-warning {{the root of a pool becomes the address of a variable}}
}

void by_way_of_variables(Node *n) {
  Node *m = NULL;
  if (n->next) {
    m = malloc(sizeof *m);
  } else {
    m = calloc(1, sizeof *m);
  }
  Node *k = m;
  m->next = m;
  n->next = k;  // expected-warning {{receives the address of memory}}
}

void nobody_knows(NVM_POOL *pool, Node *n, int i) {
  Node local;
  local.next = &local;
  global.next = malloc(1);
  Node *m = malloc(sizeof *m);
  m->next = &local;
  n->next = some();
  n->next = n->next->next;
  n->next = NULL;
  n->cache = &local;
  Node *k = malloc(sizeof *k);
  if (i) k = some();
  n->next = k;
  Node *taken = malloc(sizeof *taken);
  take(&taken);
  n->next = taken;
  n->next = i ? some() : malloc(1);
  Node *mine = nvm_alloc(pool, NVM_TYPE_ID(Node), sizeof *mine);
  n->next = mine;
  nvm_pool_set_root(pool, n);
  *n = (Node){.next = n};
  local = (Node){.next = &local};
}
