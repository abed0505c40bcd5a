// Machines as JSON files, one per machine, read strictly. Units are in the names of the fields and
// every block says where its numbers come from; a block without a `source` is refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright {

// The folder of the known profiles: those that are part of the program, or what MESHWRIGHT_MACHINES
// names.
std::string profiles_folder();
// The one that they name their parts from (parts.h).
std::string parts_folder();

// The price list that comes with the program: prices.json there. None where it is not.
Prices known_prices();

// By name or alias; a leading "ml." (SageMaker's spelling) is dropped. An unknown name is an
// InputError that names the nearest known one.
Machine load_machine(const std::string& name, const std::string& folder = profiles_folder());
// Empty for an unknown name.
std::optional<Machine> machine_if_known(const std::string& name,
                                        const std::string& folder = profiles_folder());

Machine load_machine_file(const std::string& path);
Machine machine_of_text(const std::string& text, const std::string& where);

// Sorted by name.
std::vector<std::string> list_machines(const std::string& folder = profiles_folder());

// A profile that machine_of_text and load_machine_file read back as the same machine.
std::string text_of(const Machine& machine);
void write_machine(const Machine& machine, const std::string& path);

}  // namespace meshwright
