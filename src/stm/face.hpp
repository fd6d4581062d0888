// What barrier transactions need of a pool.
#pragma once

#include "stm/durable_side.hpp"
