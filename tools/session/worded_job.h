// Makes a job of words of the command line, and gives a job that leaves its batch or its length out
// usual ones.
#pragma once

#include <string>
#include <vector>

#include "tools/session/requests.h"
#include "tools/session/watch.h"

namespace meshwright::session {

// Returns the words of --task: `pretrain`, `finetune` (all weights), `lora` (adapters) and
// `qlora` (adapters beside weights in 4 bits).
const std::vector<std::string>& task_names();

// Returns a request whose words are keys of the job, before those of `set`. Without a file, the job
// is made of the words alone. If the request predicts or searches and the job says no length or no
// batch, adds them: the model's length, as far as tasks of that kind are usually as long; the batch
// that the scaling law names for the tokens, or a usual one where no law holds. `watch` hears what
// was added. Throws InputError if a word is wrong.
JobRequest with_words(const JobRequest& request, const Watch& watch);

}  // namespace meshwright::session
