// What that library does: all of it changes four bytes.
#include "elsewhere.hpp"

namespace {

void flip(char* p) {
  for (int i = 0; i < 4; i++) p[i] ^= 0x55;
}
struct square final : shape {
  void change(char* p) override { flip(p); }
  void change_inside(const char* const* p) override { flip(const_cast<char*>(*p)); }
};

}  // namespace

shape::~shape() = default;
shape* make_shape() { return new square; }
std::function<void(char*)> make_function() {
  return [n = 4](char* p) {
    if (n == 4) flip(p);
  };
}
void call_back(const std::function<void(char*)>& f, char* p) { f(p); }
changer make_pointer() { return flip; }
void counter::change(char* p) {
  ++n;
  flip(p);
}
