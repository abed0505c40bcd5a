#include "tests/exec/worlds.h"

meshwright::World& test_world() {
  static const auto world = meshwright::make_world("self");
  return *world;
}
