// The lines that a barrier transaction gives to an engine; which barrier transactions are to be waited for.
#pragma once

#include "isolation/visits.hpp"
#include "isolation/written_line.hpp"
