// Reads published measurements: files of scenarios/evidence, with rows of three kinds (steps,
// collectives, largest batches).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/program/framework.h"
#include "sim/collectives/select.h"
#include "sim/validate/framework_of_source.h"
#include "sim/validate/harness.h"

namespace meshwright::sim {

// The part of memory that a published peak covers.
enum class PeakMemoryOf : std::uint8_t {
  device,  // all memory of the device in use, as nvidia-smi shows it
  // Memory that the framework's allocator handed out or reserved; no context, no buffers of
  // communicators.
  allocator,
  compiler  // memory of a compiled program only, without that of libraries
};

struct StepRow {  // a published training step
  std::string id;
  std::string job;  // the text of a job file
  // The framework that ran the step, unless `job` names one. It is that of the file's source.
  Framework framework = Framework::meshwright;
  StatesOfSource states = StatesOfSource::full;  // how the file's source keeps states
  double step_time_s = 0;
  std::optional<double> peak_memory_bytes;
  PeakMemoryOf peak_memory_of = PeakMemoryOf::device;
  std::vector<std::string> assumed;  // keys of the job whose values the source does not state
};

struct CollectiveRow {
  std::string id;
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string machine;
  int count = 1, gpus = 1;  // number of hosts; number of ranks on all of them
  double bytes = 0, time_s = 0;
  // The algorithm that NCCL was told to use, by NCCL's name in lower case. If it is empty, NCCL
  // chose.
  std::string algorithm;
  Harness harness;
};

struct LargestBatchRow {  // the largest batch per GPU that fits, as published
  std::string id, model, machine, precision, framework, dataset;
  int sequence_length = 0;
  int native = 0, compiled = 0;  // without and with the training compiler
};

struct Evidence {
  std::string source;  // the file's name without its extension
  std::string title, where, measured_by;
  Framework framework = Framework::meshwright;  // `meshwright` means that it is not known
  std::optional<int> independent_rows;  // if rows depend on each other: how many are independent
  std::vector<StepRow> steps;
  std::vector<CollectiveRow> collectives;
  std::vector<LargestBatchRow> largest_batches;
};

// Reads a file. Throws InputError for an unknown key, a missing number or a row of unknown kind,
// and for a log of another program.
Evidence read_evidence(const std::string& path);

}  // namespace meshwright::sim
