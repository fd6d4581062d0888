#include "reset_sample.h"

#include <nvm/describe.h>
#include <string.h>

struct reset_slot {
  unsigned hits; /* reset */
  unsigned key;
};
struct reset_session {
  struct reset_session* next;
  struct reset_session* cache; /* reset */
  char lock[12];               /* reset */
  int number;
  struct reset_slot slots[2];
};
/* Only programs that fill such a pool know the type: others have other formats to make and to open. */
static int describe(void) {
  typedef struct reset_session nvm_described;
  static const nvm_field_description fields[] = {NVM_POINTER(next, struct reset_session),
                                                 NVM_RESET_FIELD(cache),
                                                 NVM_RESET_ARRAY(lock),
                                                 NVM_FIELD(number),
                                                 NVM_STRUCTURES(slots, 2),
                                                 NVM_INNER_RESET(slots, hits),
                                                 NVM_INNER(slots, key)};
  static const nvm_type_description described = {"struct reset_session", sizeof(nvm_described), _Alignof(nvm_described),
                                                 sizeof fields / sizeof fields[0], fields};
  return nvm_describe_type(&described);
}

/* Elements of session i: those of which i % 3 is 1 are arrays. */
static int elements_of(int i) { return i % 3 == 1 ? 3 : 1; }

static void use(struct reset_session* s, int elements) {
  for (int e = 0; e < elements; ++e) {
    memset(s[e].lock, 0x4C, sizeof s[e].lock);
    s[e].cache = s;
    s[e].slots[0].hits = 0x48495453;
    s[e].slots[1].hits = 7;
  }
}

int reset_sample_fill(NVM_POOL* pool) {
  struct reset_session* last = NULL;
  if (describe() != 0 || nvm_tx_begin(pool) != 0) return 1;
  for (int i = RESET_SAMPLE_SESSIONS - 1; i >= 0; --i) {
    const size_t bytes = (size_t)elements_of(i) * sizeof *last;
    struct reset_session* const s =
        nvm_alloc_aligned(pool, NVM_TYPE_ID(struct reset_session), bytes, i % 4 == 3 ? 64 : 16);
    if (s == NULL) return 2;
    memset(s, 0, bytes);
    for (int e = 0; e < elements_of(i); ++e) {
      s[e].number = i;
      s[e].next = last;
      s[e].slots[0].key = (unsigned)(10 * i + e);
      s[e].slots[1].key = (unsigned)(10 * i + e + 5);
    }
    use(s, elements_of(i));
    last = s;
  }
  if (nvm_pool_set_root(pool, last) != 0) return 3;
  return nvm_tx_commit(pool) != 0 ? 4 : 0;
}

int reset_sample_verify(NVM_POOL* pool) {
  const struct reset_session* s = nvm_pool_get_root(pool);
  for (int i = 0; i < RESET_SAMPLE_SESSIONS; ++i) {
    if (s == NULL || nvm_pool_of(s) != pool) return 1;
    if (nvm_size_of(pool, s) != (size_t)elements_of(i) * sizeof *s) return 2;
    for (int e = 0; e < elements_of(i); ++e) {
      static const char unlocked[sizeof s->lock];
      if (s[e].number != i || s[e].next != s->next) return 3;
      if (s[e].slots[0].key != (unsigned)(10 * i + e) || s[e].slots[1].key != (unsigned)(10 * i + e + 5)) return 4;
      if (s[e].cache != NULL || memcmp(s[e].lock, unlocked, sizeof unlocked) != 0) return 5;
      if (s[e].slots[0].hits != 0 || s[e].slots[1].hits != 0) return 6;
    }
    s = s->next;
  }
  return s == NULL ? 0 : 7;
}

int reset_sample_use(NVM_POOL* pool) {
  struct reset_session* s = nvm_pool_get_root(pool);
  for (int i = 0; i < RESET_SAMPLE_SESSIONS; ++i) {
    if (s == NULL) return 1;
    use(s, elements_of(i));
    s = s->next;
  }
  return 0;
}
