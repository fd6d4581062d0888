// Interface of a pool to barrier transactions.
#pragma once

#include "stm/durable_side.hpp"
