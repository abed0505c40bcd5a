// Answers words for hardware that has no profile here: instances of other clouds, other makers'
// accelerators, GPUs that no known machine has. Each answer says how to go on.
#pragma once

#include <string>

namespace meshwright::hwprofiles {

// Throws InputError for instances of other clouds, of which `cloud` may name one. The message names
// the nearest machine.
void refuse_other_cloud(const std::string& words, const std::string& name,
                        const std::string& cloud);

// Throws InputError for accelerators and GPUs that no known machine has, and for words that name
// none at all ("8 GPUs", "my laptop", "cheapest"). Returns if the words are none of these.
void refuse_unprofiled(const std::string& words, const std::string& name, bool is_counted);

// Returns the message about a name that no machine has, with the nearest one.
std::string unknown_machine(const std::string& name);

}  // namespace meshwright::hwprofiles
