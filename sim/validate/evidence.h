// Reads published measurements: files of scenarios/evidence, with rows of three kinds.
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
  device,     // all that is in use, as nvidia-smi shows it
  allocator,  // the framework's, handed out or reserved: no context, no buffers of communicators
  compiler    // the memory of a compiled program only, without that of libraries
};

struct StepRow {  // a training step
  std::string id;
  std::string job;  // a job file's text
  // Whose step it is, unless the job says so: that of the file's source.
  Framework framework = Framework::meshwright;
  StatesOfSource states = StatesOfSource::full;  // of the file's source
  double step_time_s = 0;
  std::optional<double> peak_memory_bytes;
  PeakMemoryOf peak_memory_of = PeakMemoryOf::device;
  std::vector<std::string> assumed;  // keys of the job that the source does not state
};

struct CollectiveRow {
  std::string id;
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string machine;
  int count = 1, gpus = 1;  // hosts; ranks over all of them
  double bytes = 0, time_s = 0;
  // NCCL's name, in lower case, of the algorithm that NCCL was told to use. If it is empty, NCCL
  // chose.
  std::string algorithm;
  Harness harness;
};

struct LargestBatchRow {  // the largest batch per GPU that fits
  std::string id, model, machine, precision, framework, dataset;
  int sequence_length = 0;
  int native = 0, compiled = 0;  // by the framework alone, and with the training compiler
};

struct Evidence {
  std::string source;  // the file's name without its extension
  std::string title, where, measured_by;
  Framework framework = Framework::meshwright;  // meshwright: not known
  std::optional<int> independent_rows;  // where rows follow from each other: how many do not
  std::vector<StepRow> steps;
  std::vector<CollectiveRow> collectives;
  std::vector<LargestBatchRow> largest_batches;
};

// Reads a file strictly: throws InputError for an unknown key, a missing number or a row of unknown
// kind.
Evidence read_evidence(const std::string& path);

}  // namespace meshwright::sim
