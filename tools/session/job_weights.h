// Finds the parameters that the model of a job has, and the checkpoint that holds them, for
// commands that use weights without training.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/checkpoint/adapters.h"
#include "exec/checkpoint/huggingface.h"
#include "exec/checkpoint/load.h"
#include "models/job/job.h"
#include "tools/session/watch.h"

namespace meshwright::session {

struct JobParameters {
  std::map<std::string, Shape> shapes;  // by name, adapters included
  PublishedParts parts;
  std::map<std::string, Parameter> whole;
  std::set<std::string> frozen;  // parameters that are not trained
  std::set<std::string> ones;    // weights of norms that have none, which no published file has
  std::vector<Adapter> adapters;
  std::vector<std::string> trained_whole;  // modules that are trained besides the adapters

  // Return the shapes of parameters. of_model() has the model's parameters as files have
  // them, without the adapters.
  // of_adapters() has all parameters that are not frozen, which are those in an adapter's file.
  std::map<std::string, Shape> of_model() const;
  std::map<std::string, Shape> of_adapters() const;
};

// Returns the parameters of the job's model. How the plan splits the model does not change them.
JobParameters parameters_of(const Job& job);

// Returns `given`, or, if that is "", the job's checkpoint folder. Throws InputError if there is
// neither.
std::string checkpoint_folder(const Job& job, const std::string& given);

// Has a checkpoint all of whose data has been read and agrees with its checksums.
struct SoundCheckpoint {
  std::string path;
  Checkpoint found;
  std::optional<Checkpoint> base;  // frozen parameters, if `found` lacks them
};

// Returns the checkpoint in `folder`, or the newest good one if `folder` is that of a run. Throws
// InputError if there is no good one, or if it belongs to a job with other weights, except for
// differences in the keys `allowed` (--allow-changed).
SoundCheckpoint newest_good(const std::string& folder, const Job& job,
                            const JobParameters& parameters,
                            const std::vector<std::string>& allowed, const Watch& watch);

}  // namespace meshwright::session
