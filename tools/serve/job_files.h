// Checks that jobs from the network name no files, except models that a server offers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace meshwright::tools {

// Throws InputError, which tells what to give instead, if a key of the job would make this computer
// read a file. Keys such as data, checkpoint.folder and log may name files, because no command that
// the server runs opens them. `name` is the job's name in messages.
void check_names_no_file(const nlohmann::json& job, const std::string& name);

// Throws InputError if `models`, the value of --models, is set and is no folder.
void check_models_folder(const std::string& models);

// Returns the job with the content of its model's file in place of the file's name, if the name is
// that of a JSON file of the folder `models`. A model's name on the Hub is replaced by that in the
// zoo. Any other job is returned as it is, also if `models` is "". Throws InputError if the file is
// no JSON.
nlohmann::json with_model_of(nlohmann::json job, const std::string& models);

}  // namespace meshwright::tools
