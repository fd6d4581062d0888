/* A travel agency, after the description of STAMP's vacation: tables of cars, flights and rooms with prices and numbers
 * of seats, and customers with lists of what they have reserved; clients reserve, cancel customers, and change the
 * tables.
 *
 * usage: travel <operations> <clients> <rows> <queries per operation>
 *
 * Each operation is one transaction.  What it asks for follows from its number; how far each client is stands beside
 * the data, so that a run that was killed goes on.  With one client the answer is one number; with several what has to
 * hold is checked, as STAMP does: for each row of each table, seats used = reservations that customers hold.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "nvm/itm.h"
#include "treap.h"

#define CLIENTS_MAX 16
#define QUERIES_MAX 16

enum kind { CAR, FLIGHT, ROOM, KINDS };

struct row {
  long used, seats, price;
};

struct reservation {
  struct reservation* next;
  enum kind kind;
  uint64_t id;
  long price;
};

struct customer {
  struct reservation* reservations; /* ordered by kind, then id */
  long bill;
};

struct agency {
  uint64_t done[CLIENTS_MAX];
  uint64_t clients, rows;
  uint64_t filled; /* rows that each table has got so far */
  treap_node* table[KINDS];
  treap_node* customers;
  uint64_t reserved, cancelled, changed;
};

static struct agency* agency;
static uint64_t operations, clients, rows, queries;

struct stream {
  uint64_t state;
};
SAFE static uint64_t draw(struct stream* s, uint64_t limit) {
  s->state = mix(s->state);
  return s->state % limit;
}

/* ---- manager ---- */

SAFE static void add_seats(enum kind kind, uint64_t id, long seats, long price) {
  struct row* r = treap_find(agency->table[kind], id);
  if (r == NULL) {
    r = malloc(sizeof *r);
    r->used = 0;
    r->seats = seats;
    r->price = price;
    treap_insert(&agency->table[kind], id, r);
  } else {
    r->seats += seats;
    r->price = price;
  }
}

/* Only what nobody has reserved. */
SAFE static int remove_seats(enum kind kind, uint64_t id, long seats) {
  struct row* r = treap_find(agency->table[kind], id);
  if (r == NULL || r->seats - r->used < seats) return 0;
  r->seats -= seats;
  if (r->seats == 0) free(treap_remove(&agency->table[kind], id));
  return 1;
}

SAFE static int reserve(struct customer* c, enum kind kind, uint64_t id) {
  struct row* r = treap_find(agency->table[kind], id);
  if (r == NULL || r->used == r->seats) return 0;
  struct reservation** place = &c->reservations;
  while (*place != NULL && ((*place)->kind < kind || ((*place)->kind == kind && (*place)->id < id)))
    place = &(*place)->next;
  if (*place != NULL && (*place)->kind == kind && (*place)->id == id) return 0;
  struct reservation* v = malloc(sizeof *v);
  v->kind = kind;
  v->id = id;
  v->price = r->price;
  v->next = *place;
  *place = v;
  c->bill += r->price;
  r->used++;
  return 1;
}

/* ---- clients ---- */

/* Of the rows that it looks at, a client takes the dearest of each kind that has a seat. */
SAFE static void make_reservation(struct stream* s) {
  enum kind kinds[QUERIES_MAX];
  uint64_t ids[QUERIES_MAX];
  long best_price[KINDS] = {-1, -1, -1};
  uint64_t best_id[KINDS] = {0, 0, 0};
  const uint64_t looks = 1 + draw(s, queries);
  const uint64_t name = draw(s, rows);
  for (uint64_t k = 0; k < looks; ++k) {
    kinds[k] = (enum kind)draw(s, KINDS);
    ids[k] = draw(s, rows);
  }
  __transaction_atomic {
    for (uint64_t k = 0; k < looks; ++k) {
      const struct row* r = treap_find(agency->table[kinds[k]], ids[k]);
      if (r == NULL || r->used == r->seats || r->price <= best_price[kinds[k]]) continue;
      best_price[kinds[k]] = r->price;
      best_id[kinds[k]] = ids[k];
    }
    struct customer* c = treap_find(agency->customers, name);
    for (int kind = 0; kind < KINDS; ++kind) {
      if (best_price[kind] < 0) continue;
      if (c == NULL) {
        c = calloc(1, sizeof *c);
        treap_insert(&agency->customers, name, c);
      }
      agency->reserved += (uint64_t)reserve(c, (enum kind)kind, best_id[kind]);
    }
  }
}

SAFE static void delete_customer(struct stream* s) {
  const uint64_t name = draw(s, rows);
  struct customer* c = treap_remove(&agency->customers, name);
  if (c == NULL) return;
  while (c->reservations != NULL) {
    struct reservation* v = c->reservations;
    c->reservations = v->next;
    struct row* r = treap_find(agency->table[v->kind], v->id);
    if (r == NULL) abort(); /* without this, GCC 12 crashes: it makes a trap of that path, which has no clone */
    r->used--;
    c->bill -= v->price;
    agency->cancelled++;
    free(v);
  }
  if (c->bill != 0) agency->cancelled += 1000000; /* shows in the answer */
  free(c);
}

SAFE static void update_tables(struct stream* s) {
  for (uint64_t k = 1 + draw(s, queries); k > 0; --k) {
    const enum kind kind = (enum kind)draw(s, KINDS);
    const uint64_t id = draw(s, rows);
    const long price = 50 + 10 * (long)draw(s, 5);
    if (draw(s, 2) != 0) {
      add_seats(kind, id, 100, price);
      agency->changed++;
    } else {
      agency->changed += (uint64_t)remove_seats(kind, id, 100);
    }
  }
}

/* By a pointer, so that the clone is looked up. */
typedef void (*client_action)(struct stream*) SAFE;
static const client_action actions[3] = {make_reservation, delete_customer, update_tables};

static void* client(void* argument) {
  const uint64_t me = (uint64_t)(uintptr_t)argument;
  for (uint64_t done = agency->done[me]; done * clients + me < operations; ++done) {
    struct stream s = {mix(done * clients + me)};
    const uint64_t which = draw(&s, 100);
    const client_action act = actions[which < 80 ? 0 : which < 90 ? 1 : 2];
    __transaction_atomic {
      act(&s);
      agency->done[me] = done + 1;
    }
  }
  return NULL;
}

/* ---- the answer ---- */

static uint64_t held[KINDS][1 << 16];

static void count_customers(const treap_node* n, uint64_t* digest, int* wrong) {
  if (n == NULL) return;
  count_customers(n->left, digest, wrong);
  const struct customer* c = n->value;
  long bill = 0;
  *digest = mix(*digest ^ n->key);
  for (const struct reservation* v = c->reservations; v != NULL; v = v->next) {
    held[v->kind][v->id]++;
    bill += v->price;
    *digest = mix(*digest ^ (v->id * 4 + (uint64_t)v->kind) ^ (uint64_t)v->price << 40);
  }
  if (bill != c->bill) ++*wrong;
  count_customers(n->right, digest, wrong);
}

static void count_rows(int kind, const treap_node* n, uint64_t* digest, int* wrong) {
  if (n == NULL) return;
  count_rows(kind, n->left, digest, wrong);
  const struct row* r = n->value;
  if ((uint64_t)r->used != held[kind][n->key] || r->used > r->seats) ++*wrong;
  *digest = mix(*digest ^ n->key ^ (uint64_t)r->used << 20 ^ (uint64_t)r->seats << 40 ^ (uint64_t)r->price);
  count_rows(kind, n->right, digest, wrong);
}

int main(int count, char** arguments) {
  if (count < 5) return 2;
  operations = strtoull(arguments[1], NULL, 10);
  clients = strtoull(arguments[2], NULL, 10);
  rows = strtoull(arguments[3], NULL, 10);
  queries = strtoull(arguments[4], NULL, 10);
  if (clients == 0 || clients > CLIENTS_MAX || rows == 0 || rows > 1 << 16 || queries == 0 || queries > QUERIES_MAX)
    return 2;
  agency = nvm_itm_root(sizeof *agency);
  if (agency == NULL) return 1;
  if (agency->clients != 0 && (agency->clients != clients || agency->rows != rows)) {
    fprintf(stderr, "the agency has %" PRIu64 " clients and %" PRIu64 " rows\n", agency->clients, agency->rows);
    return 2;
  }
  __transaction_atomic {
    agency->clients = clients;
    agency->rows = rows;
  }
  fprintf(stderr, "%s\n", agency->done[0] == 0 ? "begins" : "goes on");
  while (agency->filled < rows) {
    __transaction_atomic {
      for (int kind = 0; kind < KINDS; ++kind) {
        const uint64_t r = mix(agency->filled * KINDS + (uint64_t)kind);
        add_seats((enum kind)kind, agency->filled, 100 * (1 + (long)(r % 5)), 50 + 10 * (long)(r / 8 % 5));
      }
      agency->filled++;
    }
  }

  pthread_t thread[CLIENTS_MAX];
  for (uint64_t k = 0; k < clients; ++k) {
    if (pthread_create(&thread[k], NULL, client, (void*)(uintptr_t)k) != 0) return 1;
  }
  for (uint64_t k = 0; k < clients; ++k) pthread_join(thread[k], NULL);

  uint64_t digest = 0, done = 0;
  int wrong = 0;
  for (uint64_t k = 0; k < clients; ++k) done += agency->done[k];
  count_customers(agency->customers, &digest, &wrong);
  for (int kind = 0; kind < KINDS; ++kind) count_rows(kind, agency->table[kind], &digest, &wrong);
  printf("operations %" PRIu64 ", %d wrong\n", done, wrong);
  if (clients == 1) {
    printf("reserved %" PRIu64 " cancelled %" PRIu64 " changed %" PRIu64 " digest %016" PRIx64 "\n", agency->reserved,
           agency->cancelled, agency->changed, digest);
  }
  return wrong == 0 && done == operations ? 0 : 1;
}
