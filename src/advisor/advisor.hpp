// Door of the advisor: which allocations of a program are worth a durable heap.
//
//   runtime/   what a profiled program has in it
//   profile    the file that it leaves: reading, merging
//   prices     what a site's objects cost in each medium, and the ranking
//   rewriter/  holdfast-rewrite, which edits sources by Clang's syntax tree; a program of its own, since it links Clang
//   plan       what the command and the rewriter tell each other
#pragma once

#include "advisor/prices.hpp"
#include "advisor/profile.hpp"
