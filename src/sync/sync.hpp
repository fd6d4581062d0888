// Door of layer 2, volatile concurrency: locks, epochs and the per-thread identity.  Knows nothing durable.
#pragma once

#include "sync/biased_lock.hpp"
#include "sync/epochs.hpp"
#include "sync/number_owners.hpp"
#include "sync/spin_lock.hpp"
#include "sync/thread_token.hpp"
#include "sync/waiting_line.hpp"
#include "sync/writers_first_lock.hpp"
