// What a pipeline is cut into, at most a chunk for each: the embedding, every layer and the head.
// (A norm before the head goes with one of them.)
#pragma once

namespace meshwright {

constexpr int units_to_cut(int layers) { return layers + 2; }

}  // namespace meshwright
