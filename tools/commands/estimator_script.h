// Finds the script that SageMaker would start, for `launch` without a command.
#pragma once

#include <string>
#include <vector>

namespace meshwright::tools {

// Returns the command of an estimator's script: Python, the entry point, and `--name value` for
// each hyperparameter that is not the service's. `file` is an estimator (SDK 2) or ModelTrainer
// (SDK 3) as JSON. If it is empty, the script is that of SageMaker's environment
// (SM_USER_ENTRY_POINT). Returns nothing if there is none. Throws InputError if the file names no
// script.
std::vector<std::string> estimator_script(const std::string& file);

}  // namespace meshwright::tools
