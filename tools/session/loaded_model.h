// Loads a model with trained weights on one process of this computer, for calls that compute losses
// or logits and train nothing: `evaluate` and `generate`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/engine/engine.h"
#include "exec/runtime/runtime.h"
#include "models/job/job.h"
#include "tools/session/choose.h"
#include "tools/session/requests.h"
#include "tools/session/watch.h"

namespace meshwright::session {

struct LoadRequest {
  std::string checkpoint;  // a checkpoint, a run, or a folder with model.safetensors
  std::vector<std::string> allow_changed;  // keys in which job and checkpoint may differ
  std::optional<int> threads;
};

// Returns the job as one process of this computer computes it, sequence by sequence: without its
// degrees, its cluster, its dropout and the loss that balances experts, among others.
Job on_one_process(Job job);

// Returns whether the folder holds weights as transformers saves them, or the path is such a file.
bool holds_safetensors(const std::string& path);

class LoadedModel {
 public:
  // Compiles the model's forward pass and loads the weights. The settings of on_one_process() are
  // applied to `job`. Throws InputError for weights that are missing or of another model, and
  // NoPlanFits if this computer has too little memory. A computer without GPUs needs no profile,
  // because nothing is predicted.
  LoadedModel(const Job& job, const LoadRequest& how, const MachineRequest& machines,
              const Watch& watch);

  Runtime& runtime() { return *runtime_; }
  const std::string& path() const { return path_; }           // path of the weights
  std::optional<std::int64_t> step() const { return step_; }  // unset: not from a checkpoint

 private:
  void take_checkpoint(const Job& job, const std::string& folder, const LoadRequest& how,
                       const Watch& watch);
  void take_safetensors(const Job& job, const std::string& folder);

  Chosen chosen_;
  std::unique_ptr<World> world_;
  Engine engine_;
  std::unique_ptr<Runtime> runtime_;
  std::string path_;
  std::optional<std::int64_t> step_;
};

}  // namespace meshwright::session
