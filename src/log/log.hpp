// Door of layer 4: the lanes, their records, and the recovery of one lane.
#pragma once

#include "log/face.hpp"
#include "log/intent.hpp"
#include "log/lane_layout.hpp"
#include "log/lanes.hpp"
#include "log/mnemosyne_log.hpp"
#include "log/mnemosyne_recovery.hpp"
#include "log/record.hpp"
#include "log/recovery.hpp"
#include "log/redo_log.hpp"
#include "log/redo_recovery.hpp"
#include "log/tag.hpp"
