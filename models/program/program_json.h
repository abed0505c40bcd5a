// The Programs of a job as JSON, both ways: what either interpreter takes may come from a file, and
// be written by hand.
//
//   {"format": 1, "settings": {"training": {...}, "degrees": {...}, "placement", "zero_stage"},
//    "modules": ["transformer.h.0", ...],
//    "stages": [{"stage", "layout", "micro_batches", "parameters", "buckets",
//                "bodies": [{"kind", "chunk", "instructions": [...]}], "tasks", "memory", ...}]}
//
// Fields are called as in program.h and memory_plan.h (the lists: program_fields.h). What has its
// default is left out; so are a parameter's shapes and a bucket's parts where they are those before
// them. A tensor type is an element type and sizes: "f32[4,128]".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/core/fields.h"
#include "models/program/program.h"

namespace meshwright {

nlohmann::json to_json(const std::vector<Program>& stages);

// All stages, checked: InputError names the place in the file. What an operation demands of the
// number and types of its operands (models/program/graph/op.h) is not looked at.
std::vector<Program> read_programs(Fields fields);

// Checks Programs after they are read, for read_programs(): every index names something, every
// operand lies in its buffer, groups and parts have the sizes of the mesh, and no rule of Programs
// is broken. Throws an InputError that begins with `where` otherwise.
void check_programs(const std::vector<Program>& stages, const std::string& where);

}  // namespace meshwright
