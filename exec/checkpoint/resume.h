// Continuing from the newest checkpoint that is good, under any degrees.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "exec/checkpoint/load.h"
#include "exec/runtime/runtime.h"

namespace meshwright {

// The unsplit shape of every parameter that is saved, over all stages.
std::map<std::string, Shape> shapes_of(const std::vector<Program>& stages);

// Those of them that are not trained.
std::set<std::string> frozen_of(const std::vector<Program>& stages);

// Whether a checkpoint holds parameters that are not trained; that of a run does not.
bool holds_any(const Checkpoint& checkpoint, const std::set<std::string>& frozen);

// Of a checkpoint that has not got them, the checkpoint that holds what is not trained; none: it
// follows from the seed.
std::optional<Checkpoint> base_of(const Checkpoint& checkpoint, const std::string& folder,
                                  const std::set<std::string>& frozen);

// Throws InputError if `base` holds other weights than those that the adapters of `manifest` were
// trained on. `folder` holds both.
void check_base(const Manifest& manifest, const Checkpoint& base, const std::string& folder,
                const std::set<std::string>& frozen);

// What a checkpoint has to hold: all parameters, or those that are trained.
std::map<std::string, Shape> held_by(const Checkpoint& checkpoint,
                                     std::map<std::string, Shape> parameters,
                                     const std::set<std::string>& frozen);

// Fills this rank's weights, optimizer states and loss scale. A checkpoint of weights only leaves
// the moments at zero, one without averages lets these begin as the weights; what neither it nor
// `base` holds of parameters that are not trained stays. Working copies in 16 bits are then to be
// refreshed.
void load(const Checkpoint& checkpoint, Runtime& runtime, const Checkpoint* base = nullptr);

struct ResumeOptions {
  std::string folder;
  std::string optimizer;                    // of the job
  std::map<std::string, Shape> parameters;  // of the job's model
  std::set<std::string> frozen = {};        // those that are not trained
  // Throws an InputError that begins with `where` if the manifest is that of another job. Null: no
  // job is refused. Every rank calls it with the same manifest.
  std::function<void(const Manifest&, const std::string& where)> check_job = nullptr;
};

// Every rank calls it; they share the reading that finds damage and agree on one checkpoint. `say`
// is called on rank 0 with a line for each damaged one that is passed over, and where an average
// begins or ends. None: nothing was changed. InputError on all ranks where the newest sound one is
// of another model, optimizer or job, or where none is sound and the run began with imported
// weights. RunError where one cannot be read: it may be sound, and the run would go on without it.
// `base`, its checksum and `imported` of what is returned are those of the run's next checkpoints.
std::optional<Manifest> resume(const ResumeOptions& options, Runtime& runtime, Communicator& all,
                               const std::function<void(const std::string&)>& say);

// The complaint of the first rank that has one, on all ranks; empty: none has.
std::string first_complaint(const std::string& own, Communicator& all);

}  // namespace meshwright
