// The types of objects, in the pool and in the program, without what stores them.
#pragma once

#include "object/pointer_walk.hpp"
#include "object/relocation_report.hpp"
#include "object/reset_fields.hpp"
#include "object/static_pointers.hpp"
#include "object/type_map.hpp"
#include "object/type_map_layout.hpp"
#include "object/type_merge.hpp"
#include "object/type_registry.hpp"
#include "object/undescribed.hpp"
