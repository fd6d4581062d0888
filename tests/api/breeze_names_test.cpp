// The same program as C++20.
#include "breeze_names_test.c"
