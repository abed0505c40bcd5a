// Describes the tools that a client may call. Each is a command of this program with its JSON
// output.
#pragma once

#include <string>

#include "models/core/json.h"
#include "tools/serve/answer.h"

namespace meshwright::tools::mcp {

json tool_list();  // value of `tools` in the result of tools/list

// Returns the question that a call of a tool asks. Throws Refusal if the called
// name is unknown or the arguments do not match its schema. Throws InputError if the job is
// rejected. `models` is the folder whose model files jobs may name ("": none).
Question question_of(const std::string& tool, const json& arguments,
                     const std::string& models = "");

// Returns the result of tools/call. A response that is an error is a result too, so that the model
// reads it.
json result_of(const Answer& answer);

}  // namespace meshwright::tools::mcp
