/* A program as the Breeze paper prints it (Figures 4 and 5, Table I), compiled as C11 and as C++20 against the public
 * header alone: the list is built by transactions, is there in the next open, and carries its type.
 *
 * usage: breeze_names_test FOLDER */
#include <nvm/nvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The paper's `Node *t = nvm_alloc(...)` is C; C++ wants the conversion spelled. */
#ifdef __cplusplus
#define AS(T) (T)
#else
#define AS(T)
#endif

// clang-format off
// declare persistent structure
typedef NVM_STRUCT Node {
  // declare persistent pointer
  NVM_PTR(struct Node) next;
  char data[32];
} Node;
// clang-format on

/* NVM_PTR takes any type, and the pointers convert to and from the plain ones. */
typedef NVM_STRUCT Table {
  NVM_PTR(Node) first;
  NVM_PTR(const char) name;
  NVM_PTR(NVM_PTR(Node)) slots;
} Table;

/* Type ids are constants: fixed by the name for ever, stored in pools. */
static const uint32_t id_of_node = NVM_TYPE_ID(Node);
static const uint32_t ids[] = {NVM_TYPE_ID(Node), NVM_TYPE_ID(struct Node), NVM_TYPE_ID(Table), NVM_TYPE_ID(N),
                               NVM_TYPE_ID(unsigned long long)};

#define REQUIRE(condition) \
  ((condition) ? (void)0 : (fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, nvm_errormsg()), exit(1)))

static void build(const char* path) {
  size_t pool_size = (size_t)1 << 20;
  NVM_POOL* pop = nvm_pool_create(path, pool_size);
  REQUIRE(pop != NULL);
  Node* head = NULL;
  for (int i = 0; i < 10; i++) {
    nvm_tx_begin(pop);  // begin transaction
    // allocate a new persistent object
    Node* t = AS(Node*) nvm_alloc(pop, NVM_TYPE_ID(Node), sizeof(Node));
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
  nvm_pool_close(pop);
}

/* An aborted insertion leaves the list as it was. */
static void walk(const char* path) {
  NVM_POOL* pop = nvm_pool_open(path);
  REQUIRE(pop != NULL);
  void* before = nvm_pool_get_root(pop);
  REQUIRE(nvm_tx_begin(pop) == 0);
  Node* t = AS(Node*) nvm_alloc(pop, NVM_TYPE_ID(Node), sizeof(Node));
  REQUIRE(t != NULL);
  REQUIRE(nvm_pool_set_root(pop, t) == 0);
  REQUIRE(nvm_tx_abort(pop) == 0);
  REQUIRE(nvm_pool_get_root(pop) == before);
  int nodes = 0;
  for (Node* n = AS(Node*) nvm_pool_get_root(pop); n != NULL; n = n->next) {
    REQUIRE(strcmp(n->data, "Hello world") == 0);
    REQUIRE(nvm_type_of(pop, n) == NVM_TYPE_ID(Node));
    REQUIRE(nvm_size_of(pop, n) == sizeof(Node));
    ++nodes;
  }
  REQUIRE(nodes == 10);
  // free, as a program written for malloc would
  REQUIRE(nvm_tx_begin(pop) == 0);
  Node* head = AS(Node*) nvm_pool_get_root(pop);
  REQUIRE(nvm_pool_set_root(pop, head->next) == 0);
  REQUIRE(nvm_free(pop, head) == 0);
  REQUIRE(nvm_tx_commit(pop) == 0);
  REQUIRE(nvm_pool_close(pop) == 0);
}

static void fail_as_documented(const char* path) {
  REQUIRE(nvm_pool_create(path, (size_t)1 << 20) == NULL);
  REQUIRE(nvm_errno() == NVM_E_EXISTS);
  REQUIRE(strstr(nvm_errormsg(), path) != NULL);
  REQUIRE(strcmp(nvm_error_name(nvm_errno()), "NVM_E_EXISTS") == 0);
}

static void ids_are_those_of_format_1(void) {
  REQUIRE(id_of_node == 0x7468032DU);
  REQUIRE(ids[0] == id_of_node);
  REQUIRE(ids[1] == 0x60713D2CU);
  for (unsigned i = 0; i < sizeof ids / sizeof *ids; ++i) {
    REQUIRE(ids[i] >= 0x40000000U && ids[i] <= 0x7FFFFFFFU);
    for (unsigned k = 0; k < i; ++k) REQUIRE(ids[i] != ids[k]);
  }
  // 64 characters, the most that C takes.
  REQUIRE(NVM_TYPE_ID(a23456789_b23456789_c23456789_d23456789_e23456789_f23456789_1234) == 0x5863A9AEU);
#ifdef __cplusplus
  static_assert(NVM_TYPE_ID(Node) == 0x7468032DU, "a constant expression");
#endif
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char path[4096];
#ifdef __cplusplus
  const char* language = "cpp";
#else
  const char* language = "c";
#endif
  snprintf(path, sizeof path, "%s/breeze_names_%s.nvm", argv[1], language);
  remove(path);
  ids_are_those_of_format_1();
  build(path);
  fail_as_documented(path);
  walk(path);
  return remove(path);
}
