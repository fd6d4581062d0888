// Door of layer 5, isolation: what simultaneous transactions need to know of each other.  Volatile; knows no engine.
#pragma once

#include "isolation/journal.hpp"
#include "isolation/limbo.hpp"
#include "isolation/line_bytes.hpp"
#include "isolation/line_index.hpp"
#include "isolation/line_table.hpp"
#include "isolation/orec.hpp"
#include "isolation/participants.hpp"
#include "isolation/patience.hpp"
#include "isolation/shared_memory.hpp"
#include "isolation/version_clock.hpp"
#include "isolation/view.hpp"
#include "isolation/visits.hpp"
#include "isolation/write_set.hpp"
#include "isolation/written_line.hpp"
