/* The linked list of Breeze, Figures 4 and 5: each node is added by a transaction, the root leads to the list.
 *
 * usage: list_durable POOL; run again on the same file, it finds the list and adds ten more nodes.  No log call is
 * needed: a node is fresh memory until its transaction commits, and the root belongs to the pool. */
#include <nvm/nvm.h>
#include <stdio.h>
#include <string.h>

// declare persistent structure
// clang-format off
typedef NVM_STRUCT Node {
  // declare persistent pointer
  NVM_PTR(struct Node) next;
  char data[32];
} Node;
// clang-format on

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s POOL\n", argv[0]);
    return 2;
  }
  size_t pool_size = (size_t)1 << 20;
  NVM_POOL* pop = nvm_pool_create(argv[1], pool_size);
  if (pop == NULL && nvm_errno() == NVM_E_EXISTS) pop = nvm_pool_open(argv[1]);
  if (pop == NULL) {
    fprintf(stderr, "%s: %s\n", argv[0], nvm_errormsg());
    return 1;
  }
  void* root;
  if (nvm_pool_read_root(pop, &root) != 0) {
    fprintf(stderr, "%s: %s\n", argv[0], nvm_errormsg());
    return 1;
  }
  Node* head = root;
  for (int i = 0; i < 10; i++) {
    nvm_tx_begin(pop);  // begin transaction
    // allocate a new persistent object
    Node* t = nvm_alloc(pop, NVM_TYPE_ID(Node), sizeof(Node));
    if (t == NULL) {
      nvm_tx_abort(pop);  // abort transaction
      break;
    }
    t->next = head;
    strcpy(t->data, "Hello world");
    head = t;
    // update the root pointer
    nvm_pool_set_root(pop, head);
    nvm_tx_commit(pop);  // commit transaction
  }
  for (Node* t = nvm_pool_get_root(pop); t != NULL; t = t->next) puts(t->data);
  return nvm_pool_close(pop) == 0 ? 0 : 1;
}
