// Decides which stage runs which virtual stage. The units of a model are cut into virtual stages,
// in order of execution, and each stage of the pipeline runs `chunks` of them.
#pragma once

#include <cstdint>

#include "models/core/rooms.h"

namespace meshwright::program {

// The direction in which each chunk goes through the stages.
enum class StageShape : std::uint8_t {
  loop,  // every chunk goes from the first stage to the last
  vee    // chunks 0, 2, ... go from the first stage to the last, chunks 1, 3, ... go back
};

struct StageLayout {
  int stages = 1;
  int chunks = 1;  // virtual stages of each stage
  StageShape shape = StageShape::loop;

  constexpr int virtual_stages() const { return stages * chunks; }
  constexpr int chunk_of(int virtual_stage) const { return virtual_stage / stages; }
  constexpr int stage_of(int virtual_stage) const {
    return turned(chunk_of(virtual_stage), virtual_stage % stages);
  }
  constexpr int virtual_stage(int stage, int chunk) const {
    return chunk * stages + turned(chunk, stage);
  }
  // Returns whether the chunk goes from the last stage to the first.
  constexpr bool goes_back(int chunk) const { return shape == StageShape::vee && chunk % 2 == 1; }
  constexpr bool operator==(const StageLayout&) const = default;

 private:
  constexpr int turned(int chunk, int place) const {
    return goes_back(chunk) ? stages - 1 - place : place;
  }
};

}  // namespace meshwright::program
