// Computes the functions and methods that Python itself has, on values that are read.
#pragma once

#include <optional>
#include <string>

#include "tools/interop/python/values.h"

namespace meshwright::interop {

// Returns what a function of Python's own returns: isinstance, getattr, hasattr, len, int, float,
// str, bool, list, tuple, range, min, max, divmod, cast, os.getenv, copy.copy and copy.deepcopy.
// Its arguments have their index as name. Returns nothing for any other function.
std::optional<json> built_in(const std::string& name, const json& given);

// Returns what a method of a value returns. An unknown method gives the object back, as
// from_hf_pretrained(...).to_megatron_provider() does, and makes an open value of a text.
json method_of(json of, const std::string& name, const json& given);

// Returns of[index]. An item of a table that is not known has the name of its key.
json indexed(const json& of, const json& index);

}  // namespace meshwright::interop
