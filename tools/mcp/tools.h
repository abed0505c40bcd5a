// What a client may call: commands of this program, with their JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/serve/answer.h"

namespace meshwright::mcp {

nlohmann::json tool_list();  // as tools/list has it

// The command that a call runs, without the program's path. Refusal: there is no such tool, or the
// arguments are not what its schema says. InputError: the job is refused.
Question question_of(const std::string& tool, const nlohmann::json& arguments, bool watched);

// As tools/call has it. An answer that is an error is a result too, so that the model reads it.
nlohmann::json result_of(const Answer& answer);

}  // namespace meshwright::mcp
