// Door of layer 7, objects: what lies in them.  Type maps in the pool and in the program, and how the two are compared.
#pragma once

#include "object/face.hpp"
#include "object/garbage.hpp"
#include "object/holds.hpp"
#include "object/listed_objects.hpp"
#include "object/type_store.hpp"
