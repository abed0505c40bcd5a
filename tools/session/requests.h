// Declares the requests that callers make of the session. The command line, the servers and the
// Python module fill them from their own options.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"
#include "tools/session/sagemaker.h"

namespace meshwright::session {

// Says where the profiles of machines come from.
struct MachineRequest {
  std::string profile;        // file of the profile of the machine that it names; empty: none
  std::string prices;         // file of prices that precede the known ones; empty: none
  std::string local_profile;  // file of the profile of machine `local`, if it exists
  std::function<Machine()> measure_here;  // measures this computer if it has no profile yet
  // Returns the path of the file that keeps the result of measure_here() for the day. If the
  // function is null, nothing is kept.
  std::function<std::string()> kept_profile;
  bool measure_afresh = false;  // even if a profile of today is kept
};

// Describes a job by words of the command line, in place of a job file or of its keys.
struct JobWords {
  std::string model;         // model
  std::string tokens;        // objective.tokens
  std::string batch;         // training.global_batch
  std::string length;        // training.sequence_length
  std::string task;          // a word of task_names(); empty: the first
  std::string on;            // cluster.machine: a machine, a group, or GPUs and how many
  std::optional<int> count;  // cluster.count
};

// Names a job, and what changes it.
struct JobRequest : MachineRequest, JobWords {
  // Has the job's path, or its name in messages if `text` is given. If it is empty, the words are
  // the job.
  std::string file;
  std::optional<std::string> text;  // the contents of the job file
  std::vector<std::string> set;     // KEY=VALUE
  std::string framework;            // training.framework
  std::string by;                   // date or duration by which the whole job is to be done
  std::string budget;               // dollars for the whole job
  // Tells whether the caller searches plans. Keys that the job leaves out are then open.
  bool searches = false;
  // Tells whether a job that leaves out the batch or the length gets usual ones (with_words()).
  bool fills_in = false;
  // Tells whether a job made of words may have any number of hosts if the words do not say it.
  bool any_count = false;
  int today = 0;  // days since 1970-01-01, for dates and the age of prices
  SageMakerEnvironment sagemaker;
};

// Says how a job is trained.
struct TrainRequest {
  std::optional<int> steps;                // in place of training.steps
  bool resume = false;                     // whether to continue from the newest checkpoint
  std::vector<std::string> allow_changed;  // keys in which job and checkpoint may differ
  std::string hostfile;
  bool allow_mpi_options = false;  // even those that a job file may not set by itself
  bool check_collectives = false;
  bool no_hash = false;         // without parameters_sha256
  std::optional<int> deadline;  // seconds that a wait for other ranks may take
  std::optional<int> restarts;  // how often to start the ranks again after a fault
  std::optional<int> threads;   // of each rank
  bool keeps_timeline = false;  // of the steps `trace_steps`; empty: of the last one
  std::string trace_steps;
  bool keeps_last_step = false;  // the timeline of the last step too, for a report
};

}  // namespace meshwright::session
