// Layouts of durable types as the compiler finds them; layouts.txt has the expected ones, for C and C++.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
#include <nvm/describe.h>
#include <nvm/nvm.h>
#include <stdbool.h>

typedef enum { red, green } colour;
typedef unsigned char byte;

struct pair {
  int x;
  double y;
};

typedef NVM_STRUCT Node {
  NVM_PTR(struct Node) next;
  char data[32];
} Node;

NVM_STRUCT everything {
  signed char a;
  byte b;
  bool c;
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
  } m[2];
  struct pair n;
  struct {
    int first;
    struct {
      NVM_PTR(Node) to;
      byte tag;
    } many[3];
  } o[2];
  struct {
    int unnamed;
  };
  Node p;
  NVM_PTR(const char) q;
  NVM_PTR(NVM_PTR(Node)) r;
  NVM_PTR(void) s;
  NVM_PTR(NVM_STRUCT later) t;
  NVM_VOLATILE_PTR(void) u;
};

NVM_STRUCT __attribute__((packed, aligned(4))) packed {
  char a;
  NVM_PTR(Node) b;
  char c;
  short d[];
};

NVM_STRUCT bits {
  unsigned a : 3;
  unsigned : 7;
  unsigned long b : 30;
  NVM_PTR(Node) to;
  struct {
    byte c : 1;
    byte : 0;
    bool d : 1;
  } many[2];
  int e : 5;
  short f;
  struct {
    signed char g : 2;
  };
};

enum { is_number, is_node, is_pair };
NVM_STRUCT value {
  unsigned char kind : 3;
  NVM_WEAK_PTR(Node) up;
  union {
    long n;
    NVM_PTR(Node) p[2];
    struct {
      char c;
      NVM_PTR(Node) q;
    } s;
    byte flag : 1;
  } u NVM_UNION_TAG(kind == is_node ? 1 : kind > 0x1 || -kind < 0 ? 2 : 0);
  struct {
    struct {
      short which;
    } inner;
    union NVM_UNION_TAG(inner.which - 1) {
      NVM_PTR(Node) only;
      double d;
    };
  } many[2];
};

struct slot {
  int n;
  union {
    long number;
    NVM_PTR(Node) node;
  } u;
};
union self {
  unsigned long bits;
  NVM_PTR(Node) node;
};
static void visit(const void *object, nvm_visit *to) { nvm_visit_field(to, object, NVM_FIELD_POINTER); }
NVM_VISIT(struct slot, visit);
NVM_VISIT(union self, visit);
NVM_STRUCT seen {
  struct slot one;
  union self two[2];
  struct slot many[2];
};
NVM_STRUCT whole {
  NVM_PTR(Node) declared;
  union {
    long number;
    NVM_WEAK_PTR(Node) node;
  };
};
NVM_VISIT(struct whole, visit);

typedef struct everything all;
typedef Node node_type;
uint32_t ids[] = {NVM_TYPE_ID(all), NVM_TYPE_ID(struct Node), NVM_TYPE_ID(node_type), NVM_TYPE_ID(Node *),
                  NVM_TYPE_ID(NVM_PTR(Node)), NVM_TYPE_ID(byte), NVM_TYPE_ID(long unsigned), NVM_TYPE_ID(nothing)};
