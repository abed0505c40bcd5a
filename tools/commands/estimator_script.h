// Finds the script that SageMaker would start. `launch` without a command starts it.
#pragma once

#include <string>
#include <vector>

namespace meshwright::tools {

// Returns the command of an estimator's script: the path of the entry point, and `--name value` (or
// `-n value`) for each hyperparameter that is not meant for the service. `file` is an estimator
// (SDK 2) or ModelTrainer (SDK 3) as JSON. If `file` is empty, the script is that of SageMaker's
// environment (SM_USER_ENTRY_POINT), or nothing is returned if there is none. Throws InputError if
// the JSON is wrong or the file names no script.
std::vector<std::string> estimator_script(const std::string& file);

}  // namespace meshwright::tools
