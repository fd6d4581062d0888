// Door of layer 5, isolation: what transactions that run at the same time need to know of each other.  Volatile; knows
// no engine.
#pragma once

#include "isolation/version_clock.hpp"
#include "isolation/written_line.hpp"
