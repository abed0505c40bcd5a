// Reads and range-checks the keys of version 1 of SageMaker's model parallel library.
// distribution_v1.cpp and distribution_v1_keys.cpp share this header.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "models/job/distribution.h"

namespace meshwright::job {

// The values of the library's keys, which begin with the library's defaults.
struct Version1 {
  // The key that messages about the pipeline degree name: this one or, if the job does not have it,
  // the older `partitions`.
  std::string pipeline_key = "pipeline_parallel_degree";
  int pipeline = 1, tensor = 1, shard = 1, microbatches = 1;
  bool simple = false, speed = false, auto_partition = true;
  std::optional<int> active, default_partition;
  // The stages that a partition_file gives modules, if it is used.
  std::map<std::string, int> stage_of;
  bool names_every_unit = false;  // stage_of is a stored partition (load_partition)
  double memory_weight = 0.8;
  std::string placement = "cluster";
  bool ddp = false, prescaled = false, shard_optimizer = false, fp16 = false, bf16 = false;
  bool offload = false, overlap = true;
  int horizon = 4;
  std::int64_t bucket = 500'000'000, persistence = 1'000'000, live = 1'000'000'000;  // elements
  double clip = 1;
  bool hierarchical = true;
};

// Reads the keys of version_1_keys(). Warns once of each key that changes nothing.
Version1 read_version_1_keys(Fields& fields, Job& job);

}  // namespace meshwright::job
