// A run continues from its newest valid checkpoint, which may have been written under other degrees
// of parallelism.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "exec/checkpoint/load.h"
#include "exec/runtime/runtime.h"

namespace meshwright::exec {

// Returns the unsplit shapes of the parameters of all stages, by name.
std::map<std::string, Shape> shapes_of(const std::vector<Program>& stages);

// Returns the names of the parameters of all stages that are frozen (not trained).
std::set<std::string> frozen_of(const std::vector<Program>& stages);

// Returns whether a checkpoint holds any of the frozen parameters. Imported weights do. The
// checkpoints that a run with frozen parameters writes do not.
bool holds_any(const Checkpoint& checkpoint, const std::set<std::string>& frozen);

// Returns the checkpoint in `folder` that holds the frozen parameters, if `checkpoint` lacks them.
// None means that there are no frozen parameters, that `checkpoint` holds them, or that they follow
// from the seed.
std::optional<Checkpoint> base_of(const Checkpoint& checkpoint, const std::string& folder,
                                  const std::set<std::string>& frozen);

// Throws InputError if `base` holds other weights than those that the adapters of `manifest` were
// trained on. Accepts any base if the manifest has no checksum of it. `folder` holds both.
void check_base(const Manifest& manifest, const Checkpoint& base, const std::string& folder,
                const std::set<std::string>& frozen);

// Returns the parameters that a checkpoint has to hold: all of `parameters`, or only the trained
// ones if it holds none of the frozen ones.
std::map<std::string, Shape> held_by(const Checkpoint& checkpoint,
                                     std::map<std::string, Shape> parameters,
                                     const std::set<std::string>& frozen);

// Fills this rank's weights, optimizer states and loss scale. A checkpoint of weights only leaves
// the moments as they are. If the checkpoint has no averages, they begin as the weights. Frozen
// parameters that neither `checkpoint` nor `base` holds stay as they are. The caller must refresh
// 16-bit working copies afterwards.
void load(const Checkpoint& checkpoint, Runtime& runtime, const Checkpoint* base = nullptr);

struct ResumeOptions {
  std::string folder;
  std::string optimizer;                    // the job's
  std::map<std::string, Shape> parameters;  // the job's
  std::set<std::string> frozen = {};        // names of parameters that are not trained
  // Throws an InputError that begins with `where` if the manifest is that of another job. Null: no
  // job is refused. Every rank calls it with the same manifest.
  std::function<void(const Manifest&, const std::string& where)> check_job = nullptr;
};

// Loads the newest valid checkpoint and returns its manifest. Returns nothing if there is no valid
// checkpoint, and then the runtime is unchanged. Every rank calls it: the ranks share the search
// for damage and agree on one checkpoint. On rank 0, `say` is called with a line for each damaged
// checkpoint that is skipped. It is also called if only the checkpoint or only the job has an
// average of the weights, except for imported weights. In the returned manifest, `base`, its
// checksum and `imported` are the values for the run's next checkpoints.
//
// Throws InputError on all ranks if the newest valid checkpoint is of another model, optimizer or
// job, or if none is valid and the run began with imported weights. Throws RunError if one cannot
// be read, because it may be valid and the run would go on without it.
std::optional<Manifest> resume(const ResumeOptions& options, Runtime& runtime, Communicator& all,
                               const std::function<void(const std::string&)>& say);

// Returns on all ranks the complaint of the first rank that has one, or an empty string.
std::string first_complaint(const std::string& own, Communicator& all);

}  // namespace meshwright::exec
