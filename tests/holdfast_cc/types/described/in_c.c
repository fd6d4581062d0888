/* Types that are described twice, by holdfast-cc and by macros: if the two differed in a byte, the program would have
 * two meanings of the type. */
#include <nvm/describe.h>
#include <nvm/malloc.h>
#include <nvm/static.h>
#include <stdio.h>

typedef enum { red, green } colour;
typedef NVM_STRUCT Node {
  NVM_PTR(struct Node) next;
  char data[32];
} Node;
struct pair {
  int x;
  double y;
};
struct element {
  int first;
  NVM_PTR(Node) to;
  unsigned char tag;
};
struct seen {
  unsigned long bits;
};
static void visit(const void* object, nvm_visit* to) { nvm_visit_field(to, object, NVM_FIELD_POINTER); }
NVM_VISIT(struct seen, visit);

NVM_STRUCT slot {
  int key;
  unsigned hits NVM_RESET;
};
NVM_STRUCT tail {
  long n;
  struct slot slots[2];
  char rest[] NVM_RESET;
};
NVM_STRUCT everything {
  signed char a;
  unsigned char b;
  _Bool c;
  colour d;
  short e;
  unsigned short f[2][3];
  long g;
  unsigned long long h;
  float i;
  double j;
  long double k;
  __int128 l;
  union {
    int i;
    float f;
  } m[2], one;
  unsigned n : 3;
  unsigned o : 29;
  struct pair p;
  struct element q[2];
  NVM_PTR(Node) r[3];
  NVM_WEAK_PTR(Node) s;
  NVM_PTR(const char) t;
  NVM_PTR(void) u;
  NVM_VOLATILE_PTR(Node) v;
  NVM_STATIC_PTR(int(const void*)) call;
  NVM_STATIC_PTR(const Node) kinds[2];
  struct seen w[2], y;
  struct pair z NVM_RESET;
  int* cache[2] NVM_RESET;
  short x[];
};
uint32_t ids[] = {NVM_TYPE_ID(struct Node), NVM_TYPE_ID(struct slot), NVM_TYPE_ID(struct tail),
                  NVM_TYPE_ID(struct everything)};

NVM_DESCRIBE(struct Node, NVM_POINTER(next, struct Node), NVM_ARRAY(data));
NVM_DESCRIBE(struct slot, NVM_FIELD(key), NVM_RESET_FIELD(hits));
NVM_DESCRIBE(struct tail, NVM_FIELD(n), NVM_STRUCTURES(slots, 2), NVM_INNER(slots, key), NVM_INNER_RESET(slots, hits),
             NVM_FLEXIBLE_RESET(rest));
NVM_DESCRIBE(struct everything, NVM_FIELD(a), NVM_FIELD(b), NVM_FIELD(c), NVM_FIELD(d), NVM_FIELD(e), NVM_TABLE(f),
             NVM_FIELD(g), NVM_FIELD(h), NVM_FIELD(i), NVM_FIELD(j), NVM_FIELD(k), NVM_FIELD(l), NVM_BYTES_ARRAY(m),
             NVM_BYTES(one), NVM_BITS(offsetof(struct everything, one) + 4, 4, "n:0+3|o:3+29"), NVM_FIELD(p.x),
             NVM_FIELD(p.y), NVM_STRUCTURES(q, 3), NVM_INNER(q, first), NVM_INNER_POINTER(q, to, Node),
             NVM_INNER(q, tag), NVM_POINTER(r, Node), NVM_WEAK(s, Node), NVM_POINTER(t, const char),
             NVM_POINTER(u, void), NVM_PLAIN(v, Node), NVM_STATIC(call, void), NVM_STATIC(kinds, Node),
             NVM_VISITED(w, struct seen, 1), NVM_INNER(w, bits), NVM_VISITED(y, struct seen, 1), NVM_WITHIN(y, bits),
             NVM_RESET_FIELD(z), NVM_RESET_ARRAY(cache), NVM_FLEXIBLE(x));

static int print(const nvm_type_info* type, void* unused) {
  (void)unused;
  if (type->id == type->canonical_id) printf("%s ", type->name);
  return 0;
}

int main(void) {
  if (nvm_pool_each_type(NULL, print, NULL) != 0) puts(nvm_errormsg());
  return 0;
}
