// Makes a job from options of the command line, and adds a usual batch and a usual length to a job
// without them.
#pragma once

#include <string>
#include <vector>

#include "tools/session/requests.h"
#include "tools/session/watch.h"

namespace meshwright::session {

// Returns the words of --task: `pretrain`, `finetune` (all weights), `lora` (adapters) and
// `qlora` (adapters beside weights in 4 bits).
const std::vector<std::string>& task_names();

// Returns a request whose words are overrides of the job's keys, before those of `set`. Without a
// file and a text, the job is made of the words alone. Such a job, and one that the request fills
// in (fills_in), gets a length and a batch if it has none: the model's length, at most a usual one
// of the task, and the batch that the scaling law gives for the number of tokens, or a usual one if
// the law does not apply. Notes to `watch` say what was added. Throws InputError if a word is
// wrong.
JobRequest with_words(const JobRequest& request, const Watch& watch);

}  // namespace meshwright::session
