// Where objects lie, for layers that look at places and change none.
#pragma once

#include "space/aligned_layout.hpp"
#include "space/cluster_image.hpp"
#include "space/clusters_layout.hpp"
#include "space/extent_image.hpp"
#include "space/page_heads.hpp"
#include "space/page_map.hpp"
#include "space/pages_of_stores.hpp"
#include "space/space_layout.hpp"
#include "space/sparse_array.hpp"
