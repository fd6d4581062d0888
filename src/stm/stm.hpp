// Door of layer 7, stm: barrier transactions.
#pragma once

#include "stm/durable_side.hpp"
#include "stm/transaction.hpp"
