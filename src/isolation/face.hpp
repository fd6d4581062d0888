// The lines that a barrier transaction gives to an engine.
#pragma once

#include "isolation/written_line.hpp"
