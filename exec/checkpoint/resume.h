// Continuing from the newest checkpoint that is good, under any degrees.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "exec/checkpoint/load.h"
#include "exec/runtime/runtime.h"

namespace meshwright {

// The unsplit shape of every parameter that is saved, over all stages.
std::map<std::string, Shape> shapes_of(const std::vector<Program>& stages);

// Fills this rank's weights, optimizer states and loss scale. A checkpoint of weights only leaves
// the moments at zero. Working copies in 16 bits are then to be refreshed.
void load(const Checkpoint& checkpoint, Runtime& runtime);

struct ResumeOptions {
  std::string folder;
  std::string optimizer;                    // of the job
  std::map<std::string, Shape> parameters;  // of the job's model
};

// Every rank calls it; they share the reading that finds damage and agree on one checkpoint. `say`
// is called on rank 0 with a line for each damaged one that is passed over. None: nothing was
// changed. InputError on all ranks where the newest sound one is of another model or optimizer,
// RunError where one cannot be read: it may be sound, and the run would go on without it.
std::optional<Manifest> resume(const ResumeOptions& options, Runtime& runtime, Communicator& all,
                               const std::function<void(const std::string&)>& say);

// The complaint of the first rank that has one, on all ranks; empty: none has.
std::string first_complaint(const std::string& own, Communicator& all);

}  // namespace meshwright
