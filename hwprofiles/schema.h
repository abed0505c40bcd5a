// Makes the JSON Schema (2020-12) of a machine's profile. Plain fields come from the entries of
// blocks.h, by which profiles are read too. All other fields are listed in schema.cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace meshwright::hwprofiles {

// Returns the schema. Every profile that machine_of_text() accepts is valid, and so are parts of
// profiles with a name. The reader rejects more, because the schema has no rules between fields and
// requires nearly none.
nlohmann::json profile_schema();

}  // namespace meshwright::hwprofiles
