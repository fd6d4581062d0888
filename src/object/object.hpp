// Door of layer 7, objects: what lies in them.  Type maps in the pool and in the program, and how the two are compared.
// The collector is a template that few sources need: garbage.hpp, listed_objects.hpp, placed_objects.hpp.
#pragma once

#include "object/face.hpp"
#include "object/numbered_relocation.hpp"
#include "object/page_relocation.hpp"
#include "object/relocation.hpp"
#include "object/reset_pass.hpp"
#include "object/static_pointers.hpp"
#include "object/type_store.hpp"
