// The same program, in C++.
#include "lewat_names_test.c"
