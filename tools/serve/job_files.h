// Jobs that come over the network name no files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright {

// InputError where a key would make this computer read a file, with what to give instead. Keys that
// only `train`, `import` and `export` act on (data, checkpoint.folder, log) are names here:
// whatever the server runs opens none of them.
void check_names_no_file(const nlohmann::json& job, const std::string& name);

}  // namespace meshwright
