// Declarations of a C++ library that comes compiled: ways to its code that name no function.
#pragma once

#include <functional>

struct shape {
  virtual ~shape();
  virtual void change(char* p) = 0;
  virtual void change_inside(const char* const* p) = 0;
};
shape* make_shape();

std::function<void(char*)> make_function();
void call_back(const std::function<void(char*)>& f, char* p);

using changer = void (*)(char*);
changer make_pointer();

struct counter {
  void change(char* p);
  int n = 0;
};
