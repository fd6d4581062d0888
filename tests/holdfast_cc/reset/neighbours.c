/* Stores that begin in a field which needs no log, or lead elsewhere from its address: only what stays in the field is
 * not logged.  Lines that end in "field" are stores to it alone, those that end in "more" are not. */
#include <nvm/malloc.h>
#include <stddef.h>
#include <string.h>

#ifndef WITHOUT_LOG
#define WITHOUT_LOG NVM_RESET
#endif
NVM_STRUCT item {
  long before;
  int fd WITHOUT_LOG;
  int next_to_fd;
  char state;
  __int128 wide;
  long double real;
  unsigned counts[4] WITHOUT_LOG;
  long value;
  int last;
  unsigned char flags[8] WITHOUT_LOG;
  char after;
};
#define AROUND(p, field) ((struct item*)(void*)((char*)(p) - offsetof(struct item, field)))

void one(struct item* i) { i->fd = 1; /* field */ }
void all_elements(struct item* i) { memset(i->counts, 1, sizeof i->counts); /* field */ }
void one_element(struct item* i, int k) { i->counts[k] = 1; /* field */ }
void last_elements(struct item* i) { memset(&i->counts[2], 1, 8); /* field */ }
void neighbour(struct item* i) { memset(&i->fd, 1, 8); /* more */ }
void copied(struct item* i, const struct item* from) {
  memcpy(&i->fd, &from->fd, sizeof *i - offsetof(struct item, fd)); /* more */
}
void beyond(struct item* i) { memset(&i->counts[2], 1, 16); /* more */ }
void from_some_element(struct item* i, int k) { memset(&i->counts[k], 1, 8); /* more */ }
void around(struct item* i) { AROUND(&i->fd, fd)->value = 1; /* more */ }
void before(struct item* i) { AROUND(&i->counts, counts)->before = 1; /* more */ }
void around_an_element(struct item* i, int k) { AROUND(&i->counts[k], counts[k])->value = 1; /* more */ }
void a_char_around(struct item* i, int k) { AROUND(&i->counts[k], counts[k])->state = 1; /* more */ }
void a_wide_one(struct item* i, int k) { AROUND(&i->counts[k], counts[k])->wide = 1; /* more */ }
void a_real_one(struct item* i, int k) { AROUND(&i->counts[k], counts[k])->real = 1; /* more */ }
void around_another(struct item* i, int k, int j) { AROUND(&i->counts[k], counts[j])->state = 1; /* more */ }
void around_the_third(struct item* i, int k) { AROUND(&i->counts[k], counts[2])->value = 1; /* more */ }
void an_int_around_the_third(struct item* i, int k) { AROUND(&i->counts[k], counts[2])->last = 1; /* more */ }
void around_a_flag(struct item* i, int k, int j) { AROUND(&i->flags[k], flags[j])->after = 1; /* more */ }
void around_the_second_flag(struct item* i, int k) { AROUND(&i->flags[k], flags[1])->after = 1; /* more */ }
void some_flag(struct item* i, int k) { i->flags[k] = 1; /* field */ }
void some_byte(struct item* i, int k) { ((char*)&i->fd)[k] = 1; /* more */ }
/* In loops, where the optimizer makes one address of what the compiler marks and what it does not. */
void in_turns(struct item* i, int n) {
  for (int k = 0; k < n; ++k) {
    memset(&i[k].fd, 1, 8); /* more */
    i[k].before = k;
    i[k].fd = k; /* field */
    i[k].value = 1;
    __atomic_fetch_add(&i[k].counts[1], 1, __ATOMIC_RELAXED); /* field */
    i[k].counts[3]++;                                         /* field */
  }
}
