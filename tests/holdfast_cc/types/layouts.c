// What the compiler finds out about durable types; layouts.txt is what it must be, in C and in C++.
// clang-format off: comments belong to lines, and NVM_STRUCT is no macro to it
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

typedef struct everything all;
typedef Node node_type;
uint32_t ids[] = {NVM_TYPE_ID(all), NVM_TYPE_ID(struct Node), NVM_TYPE_ID(node_type), NVM_TYPE_ID(Node *),
                  NVM_TYPE_ID(NVM_PTR(Node)), NVM_TYPE_ID(byte), NVM_TYPE_ID(long unsigned), NVM_TYPE_ID(nothing)};
