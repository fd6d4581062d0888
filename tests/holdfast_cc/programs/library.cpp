// What functions of the C++ library write that come compiled: an abort takes it back.
#include <nvm/nvm.h>

#include <charconv>
#include <complex>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <sstream>
#include <string>

#include "new_pool.h"

namespace {

struct record {
  char text[64];
  wchar_t wide[16];
  short s;
  unsigned short us;
  int i;
  unsigned u;
  long l;
  unsigned long ul;
  long long ll;
  unsigned long long ull;
  float f;
  double d;
  long double e;
  bool b;
  void* p;
  std::complex<double> z;
  char after[64];
};

// Here nobody knows at compile time that it is durable.
const struct {
  const char* what;
  void (*run)(record& r);
} all[] = {
    {"read", [](record& r) { std::istringstream("some bytes").read(r.text, 8); }},
    {"readsome", [](record& r) { std::istringstream("some bytes").readsome(r.text, 8); }},
    {"get", [](record& r) { std::istringstream("some bytes").get(r.text, 8); }},
    {"get to", [](record& r) { std::istringstream("some bytes").get(r.text, 8, 'e'); }},
    {"get one", [](record& r) { std::istringstream("some bytes").get(r.text[3]); }},
    {"getline", [](record& r) { std::istringstream("some\nbytes").getline(r.text, 8); }},
    {"getline to", [](record& r) { std::istringstream("some bytes").getline(r.text, 8, 'e'); }},
    {"sgetn", [](record& r) { std::istringstream("some bytes").rdbuf()->sgetn(r.text, 8); }},
    {"copy", [](record& r) { std::string("some bytes").copy(r.text, 8); }},
    {"wide read", [](record& r) { std::wistringstream(L"some bytes").read(r.wide, 8); }},
    {"wide getline", [](record& r) { std::wistringstream(L"some bytes").getline(r.wide, 8); }},
    {"wide int", [](record& r) { std::wistringstream(L"17") >> r.i; }},
    {"short", [](record& r) { std::istringstream("17") >> r.s; }},
    {"unsigned short", [](record& r) { std::istringstream("17") >> r.us; }},
    {"int", [](record& r) { std::istringstream("17") >> r.i; }},
    {"unsigned", [](record& r) { std::istringstream("17") >> r.u; }},
    {"long", [](record& r) { std::istringstream("17") >> r.l; }},
    {"unsigned long", [](record& r) { std::istringstream("17") >> r.ul; }},
    {"long long", [](record& r) { std::istringstream("17") >> r.ll; }},
    {"unsigned long long", [](record& r) { std::istringstream("17") >> r.ull; }},
    {"float", [](record& r) { std::istringstream("1.5") >> r.f; }},
    {"double", [](record& r) { std::istringstream("1.5") >> r.d; }},
    {"long double", [](record& r) { std::istringstream("1.5") >> r.e; }},
    {"bool", [](record& r) { std::istringstream("1") >> r.b; }},
    {"pointer", [](record& r) { std::istringstream("0x17") >> r.p; }},
    {"complex", [](record& r) { std::istringstream("(1.5,2.5)") >> r.z; }},
    {"character", [](record& r) { std::istringstream("x") >> r.text[5]; }},
    {"unsigned character", [](record& r) { std::istringstream("x") >> *reinterpret_cast<unsigned char*>(r.text); }},
    {"word", [](record& r) { std::istringstream("word") >> r.text; }},
    {"many", [](record& r) { std::istringstream("1 2.5 x") >> r.i >> r.d >> r.text[0]; }},
    {"to_chars float", [](record& r) { std::to_chars(r.text, std::end(r.text), 1.5F); }},
    {"to_chars double", [](record& r) { std::to_chars(r.text, std::end(r.text), 1.5); }},
    {"to_chars scientific",
     [](record& r) { std::to_chars(r.text, std::end(r.text), 1.5, std::chars_format::scientific); }},
    {"to_chars precision",
     [](record& r) { std::to_chars(r.text, std::end(r.text), 1.5, std::chars_format::fixed, 9); }},
    {"to_chars long double", [](record& r) { std::to_chars(r.text, std::end(r.text), 1.5L); }},
    {"to_chars int", [](record& r) { std::to_chars(r.text, std::end(r.text), 17); }},
    {"from_chars float",
     [](record& r) {
       const char* t = "1.5";
       std::from_chars(t, t + 3, r.f);
     }},
    {"from_chars double",
     [](record& r) {
       const char* t = "1.5";
       std::from_chars(t, t + 3, r.d);
     }},
    {"from_chars long double",
     [](record& r) {
       const char* t = "1.5";
       std::from_chars(t, t + 3, r.e);
     }},
    {"from_chars int",
     [](record& r) {
       const char* t = "17";
       std::from_chars(t, t + 2, r.i);
     }},
};

}  // namespace

int main(int, char** arguments) {
  NVM_POOL* pool = new_pool(arguments[1], 1 << 20);
  if (pool == nullptr || nvm_tx_begin(pool) != 0) return 1;
  auto* r = static_cast<record*>(nvm_calloc(pool, 1, 1, sizeof(record)));
  if (r == nullptr || nvm_tx_commit(pool) != 0) return 1;
  int wrong = 0;
  for (const auto& c : all) {
    nvm_tx_begin(pool);
    c.run(*r);
    const char nothing[sizeof(record)] = {};
    if (std::memcmp(r, nothing, sizeof nothing) == 0) {
      std::fprintf(stderr, "%s: nothing was written\n", c.what);
      ++wrong;
    }
    nvm_tx_abort(pool);
    if (std::memcmp(r, nothing, sizeof nothing) == 0) continue;
    std::fprintf(stderr, "%s: what it wrote is there after the abort\n", c.what);
    std::memset(static_cast<void*>(r), 0, sizeof nothing);
    ++wrong;
  }
  if (wrong != 0 || nvm_pool_close(pool) != 0) return 1;
  std::puts("done");
  return 0;
}
