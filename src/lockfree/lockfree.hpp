// Door of layer 6, lock-free structures (log-free, sections 3 to 5).
//
//   link.hpp           a link and its tags              persistence.hpp   how a link changes durably; link_cache.hpp
//   domain.hpp         threads, epochs, generations     active_areas.hpp  what recovery has to look at
//   node_heap.hpp      allocation bits                  node_memory.hpp   all of these, as a structure sees them
//   chain.hpp          Harris's list                    list.hpp, hash_table.hpp
//   skip_list.hpp      levels of them                   tree.hpp          an external search tree
//   concept.hpp        what all of these are asked      face_of.hpp       what shapes have in common
//   shapes.hpp         the table of them
//   catalogue.hpp      structures by name; recovery     durable.hpp       a structure in a pool
//   sealed_nodes.hpp   nodes that prove themselves      sealed_memory.hpp volatile links between them
//   rebuilt.hpp        a structure in a pool, found by its nodes
#pragma once

#include "lockfree/catalogue.hpp"
#include "lockfree/durable.hpp"
#include "lockfree/face.hpp"
#include "lockfree/rebuilt.hpp"
#include "lockfree/shapes.hpp"
