// The buckets of relative positions (models/program/graph/relative.h) in a form for kernels. The
// host computes where each bucket begins, so that the host's logarithm decides, and the device's
// does not.
#pragma once

#include <cuda_runtime.h>

#include <climits>

#include "models/core/error.h"
#include "models/program/graph/relative.h"

namespace meshwright::exec::cuda {

struct RelativeBuckets {
  static constexpr int most = 128;  // buckets of one direction
  int count = 0;                    // buckets of one direction (earlier keys; later keys)
  bool causal = true;
  // The least distance, without sign, that is in each bucket or in a later one of its direction.
  int first[most];

  explicit RelativeBuckets(const Attributes& a)
      : count(a.causal ? a.relative_buckets : a.relative_buckets / 2), causal(a.causal) {
    MESHWRIGHT_CHECK(count > 0 && count <= most, "as many buckets as a kernel's argument holds");
    int found = 0;
    for (int away = 0; away <= a.relative_distance; ++away)
      for (const int bucket = relative_bucket(a, -away); found <= bucket;) first[found++] = away;
    while (found < count) first[found++] = INT_MAX;
  }

  // Returns the number of buckets of all directions. Under a causal mask there is only one
  // direction.
  int all() const { return causal ? count : 2 * count; }

  // Returns the bucket of a distance (key - query), as relative_bucket() does.
  __device__ int of(int distance) const {
    const int away = distance < 0 ? -distance : causal ? 0 : distance;
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (first[middle] <= away ? low : high) = middle;
    }
    return !causal && distance > 0 ? count + low : low;
  }

  // The distances in a bucket: [begin, end), which may be empty.
  struct Range {
    int begin, end;
  };
  __device__ Range range(int bucket) const {
    const bool later = bucket >= count;
    const int b = later ? bucket - count : bucket;
    const int nearest = first[b], beyond = b + 1 < count ? first[b + 1] : INT_MAX;
    if (later) return {nearest > 1 ? nearest : 1, beyond};
    // Earlier keys have negative distances. The first bucket also has the query's own position and,
    // under a causal mask, all later keys, as of() says.
    const int end = nearest == INT_MAX ? -INT_MAX : causal && b == 0 ? INT_MAX : 1 - nearest;
    return {beyond == INT_MAX ? -INT_MAX : 1 - beyond, end};
  }
};

}  // namespace meshwright::exec::cuda
