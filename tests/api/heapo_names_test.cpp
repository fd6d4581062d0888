// The same program, in C++.
#include "heapo_names_test.c"
