// Door of layer 6, announced stores: transactions, the heap they run on, recovery.
#pragma once

#include "tx/aligned_object.hpp"
#include "tx/face.hpp"
#include "tx/heap.hpp"
#include "tx/level_stack.hpp"
#include "tx/line_set.hpp"
#include "tx/mnemosyne_engine.hpp"
#include "tx/recover.hpp"
#include "tx/transaction.hpp"
