// Reads machines from JSON files and writes them. Each machine has a file, which may name parts
// (parts.h). Reading is strict: an unknown key is an error, and so is a block that has no `source`
// once the parts are merged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/machine.h"

namespace meshwright::hwprofiles {

// Returns the folder of the known profiles: those that are part of the program, or the folder that
// MESHWRIGHT_MACHINES names.
std::string profiles_folder();
// Returns the folder in which these profiles find their parts (parts.h).
std::string parts_folder();

// Returns the price list that comes with the program, prices.json in the parts folder, or no prices
// if the file is missing.
Prices known_prices();

// Loads a machine by name or alias. A leading "ml." (SageMaker's spelling) is dropped. Throws
// InputError if the name is unknown. Its message suggests known machines with similar names.
Machine load_machine(const std::string& name, const std::string& folder = profiles_folder());
// Loads a machine, or returns none if the name is unknown.
std::optional<Machine> machine_if_known(const std::string& name,
                                        const std::string& folder = profiles_folder());

Machine load_machine_file(const std::string& path);
Machine machine_of_text(const std::string& text, const std::string& where);

// Returns the names of the machines, sorted.
std::vector<std::string> list_machines(const std::string& folder = profiles_folder());

// Returns a profile that machine_of_text() and load_machine_file() read back as an equal machine.
// Prices are not in it.
std::string text_of(const Machine& machine);
void write_machine(const Machine& machine, const std::string& path);

}  // namespace meshwright::hwprofiles
