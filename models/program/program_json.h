// Writes the Programs of a job as JSON and reads them back. So Programs may also come from a file,
// and may be written by hand.
//
//   {"format": 1, "settings": {"training": {...}, "degrees": {...}, "placement", "zero_stage"},
//    "modules": ["transformer.h.0", ...],
//    "stages": [{"stage", "layout", "micro_batches", "parameters", "buckets",
//                "bodies": [{"kind", "chunk", "instructions": [...]}], "tasks", "memory", ...}]}
//
// Fields have the names that program_fields.h lists. Nearly all fields that have their default are
// left out. So is a shape of a parameter, or a part of a bucket, that equals the field from which
// it is derived. A tensor type is an element type and sizes: "f32[4,128]".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/core/fields.h"
#include "models/program/program.h"

namespace meshwright::program {

nlohmann::json to_json(const std::vector<Program>& stages);

// Returns the Programs of all stages, after check_programs(). Throws an InputError that names the
// place in the file if they are wrong. The number of an operation's operands is checked, but not
// whether their types are those that the operation demands (models/program/graph/op.h).
std::vector<Program> read_programs(Fields fields);

// Checks Programs for read_programs(): indices name something, operands are inside their buffers,
// groups and parts have the sizes of the mesh, and no rule of Programs is broken. Throws an
// InputError that begins with `where` otherwise.
void check_programs(const std::vector<Program>& stages, const std::string& where);

}  // namespace meshwright::program
