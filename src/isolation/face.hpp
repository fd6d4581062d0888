// What an engine is given by a barrier transaction.
#pragma once

#include "isolation/written_line.hpp"
