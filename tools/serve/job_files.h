// Checks that jobs from the network name no files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright::tools {

// Throws InputError, which tells what to give instead, if a key of the job would make this computer
// read a file. Keys that only `train`, `import` and `export` use (data, checkpoint.folder, log) may
// be there, because no command that the server runs opens their files. `name` is the job's in
// messages.
void check_names_no_file(const nlohmann::json& job, const std::string& name);

}  // namespace meshwright::tools
