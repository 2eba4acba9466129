// What nearly every source includes: setup.py compiles it once and gives it to all sources (but *.simd.cc and module.cc)
// before their first line. Each source still includes what it uses; `make sanitize` compiles without this file.
#include "python.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>
