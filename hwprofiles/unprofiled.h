// Makes errors for words that name hardware without a profile here: instances of other clouds,
// other makers' accelerators, and GPUs that no known machine has. Each message says what to use
// instead.
#pragma once

#include <string>

namespace meshwright::hwprofiles {

// Throws InputError if `name` is a known instance of another cloud, or if `cloud` names another
// cloud. The message names the nearest machine if the instance is known, otherwise it asks for the
// GPUs. `words` are what the user wrote, of which `name` is a part.
void refuse_other_cloud(const std::string& words, const std::string& name,
                        const std::string& cloud);

// Throws InputError for accelerators and GPUs that no known machine has, and for words that name
// none at all ("8 GPUs", "my laptop", "cheapest"). Returns for other words, unless `is_counted`
// says that a number came with them: then it throws for them too.
void refuse_unprofiled(const std::string& words, const std::string& name, bool is_counted);

// Returns the message about a name that no machine has. It suggests up to four similar names, if
// there are any.
std::string unknown_machine(const std::string& name);

}  // namespace meshwright::hwprofiles
