#include "tests/exec/worlds.h"

meshwright::exec::World& test_world() {
  static const auto world = meshwright::exec::make_world("self");
  return *world;
}
